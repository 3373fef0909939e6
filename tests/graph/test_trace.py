"""mg.graph.trace: numbers are NumPy's, gradients backward's, and nothing of the tape is touched or kept."""

import gc
import math
import random
import tracemalloc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad import DtypeError, GraphError, ShapeError, autograd, func, nn
from minigrad.autograd import checkpoint
from minigrad.core.registry import registry
from minigrad.graph import Graph, kept_graphs, named_scope, trace
from minigrad.graph.parts import parts_of
from minigrad.graph.pruning import prune
from minigrad.nn import functional as F
from minigrad.ops.sample_calls import as_function, floating, samples_of
from minitransformer import Transformer, TransformerConfig

RTOL = 1e-6


def leaf(*data):
    return mg.tensor(np.array(data, dtype=np.float64), requires_grad=True)


def number(x):
    return mg.tensor(np.float64(x), requires_grad=True)


def ops(graph, name=None):
    return [v for v in graph.vertices if v.kind == "op" and name in (None, v.name)]


def op(graph, name):
    (found,) = ops(graph, name)
    return found


def named(graph):
    return {v.name: v for v in graph.vertices if v.name and v.kind != "op"}


def assert_equal(x, expected, rtol=1e-12, atol=1e-14):
    np.testing.assert_allclose(np.asarray(x), np.asarray(expected), rtol=rtol, atol=atol)


def assert_snapshot(snapshot, array, rtol=RTOL):
    """The statistics are NumPy's of `array`, in float64; so are the numbers that are kept."""
    x = np.asarray(array, dtype=np.float64)
    assert (snapshot.shape, snapshot.dtype, snapshot.nbytes) == (array.shape, str(array.dtype), array.nbytes)
    s = snapshot.statistics
    expected = [x.min(), x.mean(), x.max(), x.std(), np.sqrt((x * x).sum())]
    assert_equal([s.min, s.mean, s.max, s.std, s.norm], expected, rtol, rtol)
    if snapshot.whole:
        assert_equal(snapshot.numbers, array, 0, 0)


def small_transformer(norm_first=False, layers=2, **settings):
    mg.manual_seed(1)
    return Transformer(
        TransformerConfig(
            vocab_size=12, d_model=8, num_heads=2, d_ff=16, num_encoder_layers=layers,
            num_decoder_layers=layers, norm_first=norm_first, **settings,
        )
    )  # fmt: skip


