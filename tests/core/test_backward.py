"""The tape: what backward() adds where, what it keeps and frees, and what it refuses."""

import gc
import re
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad import autograd
from minigrad.core.errors import GraphError, OptionError, ShapeError
from minigrad.core.registry import ops, registry
from minigrad.ops import differentiable
from tests.leaves import message


def leaf(*data, shape=None):
    return mg.tensor(np.array(data, dtype=np.float64).reshape(shape or len(data)), requires_grad=True)


def assert_equal(x, expected, rtol=1e-12):
    np.testing.assert_allclose(np.asarray(x), expected, rtol=rtol)


# ---------------------------------------------------------------- accumulation


def test_a_second_backward_adds_to_the_gradient():
    x = leaf(1, 2)
    (x * 3).sum().backward()
    (x * x).sum().backward()
    assert_equal(x.grad, [5, 7])


def test_a_fan_out_adds_the_gradients_of_all_uses():
    x = leaf(1, 2)
    y = x * 2
    (y * y + y.exp() + y).sum().backward()
    assert_equal(x.grad, 2 * (2 * y.array + np.exp(y.array) + 1))


def test_gradients_that_begin_as_one_array_do_not_become_one():
    x, y = leaf(1, 2), leaf(3, 4)
    s = x + y
    (s.sum() + (x * 10).sum()).backward()
    assert_equal(x.grad, [11, 11])
    assert_equal(y.grad, [1, 1])
    x.grad.zero_()
    assert_equal(y.grad, [1, 1])


def test_the_gradient_given_to_backward_stays_the_callers():
    x, g = leaf(1, 2), np.array([1.0, 1.0])
    (x + 0).backward(g)
    (x + 0).backward(g)
    assert_equal(x.grad, [2, 2])
    assert_equal(g, [1, 1])


def test_what_grad_returns_is_the_callers():
    x = leaf(1, 2)
    y = x + 1
    dy, dx = autograd.grad(y.sum(), [y, x])
    dx.zero_()
    assert_equal(dy, [1, 1])


def test_an_accumulating_gradient_is_not_changed_under_a_graph_that_uses_it():
    x, w = leaf(1, 2), leaf(5, 5)
    (x * x).sum().backward()
    loss = (w * x.grad).sum()
    x.sum().backward()
    with pytest.raises(GraphError, match="multiply"):
        loss.backward()


def test_a_broadcast_operands_gradient_is_summed():
    x, y, z = leaf(1, 2), leaf(3, shape=(1, 1)), leaf(4, shape=())
    (x * y * z).backward(np.ones((1, 2)))
    assert_equal(x.grad, [12, 12])
    assert_equal(y.grad, [[12]])
    assert_equal(z.grad, 9)


# ---------------------------------------------------------------- freeing


def test_a_second_backward_through_a_graph_names_the_op_and_the_line():
    x = leaf(1, 2)
    y = x.exp().sum()
    y.backward()
    with pytest.raises(
        GraphError, match=r"sum \(recorded at .*test_backward\.py:\d+\)[\s\S]*retain_graph=True"
    ):
        y.backward()


def test_a_retained_graph_can_be_walked_again():
    x = leaf(1, 2)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    assert_equal(x.grad, 2 * np.exp([1, 2]))


def test_backward_lets_each_array_go_as_it_passes():
    x = leaf(1, 2)
    y = x.exp()
    loss = (y * y).sum()
    array = weakref.ref(y.array)
    del y
    assert array() is not None
    loss.backward()
    assert array() is None


def test_a_loss_that_is_kept_does_not_keep_the_graph_behind_it():
    x = leaf(1, 2)
    y = x.exp()
    loss = y.sum()
    node = weakref.ref(y.node)
    del y
    loss.backward()
    assert node() is None


def test_a_graph_that_is_dropped_frees_its_arrays():
    x = leaf(1, 2)
    y = x.exp()
    array = weakref.ref(y.array)
    y = y.sum()
    del y
    assert array() is None


