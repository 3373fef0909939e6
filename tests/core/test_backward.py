"""`backward`: what adds up, what is freed, hooks, ops with several results, and what rules may return."""

import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad import autograd
from minigrad.core.errors import GraphError, OptionError, ShapeError
from minigrad.ops import differentiable
from tests.core.gradients import assert_equal, leaf
from tests.leaves import vector

# ---------------------------------------------------------------- accumulation


def test_backward_does_not_change_the_gradient_argument():
    x = leaf(1, 2)
    g = np.array([1.0, 1.0])
    (x + 0).backward(g)
    (x + 0).backward(g)
    assert_equal(x.grad, [2, 2])
    assert_equal(g, [1, 1])


def test_gradients_returned_by_grad_share_no_memory():
    x = leaf(1, 2)
    y = x + 1
    dy, dx = autograd.grad(y.sum(), [y, x])
    dx.zero_()
    assert_equal(dy, [1, 1])


def test_accumulating_into_a_grad_used_by_a_graph_raises():
    x, w = leaf(1, 2), leaf(5, 5)
    (x * x).sum().backward()
    loss = (w * x.grad).sum()
    x.sum().backward()
    with pytest.raises(GraphError, match="multiply"):
        loss.backward()


# ---------------------------------------------------------------- freeing


def test_a_second_backward_names_op_and_line():
    x = leaf(1, 2)
    y = x.exp().sum()
    y.backward()
    named = r"sum \(recorded at .*test_backward\.py:\d+\)[\s\S]*retain_graph=True"
    with pytest.raises(GraphError, match=named):
        y.backward()
    with pytest.raises(GraphError, match="first backward freed it"):
        autograd.grad(y, x, allow_unused=True)


def test_backward_frees_saved_arrays():
    x = leaf(1, 2)
    y = x.exp()
    loss = (y * y).sum()
    array = weakref.ref(y.array)
    del y
    assert array() is not None
    loss.backward()
    assert array() is None


def test_keeping_a_loss_does_not_keep_its_freed_graph():
    x = leaf(1, 2)
    y = x.exp()
    loss = y.sum()
    node = weakref.ref(y.node)
    del y
    loss.backward()
    assert node() is None


def test_a_node_keeps_only_what_its_gradient_needs():
    x = leaf(1, 2)
    y = x * 2
    array = weakref.ref(y.array)
    z = y + 1
    del y
    assert array() is None
    z.sum().backward()
    assert_equal(x.grad, [2, 2])


# ---------------------------------------------------------------- recording or not


def test_nothing_is_recorded_under_no_grad():
    x = leaf(1, 2)
    with mg.no_grad():
        y = x * 2
        with mg.enable_grad():
            z = x * 2
    assert not y.requires_grad
    assert y.is_leaf
    assert z.requires_grad
    assert mg.is_grad_enabled()


def test_detach_shares_memory_outside_the_graph():
    x = leaf(1, 2)
    y = x * 2
    d = y.detach()
    assert d.is_leaf
    assert not d.requires_grad
    assert np.shares_memory(d.array, y.array)
    (y * d).sum().backward()
    assert_equal(x.grad, 2 * d.array)


# ---------------------------------------------------------------- hooks


def test_a_leafs_hook_sees_the_whole_gradient_and_may_replace_it():
    x = leaf(1, 2)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.numpy().copy()) or g * 10)
    (x * 2 + x * 3).sum().backward()
    assert len(seen) == 1
    assert_equal(seen[0], [5, 5])
    assert_equal(x.grad, [50, 50])
    handle.remove()
    x.grad = None
    x.sum().backward()
    assert_equal(x.grad, [1, 1])


def test_tensors_returned_by_a_hook_are_not_modified():
    x = leaf(1, 2)
    kept = mg.tensor(np.array([7.0, 7.0]))
    y = x * x
    for tensor in (x, y):
        tensor.register_hook(lambda g: kept)
    (dy,) = autograd.grad((y * y).sum(), y, retain_graph=True)
    y.sum().backward()
    dy.zero_()
    x.grad.zero_()
    assert_equal(kept, [7, 7])


def test_hooks_on_one_of_several_outputs():
    x = leaf(1, 2, 3)
    a, b = x.split([1, 2])
    b.register_hook(lambda g: g * 0)
    gb, gx = autograd.grad(a.sum() + (b * b).sum(), [b, x])
    assert_equal(gb, [0, 0])
    assert_equal(gx, [1, 0, 0])


def test_hooks_cannot_change_the_gradient_shape():
    x = leaf(1, 2)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(ShapeError, match="hook"):
        (x * 2).sum().backward()