def transformer_loss(model):
    rng = np.random.default_rng(0)
    source, target = (mg.tensor(rng.integers(3, 12, (2, n))) for n in (5, 4))
    logits = model(source, target)
    return F.cross_entropy(logits.reshape(-1, 12), mg.tensor(rng.integers(3, 12, 8)))


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 3, 4), (300, 300), (65, 1025)])
def test_values_and_their_statistics_are_numpys(dtype, shape):
    array = np.random.default_rng(0).normal(0.5, 2, shape).astype(dtype)
    x = mg.tensor(array, requires_grad=True)
    graph = trace(x * 2, {"x": x}, backward=False)
    rtol = 1e-6 if dtype != "float16" else 1e-3
    assert_snapshot(named(graph)["x"].value, array, rtol)
    assert_snapshot(op(graph, "multiply").value, array * array.dtype.type(2), rtol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("magnitude", [1e-30, 1e-15, 1e15, 1e30])
def test_what_explodes_and_what_vanishes_is_still_measured(dtype, size, magnitude):
    array = (np.random.default_rng(0).normal(size=size) * magnitude).astype(dtype)
    x = mg.tensor(array, requires_grad=True)
    s = named(trace(x.sum(), {"x": x}, backward=False))["x"].value.statistics
    scaled = array.astype(np.float64) / magnitude
    assert s.norm / magnitude == pytest.approx(np.linalg.norm(scaled), rel=1e-5)
    assert s.std / magnitude == pytest.approx(scaled.std(), rel=1e-5)
    assert (s.min, s.max) == (array.min(), array.max())


def test_views_and_strides_have_the_same_statistics():
    x = leaf(*np.arange(24.0).reshape(4, 6))
    graph = trace((x.T[::2, ::3]).sum())
    assert_snapshot(ops(graph)[-2].value, x.array.T[::2, ::3])


def test_an_empty_array_and_one_without_finite_numbers():
    x = mg.zeros(0, 3, requires_grad=True)
    graph = trace((x * 2).sum())
    assert op(graph, "multiply").value.statistics is None
    with np.errstate(all="ignore"):
        y = leaf(-1, -2).sqrt()
    statistics = trace(y, gradient=np.ones(2)).outputs[0].value.statistics
    assert (statistics.nan, statistics.inf) == (2, 0)
    assert math.isnan(statistics.mean)


def test_what_is_not_finite_is_counted_and_the_rest_described():
    x = leaf(1, np.nan, 3, np.inf, -np.inf)
    statistics = named(trace(x.sum(), {"x": x}))["x"].value.statistics
    assert (statistics.nan, statistics.inf, statistics.min, statistics.max) == (1, 2, 1, 3)
    assert statistics.mean == 2
    assert not statistics.finite


def test_a_large_array_keeps_a_corner_and_whole_decides_what_is_large():
    x = mg.randn(3, 20, 30, requires_grad=True)
    corner = named(trace(x.sum(), {"x": x}))["x"].value
    assert not corner.whole
    assert_equal(corner.numbers, x.array[0, :6, :6])
    whole = named(trace(x.sum(), {"x": x}, whole=1800))["x"].value
    assert_equal(whole.numbers, x.array)


def test_results_that_were_let_go_are_computed_again_to_the_same_bits():
    x = mg.randn(4, 5, requires_grad=True)
    kept = []
    y = F.dropout(x, 0.5)
    kept.append(y.array.copy())
    y = F.gelu(y @ mg.randn(5, 5, requires_grad=True))
    kept.append(y.array.copy())
    loss = y.sum()
    del y
    gc.collect()
    graph = trace(loss)
    assert_equal(op(graph, "dropout").value.numbers, kept[0], 0, 0)
    assert_equal(op(graph, "gelu").value.numbers, kept[1], 0, 0)


def test_what_was_computed_again_is_let_go():
    """A trace of a deep network needs no more memory than a few of its layers."""
    x = mg.randn(500, 500, requires_grad=True)
    y = x
    for _ in range(30):
        y = y + 1.0
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        trace(y, backward=False)
        assert tracemalloc.get_traced_memory()[1] - before < 5 * x.array.nbytes
    finally:
        tracemalloc.stop()


def test_dtypes_that_meet_show_the_conversion():
    x, y = mg.tensor([1.0, 2.0], requires_grad=True), leaf(3, 4)
    graph = trace((x * y).sum(), {"x": x, "y": y})
    assert op(graph, "astype").value.dtype == op(graph, "multiply").value.dtype == "float64"
    assert named(graph)["x"].gradient.dtype == "float32"


# ---------------------------------------------------------------- what a vertex tells


def test_an_op_tells_its_settings_its_line_its_cost_and_its_formulas():
    x, w = leaf([1, 2], [3, 4]), leaf([1, 0], [0, 1])
    y = (x @ w).sum(dim=1, keepdim=True)  # this line
    graph = trace(y.mean(), {"x": x, "w": w})
    product, total = op(graph, "matmul"), op(graph, "sum")
    assert "test_trace.py:" in product.source
    assert product.code == "y = (x @ w).sum(dim=1, keepdim=True)  # this line"
    assert ("dim", "1") in total.settings
    assert ("keepdim", "True") in total.settings
    assert product.flops == 2 * 2 * 2 * 2
    assert [operand for operand, _ in product.formulas] == ["x", "y"]
    assert product.family == "matrix"


def test_an_op_tells_which_memory_it_holds_until_backward():
    x, w = leaf([1, 2], [3, 4]), leaf([1, 0], [0, 1])
    y = (x @ w).exp()
    graph = trace((y * y).sum(), {"x": x, "w": w})
    product, power, square = (op(graph, name) for name in ("matmul", "exp", "multiply"))
    assert {r.owner for r in product.retained} == {named(graph)["x"].index, named(graph)["w"].index}
    assert [r.nbytes for r in product.retained] == [32, 32]
    assert [(r.owner, r.nbytes) for r in power.retained] == [(power.index, 32)]
    assert square.retained == power.retained  # one memory, held by both, once
    assert op(graph, "sum").retained == ()


def test_kinds_and_names_of_leaves():
    model = nn.Linear(2, 1)
    x, data = leaf([1.0, 2.0]).to("float32").detach().requires_grad_(), mg.tensor([[3.0, 4.0]])
    graph = trace(model(x + data).sum(), model)
    kinds = {v.name: v.kind for v in graph.vertices if v.kind != "op"}
    assert kinds["weight"] == kinds["bias"] == "parameter"
    assert sorted(v.kind for v in graph.vertices if v.kind != "op") == [
        "constant", "input", "parameter", "parameter",
    ]  # fmt: skip
    assert set(graph.parameters) == {"weight", "bias"}


def test_names_come_from_a_dict_also_those_of_results():
    x = leaf(1, 2)
    y = x * 3
    graph = trace(y.sum(), {"x": x, "tripled": y})
    assert named(graph)["x"].kind == "input"
    assert op(graph, "multiply").label == "tripled"


def test_names_nest_and_may_hold_modules():
    w, model = leaf(1), nn.Linear(1, 1)
    graph = trace((model(mg.ones(1, 1)).sum() * w).sum(), {"first": {"w": w}, "net": model})
    assert set(graph.parameters) == {"first.w", "net.weight", "net.bias"}
    listed = trace((w * w).sum(), {"a": [leaf(2), (w,)], "my key": leaf(3)})
    assert set(listed.parameters) == {"a.1.0"}


def test_params_that_are_neither_a_module_nor_a_dict_are_refused():
    x = leaf(1)
    with pytest.raises(DtypeError, match="params must be a Module or a dict of names, got list"):
        trace(x.sum(), [x])
    with pytest.raises(DtypeError, match="w must be a tensor, got ndarray"):
        trace(x.sum(), {"w": np.ones(2)})


def test_without_params_modules_that_were_called_name_their_parameters():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    graph = trace(model(mg.ones(1, 2)).sum())
    assert set(graph.parameters) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_copies_of_parameters_do_not_change_with_them():
    model = nn.Linear(2, 1)
    graph = trace(model(mg.ones(1, 2)).sum(), model)
    before = model.weight.numpy().copy()
    with mg.no_grad():
        model.weight += 1
    assert_equal(graph.parameters["weight"], before)


# ---------------------------------------------------------------- edges


def test_x_times_x_has_two_edges_whose_contributions_add_up():
    x = number(3)
    graph = trace(x * x, {"x": x})
    product = op(graph, "multiply")
    assert [edge.source for edge in product.inputs] == [named(graph)["x"].index] * 2
    assert [edge.operand for edge in product.inputs] == ["x", "y"]
    assert [float(edge.gradient.numbers) for edge in product.inputs] == [3.0, 3.0]
    assert named(graph)["x"].gradient.numbers == 6
    assert graph.consumers[named(graph)["x"].index] == ((product.index, 0), (product.index, 1))


@pytest.mark.parametrize("order", ["mask first", "twice with a constant between"])
def test_contributions_stand_at_their_own_edges(order):
    """Where one op takes the same tensor more than once, with a constant before or between."""
    x = leaf(1, 2)
    c = mg.tensor(np.array([5.0, 7.0]))
    y = mg.where(x > 1, x, c * x) if order == "mask first" else mg.stack([x, c, x * 1, x])
    graph = trace(y.sum(), {"x": x})
    for vertex in ops(graph):
        for edge in vertex.inputs:
            assert (edge.gradient is not None) == edge.needs
    if order != "mask first":
        joined = ops(graph)[-2] if ops(graph)[-1].name == "sum" else ops(graph)[-1]
        assert [edge.needs for edge in joined.inputs] == [True, False, True, True]


def sums_of_contributions(graph):
    """For each vertex with a gradient: (it, the sum of what its consumers' edges add)."""
    for vertex in graph.vertices:
        for result, gradient in enumerate(vertex.gradients):
            sent = [
                graph.vertices[user].inputs[place].gradient
                for user, place in graph.consumers[vertex.index]
                if graph.vertices[user].inputs[place].result == result
            ]
            sent = [s.numbers for s in sent if s is not None]
            if gradient is not None and sent and not vertex.is_output:
                yield vertex, gradient.numbers, sum(sent[1:], sent[0])


def test_axes_that_were_broadcast_are_named_and_summed():
    x, row, one = leaf([1, 2, 3], [4, 5, 6]), leaf(1, 2, 3), leaf([2.0])
    y = (x * row) * one
    graph = trace(y.sum(), {"x": x, "row": row, "one": one})
    first, second = ops(graph, "multiply")
    edge = first.inputs[1]
    assert (edge.summed, edge.expanded) == ((0,), (2, 3))
    assert edge.pulled.shape == (2, 3)
    assert_equal(edge.pulled.numbers, x.array * 2)
    assert_equal(edge.gradient.numbers, (x.array * 2).sum(0))
    assert second.inputs[1].summed == (0, 1)
    assert second.inputs[1].gradient.shape == (1, 1)
    assert first.inputs[0].summed == ()
    assert first.inputs[0].expanded is None


def test_axes_that_were_broadcast_are_named_without_a_backward_too():
    x, row = leaf([1, 2, 3], [4, 5, 6]), leaf(1, 2, 3)
    edge = op(trace(x * row, backward=False), "multiply").inputs[1]
    assert (edge.summed, edge.expanded) == ((0,), (2, 3))


def test_a_plain_number_is_a_setting():
    graph = trace((leaf(1, 2) ** 3).sum())
    power = op(graph, "power")
    assert len(power.inputs) == 1
    assert [value for _, value in power.settings if value in ("3", "3.0")]


def test_an_op_with_several_results_is_one_vertex():
    x = leaf(3, 1, 2)
    values, _ = x.sort()
    a, b = x.split([1, 2])
    graph = trace((values * 2).sum() + a.sum() + (b * b).sum())
    pieces = op(graph, "split")
    assert [value.shape for value in pieces.values] == [(1,), (2,)]
    assert_equal(pieces.gradients[1].numbers, 2 * b.array)
    uses = [e.result for v in ops(graph) for e in v.inputs if e.source == pieces.index]
    assert sorted(uses) == [0, 1, 1]


def test_a_result_nobody_uses_has_no_gradient():
    a, _ = leaf(1, 2, 3).split([1, 2])
    pieces = op(trace(a.sum()), "split")
    assert pieces.gradients[0] is not None
    assert pieces.gradients[1] is None


# ---------------------------------------------------------------- gradients


def test_gradients_are_those_of_a_real_backward_and_a_trace_leaves_none():
    model = small_transformer()
    loss = transformer_loss(model)
    graph = trace(loss, model, whole=10**6)
    assert all(p.grad is None for p in model.parameters())
    loss.backward()
    seen = named(graph)
    for name, p in model.named_parameters():
        assert_equal(seen[name].gradient.numbers, p.grad.array, 0, 0)
        assert_snapshot(seen[name].gradient, p.grad.array)


def test_a_trace_leaves_grad_retained_gradients_and_draws_as_they_are():
    x = leaf(1, 2, 3)
    x.grad = mg.tensor(np.array([7.0, 7, 7]))
    y = x * x
    y.retain_grad()
    before = mg.random.snapshot() if hasattr(mg.random, "snapshot") else None
    trace((y * 2).sum())
    assert_equal(x.grad, [7, 7, 7])
    assert y.grad is None
    if before is not None:
        assert mg.random.snapshot() == before
    (y * 2).sum().backward()
    assert_equal(x.grad, [7 + 4, 7 + 8, 7 + 12])
    assert_equal(y.grad, [2, 2, 2])


def test_what_hooks_make_of_gradients_is_shown():
    x = leaf(1, 2)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    graph = trace(y.sum(), {"x": x})
    assert_equal(op(graph, "multiply").gradient.numbers, [10, 10])
    assert_equal(named(graph)["x"].gradient.numbers, [31, 31])
    assert x.grad is None


def test_a_second_trace_and_a_backward_after_it_give_the_same():
    model = small_transformer()
    loss = transformer_loss(model)
    first, second = (trace(loss, model, whole=10**6) for _ in range(2))
    for a, b in zip(first.vertices, second.vertices, strict=True):
        assert (a.name, a.kind, a.group, a.settings) == (b.name, b.kind, b.group, b.settings)
        assert_equal(a.value.numbers, b.value.numbers, 0, 0)
        if a.gradient is not None:
            assert_equal(a.gradient.numbers, b.gradient.numbers, 0, 0)
    loss.backward()


def test_tracing_under_no_grad_and_while_anomalies_are_watched_for():
    x = leaf(1, 2)
    loss = (x * x).sum()
    with mg.no_grad(), autograd.detect_anomaly():
        graph = trace(loss, {"x": x})
    assert_equal(named(graph)["x"].gradient.numbers, [2, 4])


def test_after_backward_a_graph_that_was_retained_can_be_traced():
    x = leaf(1, 2)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    assert_equal(named(trace(loss, {"x": x}))["x"].gradient.numbers, [2, 4])
    assert_equal(x.grad, [2, 4])


def test_a_freed_graph_says_so():
    x = leaf(1, 2)
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(GraphError, match=r"was freed by backward\(\)(.|\n)*retain_graph=True"):
        trace(loss)


def test_a_fused_op_says_what_it_consists_of():
    q = mg.tensor(np.ones((2, 3)), requires_grad=True)
    graph = trace(F.scaled_dot_product_attention(q, q, q).sum(), {"q": q})
    assert {"softmax", "exp", "matmul"} <= set(op(graph, "scaled_dot_product_attention").parts)
    assert op(graph, "sum").parts == ()
    assert "log_softmax" in parts_of(registry["cross_entropy"])


def training_step(model, optimizer, x, trace_first=False):
    loss = F.cross_entropy(model(x), mg.tensor(np.array([0, 2, 1])))
    before = trace(loss, model) if trace_first else None
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, before


@pytest.mark.parametrize("within", [False, True])
def test_a_step_that_is_kept_can_be_looked_into_later(within):
    """With the parameters as they were when backward() began, though the optimizer has changed them."""
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    optimizer = mg.optim.SGD(model.parameters(), lr=0.5)
    x = mg.randn(3, 4)
    with mg.graph.keep():
        losses, expected = zip(*(training_step(model, optimizer, x, True) for _ in range(3)), strict=True)
        inside = [trace(loss, model) for loss in losses] if within else None
    weights = {name: p.numpy().copy() for name, p in model.named_parameters()}
    for graph, before in zip(inside or [trace(loss, model) for loss in losses], expected, strict=True):
        assert [v.name for v in graph.vertices] == [v.name for v in before.vertices]
        for v, u in zip(graph.vertices, before.vertices, strict=True):
            assert_equal(v.value.numbers, u.value.numbers, 0, 0)
            if u.gradient is not None:
                assert_equal(v.gradient.numbers, u.gradient.numbers, 0, 0)
    assert expected[0].vertices[1].value.numbers.tolist() != expected[2].vertices[1].value.numbers.tolist()
    assert all(np.array_equal(p.numpy(), weights[name]) for name, p in model.named_parameters())
    mg.graph.why_nan(losses[0])
    assert mg.graph.memory(losses[0], model).peak > 0
    assert all(np.array_equal(p.numpy(), weights[name]) for name, p in model.named_parameters())


def test_keeping_changes_no_gradient_and_ends_with_its_block():
    x = leaf(1, 2)
    with mg.graph.keep():
        loss = (x * x).sum()
        loss.backward()
        loss.backward()  # as with retain_graph=True
    assert_equal(x.grad, [4, 8])
    other = (x * x).sum()
    other.backward()
    with pytest.raises(GraphError, match=r"mg\.graph\.keep\(\)"):
        trace(other)


def test_what_is_kept_goes_with_the_loss():
    x = leaf(1, 2)
    before = len(kept_graphs._parameters)  # of losses of other tests
    with mg.graph.keep():
        for _ in range(2):
            loss = (x * x).sum()
            loss.backward()
    assert len(kept_graphs._parameters) == before + 1
    del loss
    assert len(kept_graphs._parameters) == before


def test_what_was_computed_under_no_grad_is_refused():
    x = leaf(1, 2)
    with mg.no_grad():
        y = x * x
    with pytest.raises(GraphError, match=r"has no graph(.|\n)*requires_grad=True"):
        trace(y)
    with pytest.raises(DtypeError, match="output must be a tensor, got ndarray"):
        trace(np.ones(3))


def test_a_leaf_alone_is_a_graph():
    x = number(1)
    graph = trace(x, {"x": x})
    assert [v.name for v in graph.vertices] == ["x"]
    assert graph.outputs[0].gradient.numbers == 1


def test_an_output_of_several_numbers_needs_a_gradient_to_begin_with():
    x = leaf(1, 2)
    y = x * x
    silent = trace(y, {"x": x})
    assert named(silent)["x"].gradient is None
    assert "not one number" in silent.notes[0]
    graph = trace(y, {"x": x}, gradient=mg.tensor(np.array([1.0, 10.0])))
    assert_equal(named(graph)["x"].gradient.numbers, [2, 40])
    assert graph.notes == ()
    with pytest.raises(ShapeError, match=r"\(3,\)(.|\n)*\(2,\)"):
        trace(y, gradient=np.ones(3))


def test_several_outputs_are_walked_together():
    x = leaf(1, 2)
    a, b = (x * x).sum(), x.exp().sum()
    graph = trace({"a": a, "b": [b, 3]}, {"x": x})
    assert len(graph.outputs) == 2
    assert_equal(named(graph)["x"].gradient.numbers, 2 * x.array + np.exp(x.array))


def test_without_a_backward_there_are_no_gradients():
    x = leaf(1, 2)
    graph = trace((x * x).sum(), backward=False)
    assert all(v.gradient is None and not v.checks for v in graph.vertices)


# ---------------------------------------------------------------- Jacobians, finite differences


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x,
        lambda x: x.softmax(-1),
        lambda x: x @ x.T,
        lambda x: x.sum(0),
        lambda x: x.T,
        lambda x: x.logsumexp(-1),
        lambda x: x[0],
    ],
)
def test_a_local_derivative_is_the_jacobian(function):
    x = leaf([1, 2, 3], [0.5, -1, 2])
    y = function(x)
    vertex = next(v for v in trace(y, gradient=np.ones(y.shape)).vertices if v.is_output)
    expected = func.jacobian(function)(x).array.reshape(y.numel(), x.numel())
    if vertex.inputs[0].source == 0 and len({e.source for e in vertex.inputs}) == 1:
        assert_equal(sum(e.jacobian for e in vertex.inputs), expected, 1e-9, 1e-12)
    else:
        assert vertex.inputs[0].jacobian.shape == (y.numel(), x.numel())


