"""The gradients of a trace, and what it holds them against: Jacobians and finite differences."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import DtypeError, GraphError, ShapeError, autograd, func, nn
from minigrad.core.registry import registry
from minigrad.graph import kept_graphs, trace
from minigrad.graph.parts import parts_of
from minigrad.nn import functional as F
from minigrad.ops.sample_calls import as_function, floating, samples_of
from tests.core.gradients import assert_equal, leaf
from tests.graph.traces import (
    assert_snapshot,
    named,
    number,
    op,
    small_transformer,
    sums_of_contributions,
    transformer_loss,
)
from tests.leaves import for_each
from tests.ops.test_every_op import is_of_more

# ---------------------------------------------------------------- gradients


def test_repeated_traces_and_backward_agree():
    model = small_transformer()
    loss = transformer_loss(model)
    graph, again = (trace(loss, model, whole=10**6) for _ in range(2))
    for a, b in zip(graph.vertices, again.vertices, strict=True):
        assert (a.name, a.kind, a.group, a.settings) == (b.name, b.kind, b.group, b.settings)
        assert_equal(a.value.numbers, b.value.numbers, 0, 0)
        if a.gradient is not None:
            assert_equal(a.gradient.numbers, b.gradient.numbers, 0, 0)
    assert all(p.grad is None for p in model.parameters())
    loss.backward()
    seen = named(graph)
    for name, p in model.named_parameters():
        assert_equal(seen[name].gradient.numbers, p.grad.array, 0, 0)
        assert_snapshot(seen[name].gradient, p.grad.array)


def test_tracing_does_not_change_gradients_or_rng_state():
    x = leaf(1, 2, 3)
    x.grad = mg.tensor(np.array([7.0, 7, 7]))
    y = x * x
    y.retain_grad()
    before = mg.random.snapshot()
    trace((y * 2).sum())
    assert_equal(x.grad, [7, 7, 7])
    assert y.grad is None
    assert mg.random.snapshot() == before
    (y * 2).sum().backward()
    assert_equal(x.grad, [7 + 4, 7 + 8, 7 + 12])
    assert_equal(y.grad, [2, 2, 2])


def test_traces_show_gradients_changed_by_hooks():
    x = leaf(1, 2)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    graph = trace(y.sum(), {"x": x})
    assert_equal(op(graph, "multiply").gradient.numbers, [10, 10])
    assert_equal(named(graph)["x"].gradient.numbers, [31, 31])
    assert x.grad is None


def test_tracing_works_under_no_grad_and_detect_anomaly():
    x = leaf(1, 2)
    loss = (x * x).sum()
    with mg.no_grad(), autograd.detect_anomaly():
        graph = trace(loss, {"x": x})
    assert_equal(named(graph)["x"].gradient.numbers, [2, 4])


def test_a_retained_graph_can_be_traced_after_backward():
    x = leaf(1, 2)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    assert_equal(named(trace(loss, {"x": x}))["x"].gradient.numbers, [2, 4])
    assert_equal(x.grad, [2, 4])


def test_fused_ops_list_their_parts():
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
def test_kept_training_steps_can_be_traced_later(within):
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


def test_keep_does_not_change_gradients_and_ends_with_its_block():
    x = leaf(1, 2)
    with mg.graph.keep():
        loss = (x * x).sum()
        loss.backward()
        loss.backward()  # works again, as with retain_graph=True
    assert_equal(x.grad, [4, 8])
    other = (x * x).sum()
    other.backward()
    with pytest.raises(GraphError, match=r"freed by backward.*\n.*mg\.graph\.keep\(\).*retain_graph=True"):
        trace(other)


def test_kept_graphs_are_freed_with_the_loss():
    x = leaf(1, 2)
    before = len(kept_graphs._parameters)  # from losses of other tests
    with mg.graph.keep():
        for _ in range(2):
            loss = (x * x).sum()
            loss.backward()
    assert len(kept_graphs._parameters) == before + 1
    del loss
    assert len(kept_graphs._parameters) == before


def test_tracing_results_computed_under_no_grad_raises():
    x = leaf(1, 2)
    with mg.no_grad():
        y = x * x
    with pytest.raises(GraphError, match=r"has no graph(.|\n)*requires_grad=True"):
        trace(y)
    with pytest.raises(DtypeError, match="output must be a tensor, got ndarray"):
        trace(np.ones(3))


def test_a_single_leaf_can_be_traced():
    x = number(1)
    graph = trace(x, {"x": x})
    assert [v.name for v in graph.vertices] == ["x"]
    assert graph.outputs[0].gradient.numbers == 1


def test_tracing_several_outputs_needs_a_gradient():
    x = leaf(1, 2)
    y = x * x
    silent = trace(y, {"x": x})
    assert named(silent)["x"].gradient is None
    assert "not a scalar" in silent.notes[0]
    for gradient in ([1.0, 10.0], mg.tensor([1.0, 10.0])):
        graph = trace(y, {"x": x}, gradient=gradient)
        assert_equal(named(graph)["x"].gradient.numbers, [2, 40])
        assert graph.notes == ()
    with pytest.raises(ShapeError, match=r"\(3,\)(.|\n)*\(2,\)"):
        trace(y, gradient=np.ones(3))


def test_gradients_of_several_outputs_add_up():
    x = leaf(1, 2)
    a = (x * x).sum()
    b = x.exp().sum()
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
        lambda x: x @ mg.ones(3, 2, dtype="float64"),
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
    assert_equal(sum(edge.jacobian for edge in vertex.inputs if edge.needs), expected, 1e-9, 1e-12)


def test_elementwise_derivatives_are_marked():
    x = leaf(1, 2, 3)
    graph = trace((x.exp().softmax(0)).sum())
    assert op(graph, "exp").inputs[0].elementwise
    assert not op(graph, "softmax").inputs[0].elementwise


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["square", "rsqrt", "log1p", "asin", "nan_to_num"])
def test_non_finite_elementwise_jacobians_stay_diagonal(name):
    graph = trace(getattr(leaf(0.0, np.inf, np.nan), name)().sum())
    matrix = op(graph, name).inputs[0].jacobian
    assert not matrix[~np.eye(3, dtype=bool)].any()


def test_jacobians_of_large_results_are_omitted():
    x = mg.randn(100, requires_grad=True)
    assert op(trace(x.exp().sum()), "exp").inputs[0].jacobian is None


@pytest.mark.parametrize("check", [None, True])
def test_traces_compare_gradients_with_finite_differences(check):
    x, w = leaf([1, 2, 3], [4, 5, 6]), leaf([0.3], [-0.2], [0.5])
    loss = (x @ w).tanh().square().sum()
    graph = trace(loss, {"x": x, "w": w}, check=check)
    for vertex in (named(graph)["x"], named(graph)["w"]):
        assert len(vertex.checks) == vertex.value.size
        for one in vertex.checks:
            assert one.analytic == vertex.gradient.numbers[one.index]
            assert one.numeric == pytest.approx(one.analytic, rel=1e-5, abs=1e-8)


def test_finite_differences_are_computed_in_float64():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    graph = trace(model(mg.randn(5, 3)).square().mean(), model)
    checks = [c for v in graph.vertices for c in v.checks]
    assert len(checks) == 4 * 3 + 4 + 4 + 1
    for one in checks:
        assert one.numeric == pytest.approx(one.analytic, rel=1e-4, abs=1e-6)


def test_trace_checks_reveal_a_wrong_derivative():
    @mg.ops.differentiable
    def doubled(x, /):
        """2 x, with the derivative of 3 x."""
        return x * 2, (lambda g: g * 3,)

    x = number(1)
    (check,) = named(trace(doubled(x), {"x": x}))["x"].checks
    assert (check.analytic, check.numeric) == (3, pytest.approx(2))


def test_checks_are_optional_and_skipped_for_large_graphs():
    x = mg.randn(64, 64, requires_grad=True)
    y = x
    assert not any(v.checks for v in trace((x * x).sum(), check=False).vertices)
    for _ in range(400):
        y = y @ x * 0.1
    assert not any(v.checks for v in trace(y.sum()).vertices)


@for_each([key for key, record in registry.items() if record.samples and not is_of_more(record)])
def test_an_op_can_be_traced(key):
    check_trace(key)


def check_trace(key):
    """On an op's first sample, values, gradients and finite differences are what they are without a trace."""
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