def test_a_node_keeps_only_what_its_gradient_needs():
    x = leaf(1, 2)
    y = x * 2
    array = weakref.ref(y.array)
    z = y + 1
    del y
    assert array() is None
    z.sum().backward()
    assert_equal(x.grad, [2, 2])


# ---------------------------------------------------------------- grad()


def test_grad_leaves_every_grad_alone():
    x = leaf(1, 2)
    (g,) = autograd.grad((x * x).sum(), x)
    assert_equal(g, [2, 4])
    assert x.grad is None


def test_grad_with_respect_to_intermediates():
    x = leaf(1, 2)
    y = x * 2
    z = y * y
    dz, dy, dx = autograd.grad(z.sum(), [z, y, x])
    assert_equal(dz, [1, 1])
    assert_equal(dy, 2 * y.array)
    assert_equal(dx, 4 * y.array)


def test_grad_does_not_walk_beyond_what_is_asked():
    x = leaf(1, 2)
    y = x.exp()
    autograd.grad((y * y).sum(), y)
    y.sum().backward()  # exp was neither run nor freed
    assert_equal(x.grad, y.array)


def test_grad_computes_nothing_for_what_is_not_asked():
    calls = []
    x, w = leaf(1, 2), leaf(3, 4)
    w.register_hook(calls.append)
    autograd.grad((x * w).sum(), x)
    assert calls == []
    assert w.grad is None


def test_an_input_asked_for_twice_is_given_twice():
    x = leaf(1, 2)
    first, second = autograd.grad((x * x).sum(), [x, x])
    first.zero_()
    assert_equal(second, [2, 4])


def test_an_unused_input_is_refused_or_none():
    x, y = leaf(1), leaf(2)
    with pytest.raises(GraphError, match=r"shapes \[\(1,\)\] were not used"):
        autograd.grad((x * 2).sum(), [x, y])
    assert autograd.grad((x * 2).sum(), [x, y], allow_unused=True)[1] is None


def test_an_unused_input_has_a_zero_gradient_where_it_is_materialized():
    x, y = leaf(1), leaf(2, 3)
    dx, dy = autograd.grad((x * 2).sum(), [x, y], materialize_grads=True)
    assert_equal(dx, [2])
    assert_equal(dy, [0, 0])
    assert_equal(autograd.grad((x * 2).sum(), x, None, None, False, True, True)[0], [2])  # torch's order


def test_an_input_without_requires_grad_is_refused():
    x = leaf(1)
    with pytest.raises(GraphError, match="does not require a gradient"):
        autograd.grad((x * 2).sum(), mg.zeros(1))


def test_several_outputs_with_weights_of_their_own():
    x = leaf(1, 2)
    y, z = x * 2, x * x
    (g,) = autograd.grad([y, z], x, [np.array([1.0, 0.0]), mg.tensor([0.0, 1.0])])
    assert_equal(g, [2, 4])
    with pytest.raises(OptionError, match="grad_outputs"):
        autograd.grad([x * 2, x * x], x, [None])


def test_a_single_outputs_weights_may_be_an_array():
    x = leaf(1, 2)
    assert_equal(autograd.grad(x * x, x, np.array([1.0, 10.0]))[0], [2, 40])


def test_a_gradient_of_the_wrong_shape_is_refused():
    x = leaf(1, 2)
    with pytest.raises(ShapeError, match=r"\(3,\)[\s\S]*\(2,\)"):
        (x * x).backward(np.ones(3))


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


def test_no_grad_ends_with_an_exception_and_decorates():
    @mg.no_grad()
    def fails(x):
        assert not (x * 2).requires_grad
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        fails(leaf(1))
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


def test_constants_are_not_recorded():
    assert (mg.ones(2) * 2).is_leaf


# ---------------------------------------------------------------- hooks