def test_elementwise_derivatives_are_marked():
    x = leaf(1, 2, 3)
    graph = trace((x.exp().softmax(0)).sum())
    assert op(graph, "exp").inputs[0].elementwise
    assert not op(graph, "softmax").inputs[0].elementwise


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["square", "rsqrt", "log1p", "asin", "nan_to_num"])
def test_a_derivative_that_is_not_finite_stays_on_the_diagonal(name):
    graph = trace(getattr(leaf(0.0, np.inf, np.nan), name)().sum())
    matrix = op(graph, name).inputs[0].jacobian
    assert not matrix[~np.eye(3, dtype=bool)].any()


def test_jacobians_of_large_results_are_left_out():
    x = mg.randn(100, requires_grad=True)
    assert op(trace(x.exp().sum()), "exp").inputs[0].jacobian is None


@pytest.mark.parametrize("check", [None, True])
def test_finite_differences_stand_beside_the_gradient(check):
    x, w = leaf([1, 2, 3], [4, 5, 6]), leaf([0.3], [-0.2], [0.5])
    loss = (x @ w).tanh().square().sum()
    graph = trace(loss, {"x": x, "w": w}, check=check)
    for vertex in (named(graph)["x"], named(graph)["w"]):
        assert len(vertex.checks) == vertex.value.size
        for one in vertex.checks:
            assert one.analytic == vertex.gradient.numbers[one.index]
            assert one.numeric == pytest.approx(one.analytic, rel=1e-5, abs=1e-8)


