"""why_nan names the operation to blame, memory is held against measurements."""

import gc
import math
import re
import tracemalloc
import weakref

import numpy as np
import pytest

import minigrad as mg
from benchmarks.memory import retained_by_ours
from minigrad import GraphError, OptionError, nn
from minigrad.autograd import checkpoint
from minigrad.graph import memory, why_nan
from minigrad.nn import functional as F
from minitransformer import GPT, GPTConfig
from tests.core.gradients import leaf
from tests.graph.traces import assert_no_circles, assert_partition

INF, NAN = math.inf, math.nan
HERE = r"test_forensics\.py:\d+"


@pytest.fixture(autouse=True)
def _numpy_is_quiet():
    with np.errstate(all="ignore"):
        yield


def names(graph):
    return [v.name or v.kind for v in graph.vertices]


def says(report, *parts):
    for part in parts:
        assert re.search(part, str(report)), f"{part!r} is not in:\n{report}"
    assert repr(report) == str(report) == report.reason
    return True


# ---------------------------------------------------------------- why_nan: values


def test_why_nan_reports_finite_results():
    x = leaf(1, 2)
    report = why_nan((x * x).sum(), {"x": x})
    assert (report.kind, report.finite, report.vertex) == ("finite", True, None)
    assert names(report.graph) == ["x", "multiply", "sum"]
    assert says(report, "^the output and all gradients are finite")


def test_why_nan_names_op_line_place_and_inputs():
    x, y = leaf([1, 2, 3], [4, 0, 6]), leaf(1, 0, 1)
    loss = ((x + 1) / y).sum().log()  # here
    report = why_nan(loss, {"x": x, "y": y})
    assert (report.kind, report.vertex.name, report.index) == ("value", "true_divide", (0, 1))
    assert not report.finite
    assert says(
        report,
        r"^divide produced inf at \[0, 1\] \(2 of 6 elements are not finite\) of its result, float64\[2, 3\]",
        HERE + r" \(loss = .*# here\)",
        r"\nThere x = 3; y = 0\. Add an eps",
    )


def test_the_report_graph_is_the_path_from_nan_to_output():
    x, w = leaf(1, 2), leaf(3, 4)
    before = (x * 2).tanh()
    broken = (before - before).log()
    side = (w * w).exp()
    report = why_nan((broken * side).sum(), {"x": x, "w": w})
    assert names(report.graph) == ["subtract", "log", "multiply", "sum"]
    assert report.graph.vertices[1] is report.vertex
    assert [v.index for v in report.graph.vertices] == [0, 1, 2, 3]
    assert [[e.source for e in v.inputs] for v in report.graph.vertices] == [[], [0], [1], [2]]
    assert_partition(report.graph)
    assert "From the first NaN or infinity to the output" in report.graph.to_svg()


def test_non_finite_values_that_reach_no_output_are_not_blamed():
    x = leaf(1, 2)
    dead = mg.where(x > 0, x, (x - x).log())
    report = why_nan(dead.sum() + (x * 0).exp().sum(), {"x": x}, backward=False)
    assert report.finite
    assert says(report, "log .* has infinities or NaN, which reach no output", "Gradients were not checked")
    broken = why_nan((dead * leaf(-1, 1).sqrt()).sum())
    assert broken.vertex.name == "sqrt"
    assert "log" not in names(broken.graph)


MASKS = {
    "masked_fill": lambda scores, mask: scores.masked_fill(mask, -INF),
    "where": lambda scores, mask: mg.where(mask, -INF, scores),
    "added": lambda scores, mask: scores + mg.tensor(np.where(mask.array, -INF, 0.0)),
}


def masked_attention(mask, how="masked_fill"):
    scores = leaf([1, 2], [3, 4])
    return (MASKS[how](scores, mg.tensor(mask)).softmax(-1) * scores).sum()