def test_a_leafs_hook_sees_the_whole_gradient_and_may_replace_it():
    x, seen = leaf(1, 2), []
    handle = x.register_hook(lambda g: seen.append(g.numpy().copy()) or g * 10)
    (x * 2 + x * 3).sum().backward()
    assert len(seen) == 1
    assert_equal(seen[0], [5, 5])
    assert_equal(x.grad, [50, 50])
    handle.remove()
    x.grad = None
    x.sum().backward()
    assert_equal(x.grad, [1, 1])


def test_an_intermediates_hook_changes_what_flows_on():
    x = leaf(1, 2)
    y = x * 3
    y.register_hook(lambda g: g * 2)
    (y * y).sum().backward()
    assert_equal(x.grad, 3 * 2 * 2 * y.array)


def test_what_a_hook_returns_stays_the_hooks():
    x, kept = leaf(1, 2), mg.tensor(np.array([7.0, 7.0]))
    y = x * x
    for tensor in (x, y):
        tensor.register_hook(lambda g: kept)
    (dy,) = autograd.grad((y * y).sum(), y, retain_graph=True)
    y.sum().backward()
    dy.zero_()
    x.grad.zero_()
    assert_equal(kept, [7, 7])


def test_a_hook_on_one_of_several_results():
    x = leaf(1, 2, 3)
    a, b = x.split([1, 2])
    b.register_hook(lambda g: g * 0)
    gb, gx = autograd.grad(a.sum() + (b * b).sum(), [b, x])
    assert_equal(gb, [0, 0])
    assert_equal(gx, [1, 0, 0])


def test_a_hook_cannot_change_the_shape():
    x = leaf(1, 2)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(ShapeError, match="hook"):
        (x * 2).sum().backward()


def test_a_hook_runs_on_differentiable_gradients_too():
    x = leaf(2)
    x.register_hook(lambda g: g * 3)
    (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
    assert_equal(g, [36])
    assert g.requires_grad


def test_retain_grad_keeps_an_intermediates_gradient():
    x = leaf(1, 2)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    assert_equal(y.grad, 2 * y.array)


# ---------------------------------------------------------------- ops with several results


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_the_unused_results_of_an_op_count_as_zero(used):
    x = leaf(1, 2, 3)
    parts = x.split([1, 2])
    sum((parts[i] * parts[i]).sum() for i in used).backward()
    assert_equal(x.grad, np.concatenate([2 * x.array[:1] * (0 in used), 2 * x.array[1:] * (1 in used)]))


def test_an_unused_result_does_not_widen_the_gradient():
    x = mg.ones(3, requires_grad=True)
    x.split([1, 2])[0].sum().backward()
    assert x.grad.dtype == mg.float32


def test_results_of_one_op_can_be_differentiated_twice():
    x = leaf(1, 2, 3)
    a, b = x.split([1, 2])
    (g,) = autograd.grad((a * b).sum(), x, create_graph=True)
    assert_equal(g, [5, 1, 1])
    g[0].backward()
    assert_equal(x.grad, [0, 1, 1])


def test_max_along_an_axis_gives_the_gradient_to_its_place():
    x = leaf(1, 5, 3, 4, 2, 0, shape=(2, 3))
    values, indices = x.max(dim=1)
    assert not indices.requires_grad
    values.sum().backward()
    assert_equal(x.grad, [[0, 1, 0], [1, 0, 0]])


# ---------------------------------------------------------------- higher order


def derivatives(function, x, order):
    y = function(x)
    for _ in range(order):
        (y,) = autograd.grad(y.sum(), x, create_graph=True)
    return y


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    ("function", "closed_forms"),
    [
        (lambda x: x**4, [lambda x: 4 * x**3, lambda x: 12 * x**2, lambda x: 24 * x]),
        (lambda x: x.exp() * x, [lambda x, k=k: (x + k) * np.exp(x) for k in (1, 2, 3)]),
        (lambda x: x.sin(), [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]),
        (lambda x: x.log(), [lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3]),
        (lambda x: 1 / x, [lambda x: -1 / x**2, lambda x: 2 / x**3, lambda x: -6 / x**4]),
        (lambda x: x.sqrt(), [lambda x: 0.5 * x**-0.5, lambda x: -0.25 * x**-1.5, lambda x: 0.375 * x**-2.5]),
    ],
    ids=["power", "product", "sin", "log", "reciprocal", "sqrt"],
)
def test_derivatives_to_third_order(function, closed_forms, order):
    x = leaf(0.5, 1.0, 3.0)
    assert_equal(derivatives(function, x, order), closed_forms[order - 1](x.array))