def test_hooks_run_with_create_graph():
    x = leaf(2)
    x.register_hook(lambda g: g * 3)
    (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
    assert_equal(g, [36])
    assert g.requires_grad


def test_a_handle_removes_its_own_hook_only():
    x = vector(1.0)
    seen = []
    first = x.register_hook(lambda g: seen.append("first"))
    first.remove()
    x.register_hook(lambda g: seen.append("second"))
    first.remove()
    (x * 2).backward()
    assert seen == ["second"]


def test_a_hook_is_removed_at_the_end_of_a_with_statement():
    x = mg.ones(1, requires_grad=True)
    with x.register_hook(lambda g: 10 * g) as handle:
        (2 * x).sum().backward()
    (2 * x).sum().backward()
    assert x.grad.tolist() == [22]
    handle.remove()
    with pytest.raises(ZeroDivisionError), x.register_hook(lambda g: 10 * g):
        divmod(1, 0)
    (2 * x).sum().backward()
    assert x.grad.tolist() == [24]


def test_retain_grad_stores_the_gradient_after_hooks():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert y.grad.tolist() == [10.0, 10.0]
    assert x.grad.tolist() == [20.0, 20.0]


def test_a_hook_does_not_change_a_gradients_dtype():
    x = mg.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: g.double())
    x.sum().backward()
    assert x.grad.dtype == mg.float32


# ---------------------------------------------------------------- ops with several results


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_unused_results_of_an_op_have_zero_gradient(used):
    x = vector(1.0, 2.0, 3.0)
    parts = x.split([1, 2])
    sum((parts[i] * parts[i]).sum() for i in used).backward()
    assert x.grad.tolist() == [2 * (0 in used), 4 * (1 in used), 6 * (1 in used)]
    assert x.grad.dtype == mg.float32


def test_results_of_one_op_can_be_differentiated_twice():
    x = leaf(1, 2, 3)
    a, b = x.split([1, 2])
    (g,) = autograd.grad((a * b).sum(), x, create_graph=True)
    assert_equal(g, [5, 1, 1])
    g[0].backward()
    assert_equal(x.grad, [0, 1, 1])


# ---------------------------------------------------------------- what rules may return


def test_rules_without_a_gradient_can_be_differentiated_twice():
    @differentiable
    def scaled_by(x, factor, /):
        return x * factor, (lambda g: g * factor, None)

    x, factor = leaf(1, 2), leaf(3, 4)
    (g,) = autograd.grad((scaled_by(x, factor) ** 2).sum(), x, create_graph=True)
    assert_equal(g, [18, 64])
    (g * g).sum().backward()
    assert_equal(x.grad, 2 * np.array([18, 64]) * [18, 32])


def test_kernels_may_return_one_array_for_several_gradients():
    def kernel(x, y):
        def gradient(g, needs):
            both = g * 1
            return both, both

        return x + y, gradient

    @mg.ops.composite(kernel=kernel)
    def plus(x, y, /):
        return x + y

    x, y = leaf(1, 2), leaf(3, 4)
    plus(x, y).sum().backward()
    (x * 2).sum().backward()
    assert_equal(x.grad, [3, 3])
    assert_equal(y.grad, [1, 1])


def test_second_gradients_of_a_composite_stop_at_its_inputs(monkeypatch):
    """Its own gradient stops there: the work grows with the graph, not with its square."""
    seen = []
    original = autograd.grad.__wrapped__.__globals__["nodes_behind"]

    def counted(edges, ends=()):
        found = original(edges, ends)
        seen.append(len(found))
        return found

    monkeypatch.setitem(autograd.grad.__wrapped__.__globals__, "nodes_behind", counted)
    y = x = leaf(0.1, 0.2, 0.3)
    for _ in range(20):
        y = y.softmax(-1) + 1
    autograd.grad((y * y).sum(), x, create_graph=True)
    assert max(seen[1:]) < 20


# ---------------------------------------------------------------- generators


def test_a_mode_on_a_generator_does_not_affect_its_caller():
    seen = []

    @mg.no_grad()
    def rows():
        """Rows."""
        try:
            sent = yield mg.is_grad_enabled()
            yield mg.is_grad_enabled(), sent
            return "end"
        finally:
            seen.append(mg.is_grad_enabled())

    assert rows.__doc__ == "Rows."
    generator = rows()
    assert next(generator) is False
    assert mg.is_grad_enabled()
    assert generator.send("sent") == (False, "sent")
    with pytest.raises(StopIteration, match="end"):
        next(generator)
    generator = rows()
    next(generator)
    with pytest.raises(KeyError):
        generator.throw(KeyError("thrown"))
    with mg.no_grad(), mg.enable_grad():
        generator = rows()
        next(generator)
        generator.close()
        assert mg.is_grad_enabled()
    assert mg.is_grad_enabled()
    assert seen == [False] * 3


def test_modes_cannot_decorate_coroutines_or_classes():
    async def later():
        return mg.ones(1)

    for function in (later, type("Model", (), {})):
        with pytest.raises(OptionError, match=r"no_grad decorates functions, but .* is a class"):
            mg.no_grad()(function)
