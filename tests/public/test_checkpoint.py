"""checkpoint: the same numbers and gradients as without it, and nothing kept in between."""

import gc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad import GraphError, autograd, nn
from minigrad.autograd import checkpoint
from minigrad.nn import functional as F
from tests.core.gradients import assert_equal, leaf


def plainly(function, *args, **kwargs):
    return function(*args, **kwargs)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)
        self.dropout = nn.Dropout(0.4)

    def forward(self, x, scale=1.0):
        return x + scale * self.dropout(self.down(F.gelu(self.up(x))))


def gradients(run, create_graph=False):
    """Loss, gradients and the next draw of a stack of three blocks, each called by `run`."""
    mg.manual_seed(3)
    blocks = [Block() for _ in range(3)]
    x = mg.randn(5, 4, requires_grad=True)
    y = x
    for block in blocks:
        y = run(block, y, scale=0.5)
    loss = y.square().sum()
    leaves = [x, *(p for block in blocks for p in block.parameters())]
    if create_graph:
        (g,) = autograd.grad(loss, x, create_graph=True)
        loss = (g * g).sum()
    loss.backward()
    return [loss, *(p.grad for p in leaves), mg.rand(2), F.dropout(mg.ones(20), 0.5)]


def assert_same_run(run, **options):
    for ours, expected in zip(gradients(run, **options), gradients(plainly, **options), strict=True):
        assert_equal(ours, expected.array, rtol=2e-5, atol=1e-6)


def test_checkpointing_changes_no_value():
    assert_same_run(checkpoint)


def test_nested_checkpoints():
    assert_same_run(
        lambda block, x, **kw: checkpoint(lambda x: checkpoint(block, checkpoint(mg.clone, x), **kw), x)
    )


def test_checkpoint_supports_higher_order_gradients():
    assert_same_run(checkpoint, create_graph=True)
    assert_same_run(
        lambda block, x, **kw: checkpoint(lambda x: checkpoint(block, x, **kw), x), create_graph=True
    )
    f = lambda x: checkpoint(lambda x: x**4, x)
    assert_equal(mg.func.grad(mg.func.grad(mg.func.grad(f)))(np.float64(2.0)), 48)
    mg.gradcheck(lambda x: checkpoint(lambda x: (x.exp() * x).sum(), x), leaf(0.3, -0.5), order=2)


def test_checkpoint_returns_nested_structures():
    x = leaf(1, 2)
    c = mg.tensor(np.array([3.0, 4.0]))

    def function(x, c, number, flag=None):
        return {"a": x * c, "b": (x.exp(), [x.argmax(), c, "text"]), "same": x, "n": number if flag else None}

    out = checkpoint(function, x, c, 5, flag=True)
    assert out["same"] is x
    assert out["b"][1][1] is c
    assert out["b"][1][2] == "text"
    assert out["n"] == 5
    (out["a"].sum() + (out["b"][0] * out["a"]).sum()).backward()
    e = np.exp([1, 2])
    assert_equal(x.grad, c.array + e * x.array * c.array + e * c.array)


def test_hooks_around_a_checkpoint_run_once():
    x = leaf(1, 2)
    seen = []
    y = x * 2
    for tensor in (x, y):
        tensor.register_hook(lambda g: seen.append(g.array.copy()))
    z = checkpoint(lambda y: y * y * x, y)
    z.register_hook(lambda g: seen.append("z"))
    (z.sum() + y.sum()).backward()
    assert seen[0] == "z"
    assert len(seen) == 3
    assert_equal(x.grad, 12 * x.array**2 + 2)


def test_the_gradient_with_respect_to_an_intermediate():
    x = leaf(1, 2)
    y = x * 2
    (g,) = autograd.grad(checkpoint(lambda y: y**3, y).sum(), y)
    assert_equal(g, 3 * y.array**2)


def test_checkpoint_under_no_grad_records_nothing():
    x = leaf(1, 2)
    with mg.no_grad():
        y = checkpoint(lambda x: x * 2, x)
    assert y.is_leaf
    assert not y.requires_grad
    assert not checkpoint(lambda x: x * 2, mg.ones(2)).requires_grad