def test_the_gradient_of_a_gradient_norm():
    w, x = leaf(1, 2), leaf(3, 5)
    (g,) = autograd.grad(((w * x).sum()) ** 2, x, create_graph=True)  # 2 (w.x) w
    (g * g).sum().backward()
    s = float(w.array @ x.array)
    assert_equal(x.grad, 8 * s * (w.array @ w.array) * w.array)


def test_backward_with_create_graph_leaves_gradients_that_can_be_differentiated():
    x = leaf(2)
    (x**3).sum().backward(create_graph=True)
    (g,) = autograd.grad(x.grad.sum(), x)
    assert_equal(g, [12])


def test_a_second_derivative_with_respect_to_a_live_intermediate():
    x = leaf(2)
    y = x * 3
    (g,) = autograd.grad((y**3).sum(), y, create_graph=True)
    (h,) = autograd.grad(g.sum(), y)
    assert_equal(h, 6 * y.array)


def test_intermediates_that_were_let_go_are_rebuilt():
    x = leaf(0.5, 1.0)
    z = (((x * 2).sin() + 1).exp()).sum()  # no name keeps any of them
    (g,) = autograd.grad(z, x, create_graph=True)
    inside = np.exp(np.sin(2 * x.array) + 1)
    assert_equal(g, 2 * np.cos(2 * x.array) * inside)
    (h,) = autograd.grad(g.sum(), x)
    assert_equal(h, 4 * inside * (np.cos(2 * x.array) ** 2 - np.sin(2 * x.array)))


def test_a_rebuilt_piece_of_several():
    x = leaf(1, 2)
    y = (x.split(1)[1] ** 3).sum()
    (g,) = autograd.grad(y, x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x)
    assert_equal(h, [0, 12])


def test_mixed_derivatives():
    x, y = leaf(2.0), leaf(3.0)
    (gx,) = autograd.grad((x**2 * y**3).sum(), x, create_graph=True)
    (gxy,) = autograd.grad(gx.sum(), y)
    assert_equal(gxy, 2 * 2 * 3 * 3**2)


# ---------------------------------------------------------------- depth, memory, exceptions


@differentiable
def counted(x, /):
    """x + 1, counting how often its gradient is asked for."""

    def gradient(g):
        counted.calls += 1
        return g

    return x + 1, (gradient,)


counted.calls = 0
del ops["counted"], registry["counted"]


def chain(x, n, step=lambda y: y + 1):
    for _ in range(n):
        x = step(x)
    return x


@pytest.mark.parametrize("n", [10_000, 20_000])
def test_backward_asks_each_of_many_ops_once(n):
    counted.calls = 0
    x = leaf(1.0)
    chain(x, n, counted).backward()
    assert counted.calls == n
    assert_equal(x.grad, [1])


@pytest.fixture
def shallow():
    """A recursion limit that any recursion over a graph would meet."""
    before, depth = sys.getrecursionlimit(), 0
    frame = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 120)
    yield
    sys.setrecursionlimit(before)