@pytest.mark.parametrize("how", MASKS)
def test_fully_masked_rows_are_blamed_on_softmax(how):
    assert why_nan(masked_attention([[False, True], [False, False]], how)).finite
    report = why_nan(masked_attention([[False, True], [True, True]], how))
    assert (report.vertex.name, report.index) == ("softmax", (1, 0))
    assert says(report, r"There x = -inf", "infinities come from", "fully masked row")
    if how == "masked_fill":
        assert says(report, f"come from masked_fill at .*{HERE}")


def test_advice_of_a_composite_is_shown_for_its_parts():
    with mg.fused(False):
        loss = masked_attention([[False, True], [True, True]])
    report = why_nan(loss)
    assert says(report, r"^subtract produced nan at \[1, 0\] .*, in softmax\.\n", "fully masked row")


def test_an_infinity_is_blamed_before_the_nan_it_causes():
    x = leaf(1, 800)
    e = x.exp()
    report = why_nan((e / e.sum()).sum(), {"x": x})
    assert (report.vertex.name, report.index) == ("exp", (1,))
    assert says(report, rf"Then NaN was produced by divide at .*{HERE}", "x = 800", "Subtract the largest")
    assert names(report.graph) == ["x", "exp", "sum", "true_divide", "sum"]


def test_an_infinity_passed_to_masked_fill_is_reported():
    report = why_nan(leaf(1, 2).masked_fill(mg.tensor([True, False]), INF).sum())
    assert (report.kind, report.vertex.name) == ("value", "filled")
    assert says(report, "^masked_fill was given inf at")


@pytest.mark.parametrize("value", [NAN, INF])
def test_non_finite_leaves_are_named(value):
    w, x = leaf([1, 2], [value, 4]), leaf(5, 6)
    report = why_nan((x @ w).sum(), {"layer": {"w": w}, "x": x})
    assert (report.kind, report.index) == ("input", (1, 0))
    assert report.vertex.kind == "input"
    assert report.vertex.name == "layer.w"
    assert "x" not in names(report.graph)
    assert says(report, r"contains (nan|inf) at \[1, 0\]", f"used first by matmul at .*{HERE}")


def test_non_finite_parameters_are_named_by_their_path():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    with mg.no_grad():
        model[2].weight[0, 1] = NAN
    report = why_nan(model(mg.ones(4, 2)).mean(), model)
    assert (report.kind, report.vertex.name, report.index) == ("input", "2.weight", (0, 1))
    assert says(report, "^the parameter 2.weight", "update that wrote it")


def test_infinite_constants_are_mentioned_with_the_op():
    w = leaf(1, -1)
    data = mg.tensor(np.array([INF, INF]))
    report = why_nan((data * w).sum(), {"w": w})
    assert report.vertex.name == "sum"
    assert says(report, "come from a constant without a name")


def test_why_nan_follows_the_non_finite_one_of_several():
    x = leaf(1, 0, 2)
    a, b = x.log().split([1, 2])
    report = why_nan([a.sum() + b.sum(), x.sum()], {"x": x})
    assert names(report.graph) == ["x", "log", "split", "sum", "add"]
    assert report.vertex.name == "log"


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.map = nn.Linear(width, width)

    def forward(self, x):
        return x + self.map(x).tanh()