def test_finite_differences_of_a_float32_model_are_computed_in_float64():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    graph = trace(model(mg.randn(5, 3)).square().mean(), model)
    checks = [c for v in graph.vertices for c in v.checks]
    assert len(checks) == 4 * 3 + 4 + 4 + 1
    for one in checks:
        assert one.numeric == pytest.approx(one.analytic, rel=1e-4, abs=1e-6)


def test_a_wrong_derivative_is_seen():
    @mg.ops.differentiable
    def doubled(x, /):
        """2 x, with the derivative of 3 x."""
        return x * 2, (lambda g: g * 3,)

    x = number(1)
    (check,) = named(trace(doubled(x), {"x": x}))["x"].checks
    assert (check.analytic, check.numeric) == (3, pytest.approx(2))


def test_checks_can_be_left_out_and_are_where_they_cost_much():
    x = mg.randn(64, 64, requires_grad=True)
    y = x
    assert not any(v.checks for v in trace((x * x).sum(), check=False).vertices)
    for _ in range(400):
        y = y @ x * 0.1
    assert not any(v.checks for v in trace(y.sum()).vertices)


@pytest.mark.parametrize("key", [key for key, record in registry.items() if record.samples])
def test_every_op_of_the_library_can_be_traced(key):
    """On its own first sample: values, gradients and finite differences are what they are without a trace."""
    function, inputs = as_function(registry[key], samples_of(registry[key])[0])
    outs = [out for out in floating(function(*inputs)) if out.requires_grad]
    if not outs:
        return
    loss = sum((out * out).sum() for out in outs)
    graph = trace(loss, {f"x{i}": x for i, x in enumerate(inputs)}, whole=10**6)
    assert_equal(graph.outputs[0].value.numbers, loss.array, 0, 0)
    for _, gradient, total in sums_of_contributions(graph):
        assert_equal(total, gradient, 1e-9, 1e-12)
    loss.backward()
    for i, x in enumerate(inputs):
        if x.grad is None:
            continue
        vertex = named(graph)[f"x{i}"]
        assert_equal(vertex.gradient.numbers, x.grad.array, 0, 0)
        for one in vertex.checks:
            assert one.numeric == pytest.approx(one.analytic, rel=1e-4, abs=1e-4)