DEEP = {
    "backward": lambda x, y: y.sum().backward(),
    "grad": lambda x, y: autograd.grad(y.sum(), x),
    "create_graph": lambda x, y: autograd.grad(
        autograd.grad((y * y).sum(), x, create_graph=True)[0].sum(), x
    ),
    "dropped": lambda x, y: None,
    "func.grad": lambda x, y: mg.func.grad(lambda x: chain(x, 3_000, lambda y: y * 1.0001).sum())(x),
    "checkpoint": lambda x, y: autograd.checkpoint(chain, y, 3_000).sum().backward(),
    "anomaly": lambda x, y: autograd.detect_anomaly()(y.sum().backward)(),
}


@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize("use", DEEP.values(), ids=list(DEEP))
def test_nothing_recurses_over_a_long_chain(use):
    x = leaf(1.0)
    y = chain(x, 20_000 if use in (DEEP["backward"], DEEP["dropped"]) else 3_000, lambda y: y * 1.0001)
    use(x, y)
    alive = weakref.ref(y.node)
    del y
    assert alive() is None, "the chain is freed with its end"


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def a_step(x, w):
    h = (x @ w).tanh()
    h = mg.cat([h.softmax(-1), (h * h).exp()], dim=1)
    h.split(2, dim=1)[0].sum().backward()


@pytest.mark.usefixtures("no_collector")
def test_after_backward_memory_is_back_where_it_was():
    x, w = mg.randn(64, 64, requires_grad=True), mg.randn(64, 64, requires_grad=True)
    a_step(x, w)
    gc.collect()  # of what compiling a kernel for the first time leaves
    tracemalloc.start()
    try:
        for _ in range(20):  # Python keeps some of the tuples and dicts that are let go, up to a limit
            a_step(x, w)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            a_step(x, w)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 64 * 64 * 4  # less than one of its arrays
    assert gc.collect() == 0


def broken(*_):
    raise RuntimeError("on purpose")


@differentiable
def raising(x, /, when):
    """x, or an exception, in the forward pass or in the backward pass."""
    if when == "forward":
        broken()
    return x * 1, (broken,)


del ops["raising"], registry["raising"]

FAILURES = {
    "a rule": lambda h: raising(h, when="forward").sum().backward(),
    "a gradient": lambda h: raising(h, when="backward").sum().backward(),
    "a hook": lambda h: h.register_hook(broken) and (h * h).sum().backward(),
    "a replay": lambda h: autograd.grad(raising(h, when="backward").sum(), h, create_graph=True),
    "a checkpoint": lambda h: autograd.checkpoint(lambda h: raising(h, when="backward"), h).sum().backward(),
    "a function's grad": lambda h: mg.func.grad(lambda h: raising(h * h, when="backward").sum())(h),
    "a shape": lambda h: (h @ h.reshape(-1)[:3]).sum().backward(),
}


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("fail", FAILURES.values(), ids=list(FAILURES))
def test_an_exception_leaves_nothing_behind(fail):
    def run():
        h = (leaf(1, 2, 3, 4, shape=(2, 2)) * 2).exp()
        refs.append(weakref.ref(h))
        refs.append(weakref.ref(h.node))
        fail(h)

    refs = []
    with pytest.raises(Exception, match=r"on purpose|matmul"):
        run()
    assert [ref() for ref in refs] == [None, None]
    assert gc.collect() == 0


def test_a_gradient_that_a_hook_has_kept_stays_as_it_was():
    x, kept = leaf(1.0), []
    x.register_hook(kept.append)
    for _ in range(2):
        (x * 3).sum().backward()
    assert_equal(x.grad, [6])
    assert [float(g) for g in kept] == [3, 3]


def test_flags_of_backward_may_be_numbers():
    x = leaf(2.0)
    (x * x).sum().backward(create_graph=1)
    assert x.grad.requires_grad


def test_create_graph_to_third_order_by_backward():
    x = leaf(2.0)
    y = x**4
    for expected in (32, 48, 48):
        (y,) = autograd.grad(y.sum(), x, create_graph=True)
        assert_equal(y, [expected])
    y.sum().backward()
    assert_equal(x.grad, [24])