def test_checkpoint_keeps_no_inner_results():
    inner = []

    def function(x):
        h = (x * 2).exp()
        inner.append(weakref.ref(h.array))
        return (h * h).sin()

    x = leaf(1, 2)
    y = x + 0
    z = checkpoint(function, y)
    assert inner[0]() is None
    loss = z.sum()
    argument = weakref.ref(y.array)
    del y, z
    assert argument() is not None
    loss.backward()
    assert len(inner) == 2
    assert inner[1]() is None
    assert argument() is None


def test_checkpoint_is_freed_by_reference_counting():
    gc.collect()
    gc.disable()
    try:
        x = leaf(1, 2)
        y = checkpoint(lambda x: (x.exp(), x.sin()), x)
        refs = [weakref.ref(y[0].node.node), weakref.ref(y[0].array)]
        del y
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


def test_a_retained_graph_recomputes_the_checkpoint():
    calls = []
    x = leaf(1, 2)
    y = checkpoint(lambda x: calls.append(1) or x * x, x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert_equal(x.grad, [4, 8])
    assert len(calls) == 3
    with pytest.raises(GraphError, match=r"sum .*a second time"):
        y.backward()


def test_freed_checkpoint_results_are_recomputed():
    x = leaf(0.5, 1.0)
    z = checkpoint(lambda x: x**3, x * 1).sin().sum()  # no name keeps any of them
    (g,) = autograd.grad(z, x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x)
    cube = x.array**3
    assert_equal(h, -np.sin(cube) * 9 * x.array**4 + np.cos(cube) * 6 * x.array)


# ---------------------------------------------------------------- mistakes


def test_recomputing_a_different_shape_raises():
    sizes = iter([2, 3])
    x = leaf(1, 2)
    y = checkpoint(lambda x: x.expand(next(sizes), 2), x)
    with pytest.raises(GraphError, match=r"got float64\[3, 2\], not float64\[2, 2\] as before"):
        y.sum().backward()


def test_recomputing_a_different_structure_raises():
    results = iter([lambda x: (x * 2, x), lambda x: [x * 2]])
    y, _ = checkpoint(lambda x: next(results)(x), leaf(1, 2))
    with pytest.raises(GraphError, match=r"got \[\*\], not \(\*, \*\) as before"):
        y.sum().backward()


def test_rebinding_a_closure_variable_before_backward_raises():
    x = leaf(1, 2)
    y = x * 2
    y = checkpoint(lambda: y * 3)
    with pytest.raises(
        GraphError, match=r"result of checkpoint \(recorded at .*test_checkpoint[\s\S]*arguments"
    ):
        y.sum().backward()


@pytest.mark.parametrize("create_graph", [False, True])
def test_changing_a_checkpoint_argument_in_place_raises(create_graph):
    for i in range(2):
        arguments = [leaf(1, 2), mg.ones(2, dtype="float64")]
        y = checkpoint(lambda x, c: x * c, *arguments)
        with mg.no_grad():
            arguments[i].add_(1)
        with pytest.raises(GraphError, match=r"checkpoint .* needs its input .* changed since by add_"):
            autograd.grad(y.sum(), arguments[0], create_graph=create_graph)


def test_errors_while_recomputing_restore_the_rng_state():
    runs = []

    def function(x):
        runs.append(mg.rand(3))
        if len(runs) == 2:
            raise RuntimeError("on purpose")
        return x * runs[-1]

    mg.manual_seed(0)
    y = checkpoint(function, leaf(1, 2, 3)).sum()
    with pytest.raises(RuntimeError, match="on purpose"):
        y.backward()
    after = mg.rand(3)
    assert_equal(runs[0], runs[1].array)
    mg.manual_seed(0)
    mg.rand(3)
    assert_equal(mg.rand(3), after.array)


def test_checkpointed_layers_keep_only_their_inputs():
    from benchmarks.memory import retained_by_ours

    blocks = [Block() for _ in range(6)]
    given = [x := mg.randn(50, 4, requires_grad=True), *(p for block in blocks for p in block.parameters())]

    def kept(run):
        y = x
        for block in blocks:
            y = run(block, y)
        return retained_by_ours(y, given)

    assert kept(checkpoint) == 5 * x.array.nbytes
    assert kept(plainly) > 4 * kept(checkpoint)