# ---------------------------------------------------------------- special nodes


def test_a_checkpoint_is_one_vertex_with_the_same_gradients():
    x, w = leaf([1, 2]), leaf([1], [2])
    function = lambda x: (x @ w).tanh()
    plain = trace(function(x).sum(), {"x": x, "w": w})
    graph = trace(checkpoint(function, x).sum(), {"x": x, "w": w})
    vertex = op(graph, "checkpoint")
    assert_equal(vertex.value.numbers, np.tanh(x.array @ w.array))
    for name in ("x", "w"):
        assert_equal(named(graph)[name].gradient.numbers, named(plain)[name].gradient.numbers)
        assert {graph.vertices[e.source].name for e in vertex.inputs} == {"x", "w"}
        assert not named(graph)[name].checks  # its function cannot be run on other numbers


def test_readable_definitions_stand_in_a_group_of_their_name():
    x = leaf([1, 2, 3])
    with mg.fused(False):
        y = x.softmax(-1)
    graph = trace(y.square().sum(), {"x": x})
    assert "softmax" in {group.name for group in graph.groups}
    assert not ops(graph, "softmax")
    fused = trace(x.softmax(-1).square().sum(), {"x": x})
    assert_equal(named(graph)["x"].gradient.numbers, named(fused)["x"].gradient.numbers, 1e-9)