def test_a_gradient_of_the_wrong_shape_on_a_leaf_is_an_error():
    x = leaf(1, 2)
    x.grad = mg.ones(3, dtype="float64")
    with pytest.raises(ShapeError, match=r"`\.grad` has shape \(3,\)[\s\S]*\(2,\)"):
        (x * 2).sum().backward()


def test_backward_of_what_is_not_one_number_is_an_error():
    with pytest.raises(GraphError, match=r"shape \(2,\), which is not one number[\s\S]*sum"):
        (leaf(1, 2) * 2).backward()


def test_a_leaf_changed_in_place_between_forward_and_backward_is_an_error():
    x = leaf(1, 2)
    y = (x * x).sum()
    with mg.no_grad():
        x.add_(1)
    with pytest.raises(GraphError, match="changed since by add_"):
        y.backward()


# ---------------------------------------------------------------- what rules may return


@pytest.fixture
def own_ops():
    """Ops that a test defines are forgotten after it."""
    before = dict(registry), dict(ops)
    yield
    for table, content in zip((registry, ops), before, strict=True):
        table.clear()
        table.update(content)


def test_a_rule_without_a_gradient_for_an_input_has_none_at_the_next_order_either(own_ops):
    @differentiable
    def scaled_by(x, factor, /):
        return x * factor, (lambda g: g * factor, None)

    x, factor = leaf(1, 2), leaf(3, 4)
    (g,) = autograd.grad((scaled_by(x, factor) ** 2).sum(), x, create_graph=True)
    assert_equal(g, [18, 64])
    (g * g).sum().backward()
    assert_equal(x.grad, 2 * np.array([18, 64]) * [18, 32])


def test_a_gradient_that_is_read_only_is_not_added_into(own_ops):
    @differentiable
    def same(x, /):
        return x + 0, (lambda g: np.broadcast_to(g + 0, g.shape),)

    x = leaf(1, 2)
    (same(x) + same(x) + same(x)).sum().backward()
    (same(x)).sum().backward()
    assert_equal(x.grad, [4, 4])


def test_a_gradient_with_too_few_axes_is_named(own_ops):
    @differentiable
    def total(x, /):
        return x * 1, (lambda g: g.sum(),)

    with pytest.raises(ShapeError, match=r"the rule of total .*gradient of shape \(\).*shape \(1,\)"):
        total(leaf(1)).sum().backward()


def test_a_kernel_of_the_users_that_returns_one_array_twice_shares_no_gradient(own_ops):
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


def test_the_higher_order_of_a_composite_walks_no_further_than_its_inputs(monkeypatch):
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


# ---------------------------------------------------------------- .data


def test_data_is_a_tensor_that_shares_the_memory_outside_the_graph():
    x = leaf(1, 2)
    assert isinstance(x.data, mg.Tensor)
    assert not x.data.requires_grad
    x.data.mul_(10)
    x.data -= 1.0
    assert_equal(x, [9, 19])
    x.data = mg.tensor([5.0, 6.0], dtype="float64")
    assert_equal(x, [5, 6])
    assert x.requires_grad
    assert x.is_leaf


# ---------------------------------------------------------------- generators


def test_a_decorated_generator_runs_under_the_switch_and_its_caller_does_not():
    seen = []

    @mg.no_grad()
    def rows(n):
        """Rows."""
        try:
            for i in range(n):
                try:
                    seen.append((yield mg.is_grad_enabled(), i))
                except ValueError as error:
                    yield mg.is_grad_enabled(), str(error)
            return "end"
        finally:
            seen.append(mg.is_grad_enabled())

    assert rows.__doc__ == "Rows."
    generator = rows(3)
    assert next(generator) == (False, 0)
    assert mg.is_grad_enabled()
    with mg.no_grad():
        assert generator.send("sent") == (False, 1)
    assert generator.throw(ValueError("thrown")) == (False, "thrown")
    assert mg.is_grad_enabled()
    assert next(generator) == (False, 2)
    with pytest.raises(StopIteration, match="end"):
        next(generator)
    assert seen == ["sent", None, False]
    with mg.no_grad(), mg.enable_grad():
        closed = rows(2)
        next(closed)
        closed.close()
        assert mg.is_grad_enabled()
    assert seen[-1] is False
    failing = mg.fused(False)(lambda: (yield {}["a"]))()
    with pytest.raises(KeyError):
        next(failing)
    assert mg.is_grad_enabled()
    assert mg.fused.is_enabled()


