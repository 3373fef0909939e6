"""What a trace shows of values, operations and edges; and that it keeps nothing."""

import gc
import math
import tracemalloc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad import DtypeError, GraphError, nn
from minigrad.autograd import checkpoint
from minigrad.graph import Graph, trace
from minigrad.nn import functional as F
from tests.core.gradients import assert_equal, leaf
from tests.graph.traces import assert_snapshot, named, number, op, ops

# ---------------------------------------------------------------- values


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 3, 4), (300, 300), (65, 1025)])
def test_values_and_statistics_match_numpy(dtype, shape):
    array = np.random.default_rng(0).normal(0.5, 2, shape).astype(dtype)
    x = mg.tensor(array, requires_grad=True)
    graph = trace(x * 2, {"x": x}, backward=False)
    rtol = 1e-6 if dtype != "float16" else 1e-3
    assert_snapshot(named(graph)["x"].value, array, rtol)
    assert_snapshot(op(graph, "multiply").value, array * array.dtype.type(2), rtol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("magnitude", [1e-30, 1e-15, 1e15, 1e30])
def test_statistics_of_very_large_and_small_values(dtype, size, magnitude):
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


def test_statistics_of_empty_and_all_nan_arrays():
    x = mg.zeros(0, 3, requires_grad=True)
    graph = trace((x * 2).sum())
    assert op(graph, "multiply").value.statistics is None
    with np.errstate(all="ignore"):
        y = leaf(-1, -2).sqrt()
    statistics = trace(y, gradient=np.ones(2)).outputs[0].value.statistics
    assert (statistics.nan, statistics.inf) == (2, 0)
    assert math.isnan(statistics.mean)


def test_statistics_count_non_finite_values_separately():
    x = leaf(1, np.nan, 3, np.inf, -np.inf)
    statistics = named(trace(x.sum(), {"x": x}))["x"].value.statistics
    assert (statistics.nan, statistics.inf, statistics.min, statistics.max) == (1, 2, 1, 3)
    assert statistics.mean == 2
    assert not statistics.finite


def test_large_arrays_are_stored_as_a_corner():
    x = mg.randn(3, 20, 30, requires_grad=True)
    corner = named(trace(x.sum(), {"x": x}))["x"].value
    assert not corner.whole
    assert_equal(corner.numbers, x.array[0, :6, :6])
    whole = named(trace(x.sum(), {"x": x}, whole=1800))["x"].value
    assert_equal(whole.numbers, x.array)


@pytest.mark.slow
def test_released_results_are_recomputed_exactly():
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


def test_recomputed_results_are_freed():
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


def test_dtype_promotion_is_shown_as_a_conversion():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = leaf(3, 4)
    graph = trace((x * y).sum(), {"x": x, "y": y})
    assert op(graph, "astype").value.dtype == op(graph, "multiply").value.dtype == "float64"
    assert named(graph)["x"].gradient.dtype == "float32"


# ---------------------------------------------------------------- what a vertex tells


def test_an_op_has_settings_line_cost_and_formulas():
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


def test_ops_list_the_memory_retained_for_backward():
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
    x = leaf([1.0, 2.0]).to("float32").detach().requires_grad_()
    data = mg.tensor([[3.0, 4.0]])
    graph = trace(model(x + data).sum(), model)
    assert sorted((v.kind, v.name) for v in graph.vertices if v.kind != "op") == [
        ("constant", ""), ("input", ""), ("parameter", "bias"), ("parameter", "weight"),
    ]  # fmt: skip
    assert set(graph.parameters) == {"weight", "bias"}


def test_a_dict_names_inputs_and_results():
    x = leaf(1, 2)
    y = x * 3
    graph = trace(y.sum(), {"x": x, "tripled": y})
    assert named(graph)["x"].kind == "input"
    assert op(graph, "multiply").label == "tripled"


def test_names_may_be_nested_and_contain_modules():
    w = leaf(1)
    model = nn.Linear(1, 1)
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


def test_called_modules_name_their_parameters():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    graph = trace(model(mg.ones(1, 2)).sum())
    assert set(graph.parameters) == {"0.weight", "0.bias", "1.weight", "1.bias"}


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


def test_gradient_contributions_belong_to_their_edges():
    """Where one op takes the same tensor more than once, with a constant before or between."""
    x = leaf(1, 2)
    c = mg.tensor(np.array([5.0, 7.0]))
    graph = trace(mg.where(x > 1, x, c * x).sum() + mg.stack([x, c, x * 1, x]).sum(), {"x": x})
    for vertex in ops(graph):
        for edge in vertex.inputs:
            assert (edge.gradient is not None) == edge.needs
    assert [edge.needs for edge in op(graph, "joined").inputs] == [True, False, True, True]


def test_axes_that_were_broadcast_are_named_and_summed():
    x = leaf([1, 2, 3], [4, 5, 6])
    row = leaf(1, 2, 3)
    one = leaf([2.0])
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


def test_broadcast_axes_are_named_without_backward():
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


def test_an_unfused_op_is_traced_as_a_named_group():
    x = leaf([1, 2, 3])
    with mg.fused(False):
        y = x.softmax(-1)
    graph = trace(y.square().sum(), {"x": x})
    assert "softmax" in {group.name for group in graph.groups}
    assert not ops(graph, "softmax")
    fused = trace(x.softmax(-1).square().sum(), {"x": x})
    assert_equal(named(graph)["x"].gradient.numbers, named(fused)["x"].gradient.numbers, 1e-9)


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


def test_traced_numbers_are_read_only_copies():
    x = leaf(1, 2)
    graph = trace((x * x).sum(), {"x": x})
    with mg.no_grad():
        x += 1
    seen = named(graph)["x"]
    for numbers in (seen.value.numbers, graph.parameters["x"]):
        assert_equal(numbers, [1, 2])
        with pytest.raises(ValueError, match="read-only"):
            numbers[0] = 5
    with pytest.raises(AttributeError):
        seen.name = "y"


def test_recomputing_a_changed_tensor_is_refused():
    x = leaf(1, 2)
    y = x * 1
    loss = (y + 1).sum()
    with mg.no_grad():
        x += 1
    del y
    with pytest.raises(GraphError, match="changed since"):
        trace(loss)