def test_graphs_of_gradients_stand_in_a_group_of_their_own():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = mg.randn(4, 2, requires_grad=True)
    (g,) = autograd.grad(model(x).sum(), x, create_graph=True)
    penalty = (g * g).sum()
    graph = trace(penalty, model)
    backward = next(group for group in graph.groups if group.kind == "gradient")
    assert backward.parent == 0 or graph.groups[backward.parent].name in ("", "Sequential")
    assert any(group.path.startswith("backward.") for group in graph.groups)
    penalty.backward()
    for name, p in model.named_parameters():
        if p.grad is not None:
            assert_equal(named(graph)[name].gradient.numbers, p.grad.array, 1e-6, 1e-7)
    assert_partition(graph)
    assert_no_circles(graph)


# ---------------------------------------------------------------- nothing is kept


def test_a_graph_keeps_nothing_of_the_tape_alive():
    gc.disable()
    try:
        x = mg.randn(4, 4, requires_grad=True)
        model = nn.Linear(4, 4)
        hidden = model(x).tanh()
        loss = hidden.sum()
        graph = trace(loss, model)
        watched = [weakref.ref(t) for t in (x, hidden, loss, model.weight, loss.node, hidden.node, model)]
        del x, model, hidden, loss
        assert [w() for w in watched] == [None] * 7
        assert isinstance(graph, Graph)
    finally:
        gc.enable()