def test_switches_do_not_decorate_what_runs_later():
    async def later():
        return mg.ones(1)

    for function in (later, type("Model", (), {}), 3):
        with pytest.raises(OptionError, match=r"no_grad decorates functions, but .* is a class"):
            mg.no_grad()(function)


# ---------------------------------------------------------------- from several tensors, to chosen leaves


def test_backward_to_chosen_leaves_leaves_the_others_alone():
    x, y = leaf(1, 2), leaf(3, 4)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [3, 4]
    assert y.grad is None
    (x * y).sum().backward(inputs=x)
    assert x.grad.tolist() == [6, 8]
    for wrong in ([], x * 2, [mg.ones(2)], 3):
        with pytest.raises(mg.OptionError, match="needs leaves that require a gradient"):
            (x * y).sum().backward(inputs=wrong)


def test_backward_from_several_tensors_adds_up():
    x, y = leaf(1, 2), leaf(3, 4)
    autograd.backward([(x * y).sum(), x * 2], [None, mg.tensor([1.0, 10.0])])
    assert x.grad.tolist() == [5, 24]
    assert y.grad.tolist() == [1, 2]
    autograd.backward((x * x).sum(), inputs=[x])
    assert x.grad.tolist() == [7, 28]
    with pytest.raises(mg.OptionError, match="2 tensors need as many grad_tensors"):
        autograd.backward([x * 2, y * 2], mg.ones(2))


def test_a_grad_that_cannot_be_added_to_is_refused():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    x.grad = mg.ones(1).expand(2)
    with pytest.raises(mg.OptionError, match="its memory is read-only"):
        (x * 2).sum().backward()


def test_grad_of_a_result_warns_and_says_how_a_parameter_stays_a_leaf():
    w = mg.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    w = w - 0.1 * w.grad
    (w * w).sum().backward()
    with pytest.warns(
        UserWarning, match=r"not a leaf: subtract .*\n.*retain_grad.*no_grad\(\): w -= lr"
    ) as said:
        assert w.grad is None
    assert said[0].filename == __file__


def test_grad_does_not_warn_of_leaves_constants_and_retained_gradients():
    x = mg.tensor([1.0], requires_grad=True)
    y = x * 2
    first, second = (mg.ones(2) * x).split(1)
    for tensor in (y, first):
        tensor.retain_grad()
    assert x.grad is mg.ones(1).grad is y.grad is first.grad is None
    (y + first + second).sum().backward()
    assert y.grad.tolist() == first.grad.tolist() == [1.0]
    with pytest.warns(UserWarning, match="not a leaf"):
        second.grad  # noqa: B018
    second.grad = mg.ones(1)  # as in PyTorch, it may be assigned
    assert second.grad.tolist() == [1.0]


@pytest.mark.parametrize("op", [mg.sub, mg.mul, mg.add, mg.div, mg.matmul, mg.maximum])
def test_none_as_an_operand_speaks_of_gradients(op):
    assert "A `.grad` is None before backward()" in message(lambda: op(mg.ones(2), None))


def test_a_state_carried_over_is_to_be_detached():
    w = mg.ones(2, 2, requires_grad=True)
    h = mg.ones(2)

    def step(h):
        h = (h @ w).tanh()
        h.sum().backward()
        return h

    h = step(h)
    assert re.search(
        r"freed it\.\n.*\.detach\(\).*h = h\.detach\(\)", message(lambda: step(h), mg.errors.GraphError)
    )
    step(h.detach())