class Deep(nn.Module):
    def __init__(self, depth=6, width=4):
        super().__init__()
        self.layers = nn.ModuleList([Layer(width) for _ in range(depth)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_pruned_graphs_keep_stacks_of_equal_blocks():
    model = Deep()
    with mg.no_grad():
        model.layers[2].map.bias[1] = NAN
    graph = why_nan(model(mg.randn(3, 4)).sum(), model).graph
    assert_partition(graph)
    assert_no_circles(graph)
    assert [g.times for g in graph.groups if g.is_stack] == [3]
    paths = {g.path for g in graph.groups}
    assert "layers.2.map" in paths
    assert not any(path.startswith(("layers.0", "layers.1")) for path in paths)


def test_why_nan_searches_all_of_a_large_array():
    x = mg.randn(50, 60, requires_grad=True)
    with mg.no_grad():
        x[37, 41] = 0
    report = why_nan(x.abs().log().sum(), {"x": x})
    assert (report.vertex.name, report.index) == ("log", (37, 41))


def test_nan_within_a_checkpoint_suggests_disabling_it():
    x = leaf(1, 2)
    report = why_nan(checkpoint(lambda x: (x - x).log(), x).sum())
    assert report.vertex.name == "checkpoint"
    assert says(report, "without checkpoint")


def test_the_module_is_named_and_advice_depends_on_dtype():
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    with mg.no_grad():
        model[0].weight.array[:] = 1e30
        model[0].bias.array[:] = 0
    report = why_nan(model(mg.tensor([[1e30]])).sum(), model)
    assert says(report, rf"^linear produced inf at .*{HERE} \(.*\), in 0\.\n", "too large for their dtype")
    half = mg.tensor(np.full(3, 300, np.float16), requires_grad=True)
    assert says(
        why_nan((half * half).sum()), r"^multiply produced inf at \[0\]", "float16 overflows above 65504"
    )
    assert says(why_nan(leaf(-1).sqrt().sum()), "^sqrt produced nan", "Negative numbers have no root")


def test_why_nan_rejects_freed_and_missing_graphs():
    x = leaf(1, 2)
    loss = (x * x).sum()
    loss.backward()
    for look in (why_nan, memory):
        with pytest.raises(GraphError, match="was freed by backward"):
            look(loss)
        with pytest.raises(GraphError, match="has no graph"):
            look(mg.ones(2))
    with pytest.raises(OptionError, match="does not compare gradients"):
        why_nan(x.sum(), check=True)


# ---------------------------------------------------------------- why_nan: gradients


@pytest.mark.parametrize(
    ("function", "name", "operand", "inputs"),
    [
        (lambda x: x.sqrt(), "sqrt", "x", r"upstream gradient g = 0; x = 0"),
        (lambda x: 1 / x, "true_divide", "y", r"x = 1; y = 0; its result = inf"),
    ],
)
def test_nan_gradients_of_the_unselected_branch_of_where(function, name, operand, inputs):
    """0 * inf: what `where` leaves out still has a derivative."""
    x = leaf(0, 1, 4)
    safe = mg.where(x > 0, function(x), mg.zeros_like(x))
    report = why_nan(safe.sum(), {"x": x})
    assert (report.kind, report.vertex.name, report.index) == ("gradient", name, (0,))
    assert says(
        report,
        rf"^the gradient of {name.removeprefix('true_')} at .*{HERE} ",
        rf"with respect to {operand}, float64\[3\], is nan at \[0\]",
        rf"\nThere .*{inputs}\. It reaches",  # not in the line of code, which is this test's
        r"reaches the gradient of the input x\.",
        "before",
    )
    assert names(report.graph) == ["x", name, "where", "sum"]


def test_the_first_bad_gradient_in_backward_order_is_blamed():
    x = leaf(0, 4)
    y = (x * 1).sqrt().sqrt()
    report = why_nan(y.sum(), {"x": x})
    assert report.kind == "gradient"
    assert report.vertex is report.graph.vertices[1]
    assert names(report.graph) == ["sqrt", "sqrt", "sum"]


def test_the_use_with_the_infinite_gradient_is_blamed():
    """The backward pass adds the gradient of the earlier use into the array of the later one."""
    x = leaf(1e-3, 1e-3)
    large = mg.tensor([[1e308, 1], [1, 1e308]], dtype="float64")
    earlier, later = x * large[0], x * large[1]
    report = why_nan((10 * earlier + 10 * later).sum(), {"x": x})
    assert (report.vertex.name, report.index) == ("multiply", (1,))


@pytest.mark.parametrize(("count", "said"), [(3, r"input c\. "), (5, r"input c and 2 more\. ")])
def test_reports_name_at_most_three_affected_leaves(count, said):
    leaves = dict(zip("abcde"[:count], (leaf(0) for _ in range(count)), strict=True))
    total = sum(leaves.values()).sqrt().sum()
    assert says(why_nan(total, leaves), "of the input a, the input b, the " + said)


def test_nan_gradients_that_reach_no_leaf_are_ignored():
    x, w = leaf(0, 4), leaf(1, 2)
    y = mg.where(x > 0, (x * 1).sqrt() * w, 0.0)
    z = mg.where(w > 5, y, w)
    report = why_nan(z.sum(), {"w": w})
    assert report.kind == "gradient"  # the gradient of x, through sqrt
    assert why_nan((w * w).sum() + x.detach().sqrt().sum(), {"w": w}).finite


def test_bad_inputs_and_hooks_are_not_blamed_on_ops():
    x = leaf(1, 2)
    seed = why_nan(x * 2, {"x": x}, gradient=np.array([1, INF]))
    assert seed.kind == "seed"
    assert says(seed, "^the initial gradient is not finite")
    y = x * 2
    y.register_hook(lambda g: g * INF)
    hooked = why_nan((y * 3).sum(), {"x": x})
    assert hooked.kind == "gradient"
    assert says(hooked, "^the gradient that arrives at multiply", "hooks")


def test_a_non_finite_existing_grad_is_not_blamed():
    x = leaf(1, 2)
    x.grad = mg.tensor(np.array([NAN, 1.0]))
    assert why_nan((x * x).sum()).finite
    assert why_nan(x * x).finite


@pytest.mark.parametrize("look", [why_nan, memory])
def test_reports_do_not_keep_the_graph_alive(look):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Layer(4), Layer(4)

        def forward(self, x):
            return checkpoint(self.second, self.first(x))

    gc.disable()
    try:
        model, x = Model(), mg.randn(3, 4)
        hidden = model(x)
        loss = hidden.sum().log()
        result = look(loss, model)
        watched = [weakref.ref(t) for t in (hidden, loss, model.first.map.weight, loss.node, hidden.node)]
        del model, x, hidden, loss
        assert [w() for w in watched] == [None] * 5
        assert repr(result)
    finally:
        gc.enable()


def test_why_nan_and_memory_do_not_change_gradients():
    x = leaf(0, 4)
    loss = x.sqrt().sum()
    why_nan(loss)
    memory(loss)
    assert x.grad is None
    loss.backward()
    assert x.grad.array[1] == 0.25


# ---------------------------------------------------------------- memory


def mlp():
    model = nn.Sequential(
        *[m for _ in range(10) for m in (nn.Linear(128, 128), nn.ReLU())], nn.Linear(128, 10)
    )
    x = mg.randn(512, 128)
    target = mg.tensor(np.arange(512) % 10)
    return model, lambda: F.cross_entropy(model(x), target)


def gpt():
    model = GPT(GPTConfig(
        vocab_size=50, n_positions=64, n_embd=64, n_layer=3, n_head=4,
        embd_pdrop=0.1, resid_pdrop=0.1, attn_pdrop=0.1,
    ))  # fmt: skip
    ids = mg.tensor(np.random.default_rng(0).integers(0, 50, (8, 64)))
    return model, lambda: F.cross_entropy(model(ids).reshape(-1, 50), ids.reshape(-1))


def measured(model, loss_of):
    """(bytes that the graph keeps, peak over a step), as tracemalloc sees NumPy's memory."""
    loss_of().backward()  # whatever is made once
    model.zero_grad()
    gc.collect()
    tracemalloc.start()
    try:
        base = tracemalloc.get_traced_memory()[0]
        loss = loss_of()
        kept = tracemalloc.get_traced_memory()[0] - base
        loss.backward()
        return kept, tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()
        model.zero_grad()


@pytest.mark.parametrize("make", [mlp, gpt])
@pytest.mark.slow
def test_the_forecast_peak_matches_the_measured_peak(make):
    """Within 10%, and never more: what a rule needs for itself while it computes, and Python's objects, are
    not counted.
    """
    model, loss_of = make()
    ledger = memory(loss_of(), model)
    peak = measured(model, loss_of)[1]
    assert 0.9 * peak < ledger.peak <= peak
    assert ledger.peak > ledger.retained
    assert ledger.peak_phase == "backward"


def test_shared_memory_is_counted_once():
    x = mg.randn(100, 100, requires_grad=True)
    y = x.exp()  # holds its result
    z = y * y  # holds it too
    ledger = memory((z * x).sum(), {"x": x})
    size = x.array.nbytes
    assert [(r.name, r.holds, r.counted) for r in ledger.rows] == [
        ("exp", size, size), ("multiply", size, 0), ("multiply", size, size),
    ]  # fmt: skip
    assert ledger.retained == 2 * size
    assert ledger.leaves == size


def test_views_are_counted_as_their_base():
    x = mg.randn(60, 40, requires_grad=True)
    w = mg.randn(60, 40, requires_grad=True)
    y = (x * 2).T.reshape(5, 8, 60)[1:]
    loss = (y.transpose(1, 2) @ (w * 2).reshape(-1)[:8]).sum()
    assert memory(loss).retained == retained_by_ours(loss, [x, w]) == 2 * x.array.nbytes


def test_the_peak_of_a_chain_is_known_exactly():
    x = mg.randn(1000, requires_grad=True)
    y = x
    for _ in range(10):
        y = y + 1.0
    y.backward(mg.ones(1000), retain_graph=True)
    ledger = memory(y)
    assert ledger.retained == 0
    assert ledger.peak == 3 * x.array.nbytes
    assert ledger.peak_phase == "backward"


def test_the_peak_is_exact_if_rules_need_no_memory():
    model = nn.Module()
    model.y = nn.Parameter(mg.randn(400, 400))
    y = model.y
    loss_of = lambda: ((y * 1.0).exp() * (y.exp() * y) - y).mean()
    assert 0 <= measured(model, loss_of)[1] - memory(loss_of()).peak < 2**15  # Python's objects


@pytest.fixture(scope="module")
def ledger():
    mg.manual_seed(0)
    model, loss_of = gpt()
    return memory(loss_of(), model)


def test_recomputation_cost_is_a_fraction_of_the_forward_pass(ledger):
    layers = [s for s in ledger.savings if s.kind == "EncoderLayer"]
    assert len(layers) == 3
    whole = sum(v.flops or 0 for v in ledger.graph.vertices)
    for s in layers:
        inside = ledger.graph.contents[s.group]
        assert s.flops == sum(ledger.graph.vertices[i].flops or 0 for i in inside)
        assert s.share == pytest.approx(s.flops / whole)
    assert 0.9 < sum(s.share for s in layers) < 1


def test_memory_works_with_user_ops_that_validate_gradients():
    @mg.ops.differentiable
    def picky(x, /):
        """x, whose derivative takes ones only."""

        def gradient(g):
            assert (g == 1).all()
            return g

        return x + 0, (gradient,)

    x = mg.randn(100, requires_grad=True)
    assert memory(picky(x).sum()).peak == x.array.nbytes + 8  # and two numbers


def test_memory_retained_by_modules_adds_up(ledger):
    (whole,) = [s for s in ledger.savings if s.kind == "GPT"]
    outside = [r for r in ledger.rows if r.vertex not in ledger.graph.contents[whole.group]]
    assert whole.retains + sum(r.counted for r in outside) == ledger.retained
    for s in ledger.savings:
        inside = set(ledger.graph.contents[s.group])
        assert s.saves <= s.retains <= sum(r.holds for r in ledger.rows if r.vertex in inside)


def test_the_ledger_prints_its_tables(ledger):
    text = repr(ledger)
    assert re.match(r"[\d.]+ MiB retained for backward by \d+ operations, and .* of parameters", text)
    assert re.search(r"At the peak [\d.]+ MiB: in backward at \w+ \(.*:\d+\)\.", text)
    assert re.search(r"3 x .* multi_head_attention .*self_attention and 2 more like it", text)
    assert re.search(r"retains +checkpoint saves +recomputes +module", text)
    assert max(map(len, text.splitlines())) < 160


def test_a_ledger_of_several_outputs():
    x = mg.randn(10, 10, requires_grad=True)
    values, _ = x.sort(1)
    a, b = values.split(5)
    ledger = memory([(a * b).sum(), b.exp().mean()], {"x": x})
    assert ledger.retained == retained_by_ours(mg.stack([(a * b).sum(), b.exp().mean()]).sum(), [x])