def test_numbers_of_a_graph_cannot_be_changed_and_do_not_change_with_the_tensor():
    x = leaf(1, 2)
    graph = trace((x * x).sum(), {"x": x})
    with mg.no_grad():
        x += 1
    seen = named(graph)["x"]
    assert_equal(seen.value.numbers, [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        seen.value.numbers[0] = 5
    with pytest.raises(AttributeError):
        seen.name = "y"


def test_a_tensor_changed_since_is_refused_where_it_must_be_computed_again():
    x = leaf(1, 2)
    y = x * 1
    loss = (y + 1).sum()
    with mg.no_grad():
        x += 1
    del y
    with pytest.raises(GraphError, match="changed since"):
        trace(loss)


# ---------------------------------------------------------------- groups


def assert_partition(graph):
    """Each vertex stands in exactly one group, and each group but the first in its parent."""
    homes = [v for group in graph.groups for v in group.vertices]
    assert sorted(homes) == list(range(len(graph.vertices)))
    for group in graph.groups:
        assert all(graph.vertices[v].group == group.index for v in group.vertices)
        assert all(graph.groups[child].parent == group.index for child in group.groups)
        assert group.times == (len(group.groups) if group.is_stack else 1)
    children = [child for group in graph.groups for child in group.groups]
    assert sorted(children) == list(range(1, len(graph.groups)))


def chain(graph, group):
    found = [group]
    while graph.groups[found[-1]].parent is not None:
        found.append(graph.groups[found[-1]].parent)
    return found[::-1]


def assert_no_circles(graph):
    """The items of each group can be ordered so that each comes after what it is made from."""
    after = {group.index: {} for group in graph.groups}
    for vertex in graph.vertices:
        for edge in vertex.inputs:
            a = [*chain(graph, graph.vertices[edge.source].group), ("vertex", edge.source)]
            b = [*chain(graph, vertex.group), ("vertex", vertex.index)]
            n = next(i for i, (p, q) in enumerate(zip(a, b, strict=False)) if p != q)
            after[a[n - 1]].setdefault(a[n], set()).add(b[n])
    for group, edges in after.items():
        if graph.groups[group].is_stack:
            continue
        waiting = {item for targets in edges.values() for item in targets}
        everything = set(edges) | waiting
        while everything:
            free = {i for i in everything if not any(i in edges.get(j, ()) for j in everything)}
            assert free, f"a circle in {graph.groups[group]}"
            everything -= free


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_transformer_stands_in_its_modules(norm_first):
    model = small_transformer(norm_first, layers=3)
    graph = trace(transformer_loss(model), model)
    assert_partition(graph)
    assert_no_circles(graph)
    paths = {group.path: group for group in graph.groups}
    assert paths["encoder.layers.2.self_attention"].kind == "MultiHeadAttention"
    assert paths["decoder.layers.0.cross_attention"].kind == "MultiHeadAttention"
    assert paths["encoder.layers.1"].kind == "EncoderLayer"
    attentions = ops(graph, "multi_head_attention")
    assert len(attentions) == 9  # three encoder layers, and two in each of three decoder layers
    for vertex in attentions:
        assert graph.groups[vertex.group].path.endswith("attention")
    for name, parameter in named(graph).items():
        if parameter.kind == "parameter" and name.count(".") > 1:
            assert name.startswith(graph.groups[parameter.group].path)
    stacks = [group for group in graph.groups if group.is_stack and group.kind.endswith("coderLayer")]
    assert [group.times for group in stacks] == [3, 3]


class Block(nn.Module):
    def __init__(self, width, hidden=8, p=0.0):
        super().__init__()
        self.up, self.down, self.dropout = nn.Linear(width, hidden), nn.Linear(hidden, width), nn.Dropout(p)

    def forward(self, x):
        return x + self.dropout(self.down(F.relu(self.up(x))))


class Tower(nn.Module):
    def __init__(self, *blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def stacks_of(*blocks):
    model = Tower(*blocks)
    graph = trace(model(mg.randn(2, 4)).sum(), model)
    assert_partition(graph)
    assert_no_circles(graph)
    return [group.times for group in graph.groups if group.is_stack]


def test_blocks_that_are_alike_are_a_stack():
    assert stacks_of(*[Block(4, p=0.1) for _ in range(6)]) == [6]


def test_one_block_of_another_width_is_no_member():
    assert stacks_of(*[Block(4, 9 if i == 3 else 8) for i in range(6)]) == [3, 2]


def test_one_block_of_another_dropout_is_no_member():
    assert stacks_of(*[Block(4, p=0.2 if i == 0 else 0.1) for i in range(6)]) == [5]


def test_blocks_with_something_between_them_are_never_in_a_circle():
    model = nn.ModuleList([Block(4) for _ in range(4)])
    x = mg.randn(2, 4)
    for block in model:
        x = block(x) * 2
    graph = trace(x.sum(), {"blocks": model})
    assert_partition(graph)
    assert_no_circles(graph)


def test_a_module_called_twice_has_two_groups_and_its_parameters_one_vertex():
    shared = nn.Linear(3, 3)
    model = nn.Module()
    model.shared = shared
    graph = trace(shared(shared(mg.ones(1, 3)).tanh()).sum(), model)
    calls = [group for group in graph.groups if group.path == "shared" and not group.is_stack]
    assert len(calls) == 2
    assert len({call.name for call in calls}) == 2
    (weight,) = [v for v in graph.vertices if v.name == "shared.weight"]
    assert weight.group not in {call.index for call in calls}
    assert_partition(graph)
    assert_no_circles(graph)


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(6, 4)

    def forward(self, x, h):
        return self.map(mg.cat([x, h], 1)).tanh()


@pytest.mark.parametrize("between", [False, True])
def test_a_loop_over_a_cell_is_in_no_circle(between):
    cell = Cell()
    x, h = mg.randn(2, 10, 2), mg.zeros(2, 4, requires_grad=True)
    states = []
    for t in range(10):
        h = cell(x[:, t], h)
        h = h * 0.5 if between else h
        states.append(h)
    graph = trace(mg.stack(states).sum(), {"cell": cell})
    assert_partition(graph)
    assert_no_circles(graph)
    if not between:
        assert [group.times for group in graph.groups if group.is_stack] == [10]


def test_a_long_chain_is_gathered_in_groups_of_at_most_40():
    x = number(1)
    y = x
    for _ in range(5000):
        y = y * 1.0001
    graph = trace(y, {"x": x}, check=False)
    assert len(ops(graph)) == 5000
    assert_partition(graph)
    assert max(len(g.vertices) + len(g.groups) for g in graph.groups if not g.is_stack) <= 40
    assert named(graph)["x"].gradient.numbers == pytest.approx(1.0001**5000)


def test_a_wide_sum_is_gathered_and_in_no_circle():
    xs = [number(i) for i in range(150)]
    graph = trace(mg.stack([x * 2 for x in xs]).sum(), check=False)
    assert_partition(graph)
    assert_no_circles(graph)
    assert max(len(g.vertices) + len(g.groups) for g in graph.groups if not g.is_stack) <= 40


def test_scopes_of_the_users_are_groups():
    x = leaf([1, 2], [3, 4])
    with named_scope("scores"):
        y = x @ x.T
    graph = trace(y.sum(), {"x": x})
    assert graph.groups[op(graph, "matmul").group].name == "scores"


def test_a_module_around_another_one_is_dissolved_where_it_would_be_in_a_circle():
    class Around(nn.Module):
        """Applied before and after something of its parent's."""

        def __init__(self):
            super().__init__()
            self.scale = nn.Linear(2, 2)

        def forward(self, x, f):
            return self.scale(x) + f(x.tanh())

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.around, self.inner = Around(), nn.Linear(2, 2)

        def forward(self, x):
            return self.around(x, lambda y: self.inner(y.exp()))

    model = Outer()
    graph = trace(model(mg.ones(1, 2)).sum(), model)
    assert_partition(graph)
    assert_no_circles(graph)
    assert "inner" in {group.path for group in graph.groups}


class Maze(nn.Module):
    """Modules that call each other back, twice, around each other and with operations between, at random."""

    def __init__(self, random, depth=3):
        super().__init__()
        self.inner = nn.ModuleList(
            [Maze(random, depth - 1) for _ in range(random.randint(0, 3) if depth else 0)]
        )
        self.map = nn.Linear(3, 3) if random.random() < 0.5 else None
        self.twice, self.around, self.between, self.shortcut = (random.random() < 0.3 for _ in range(4))

    def forward(self, x, callback=None):
        inner = [*self.inner, *self.inner] if self.twice else list(self.inner)
        y = x
        for module, after in zip(inner, [*inner[1:], None], strict=False):
            y = module(y, after if self.around else None)
            y = y * 2 if self.between else y
        y = y if self.map is None else self.map(y)
        y = y if callback is None else y + callback(y.tanh()) * 0.1
        return y + x if self.shortcut else y


@pytest.mark.parametrize("seed", range(20))
def test_whatever_calls_whatever_no_group_has_a_circle(seed):
    model = Maze(random.Random(seed))
    y = model(mg.ones(1, 3, requires_grad=True)) * 1
    graph = trace(y.sum(), model, check=False)
    assert_partition(graph)
    assert_no_circles(graph)
    assert max(len(g.vertices) + len(g.groups) for g in graph.groups if not g.is_stack) <= 40
    for _, gradient, total in sums_of_contributions(graph):
        assert_equal(total, gradient, 1e-4, 1e-6)
    part = prune(graph, [v.index for v in graph.vertices if v.index % 5])
    assert_partition(part)
    assert_no_circles(part)


def test_a_gradient_graph_stands_in_one_backward_group_and_the_next_in_one_within():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = mg.randn(4, 2, requires_grad=True)
    (first,) = mg.autograd.grad((model(x) ** 2).sum(), x, create_graph=True)
    paths = {g.path for g in trace((first**2).sum(), {"model": model}).groups}
    assert {"model.2", "backward", "backward.model.2"} <= paths
    assert not any("backward.backward" in path for path in paths)
    (second,) = mg.autograd.grad((first**2).sum(), x, create_graph=True)
    paths = {g.path for g in trace((second**2).sum(), {"model": model}).groups}
    assert any(path.startswith("backward.backward") for path in paths)
    assert not any("backward.backward.backward" in path for path in paths)


def test_a_gradient_may_be_a_plain_list():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    assert trace(x * 2, gradient=[3.0, 4.0]).vertices[0].gradient.numbers.tolist() == [6.0, 8.0]
