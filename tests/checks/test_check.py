"""The gradient check finds each planted mistake, names its element, and says what it looks like."""

import gc
import io
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.checks import GradcheckError
from minigrad.core.errors import DtypeError, OptionError
from minigrad.core.op import differentiable

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
APART = mg.tensor(X, requires_grad=True)
pytestmark = pytest.mark.usefixtures("own_ops")
SIGNED = np.array([[-1.5, 0.5, 2.0], [1.0, -0.5, -2.0]])


def leaf(data):
    return mg.tensor(np.asarray(data, dtype=np.float64), requires_grad=True)


def checked(fn, *arrays, **settings):
    return mg.gradcheck(fn, [leaf(a) for a in arrays], raise_exception=False, **settings)


def expect(report, verdict, number=0, index=None):
    """The report names the element and gives the verdict."""
    assert not report.passed
    assert verdict in report.verdict, report
    assert report.input == number
    assert index is None or report.index == index
    assert report.advice
    with pytest.raises(GradcheckError) as caught:
        raise GradcheckError(report)
    assert report.verdict in str(caught.value)
    assert str(caught.value).endswith(report.advice)


# ---------------------------------------------------------------- planted mistakes


def test_gradcheck_finds_wrong_second_derivatives():
    @differentiable
    def planted(x, /):
        kept = getattr(x, "array", x)  # a constant, as far as the second derivative can tell
        return x * x, (lambda g: g * (2 * kept),)

    assert checked(planted, X).passed
    report = checked(planted, X, order=2)
    expect(report, "right at first order, wrong at second: gradient missing")
    assert report.order == 2


def test_gradcheck_reports_gradients_wrong_only_at_a_kink():
    def planted(slope):
        @differentiable
        def planted(x, /):
            return np.maximum(x, 0), (lambda g: g * np.where(x == 0, slope, x > 0),)

        return planted

    at_zero = np.array([-1.0, 0.0, 2.0])
    expect(checked(planted(2.0), at_zero), "wrong only at a kink: there is no derivative at [1]", index=(1,))
    report = checked(planted(0.5), at_zero)
    assert report.passed
    (kink,) = report.kinks
    assert (kink.input, kink.index, kink.jump, kink.passed) == (0, (1,), False, True)
    assert (kink.left, kink.analytic / kink.right) == (0, pytest.approx(0.5))


def test_gradcheck_reports_ops_that_change_their_input():
    def planted(x):
        x.array[1, 2] = 0.0
        return x * 2

    x = leaf(X)
    report = mg.gradcheck(planted, x, raise_exception=False)
    expect(report, "input mutated: the function changed input 0 at [1, 2]", index=(1, 2))
    np.testing.assert_array_equal(x.array, X)


def test_permuted_gradients_are_diagnosed():
    @differentiable
    def planted(x, /):
        return np.flip(x, 1) ** 2, (lambda g: g * 2 * np.flip(x, 1),)

    # the gradient's numbers are those of the right one, each in its mirror's place
    expect(checked(lambda x: planted(x).sum(1).sum(), X), "the right numbers in the wrong places")


# ---------------------------------------------------------------- what is not the gradient's fault


def test_gradcheck_passes_with_a_kink_within_one_step():
    report = checked(mg.relu, [3e-7, -3e-7, 1.0])
    assert report.passed
    assert not report.kinks


def test_gradcheck_distinguishes_jumps_from_kinks():
    (kink,) = checked(mg.relu, [0.0, 1.0], order=2).kinks
    assert kink.jump
    assert "a jump at input 0 [0]" in str(kink)


@pytest.mark.parametrize("op", [mg.relu, mg.abs, lambda x: x.clamp(0, 2), lambda x: x.sign() * x])
def test_gradcheck_passes_with_a_jump_at_order_2(op):
    report = checked(op, [0.0, 1.0], order=2)
    assert report.passed
    assert [kink.jump for kink in report.kinks] == [True]


def test_elements_that_tie_share_one_gradient():
    tied = [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]
    for op in (lambda x: x.max(1)[0], lambda x: x.amax(1), lambda x: x.min(), mg.sort):
        assert checked(op, tied).passed


def test_gradcheck_does_not_pass_where_kinks_cancel():
    report = checked(lambda x: x.relu() - (-x).relu(), [0.0, 1.0])  # x, but each part has a kink at 0
    assert not report.passed
    assert "right gradient" not in report.verdict


def test_gradcheck_does_not_mistake_steep_curves_for_kinks():
    report = checked(lambda x: (50 * x).exp(), [0.1, -0.1, 0.02])
    assert report.passed
    assert not report.kinks


def test_gradcheck_rejects_wrong_slopes_at_a_jump():
    @differentiable
    def floor_with_a_slope(x, /):
        return np.floor(x), (lambda g: g * 5.0,)

    x = mg.tensor(np.array([1.0]), requires_grad=True)
    with pytest.raises(mg.GradcheckError, match="wrong only at a jump"):
        mg.gradcheck(floor_with_a_slope, x)
    assert mg.gradcheck(mg.floor, x).kinks[0].jump


def test_a_check_under_no_grad_finds_the_gradient():
    x = mg.tensor(np.array([1.0]), requires_grad=True)
    with mg.no_grad():
        assert mg.gradcheck(mg.exp, x).passed
        assert mg.gradcheck_sweep(mg.exp, x).kind == "right"


def test_a_check_leaves_a_modules_buffers_alone():
    norm = mg.nn.BatchNorm1d(2).double()
    before = [buffer.array.copy() for buffer in norm.buffers()]
    x = mg.tensor(np.arange(6.0).reshape(3, 2) ** 2)
    assert mg.gradcheck(lambda: norm(x), norm).passed
    for buffer, array in zip(norm.buffers(), before, strict=True):
        np.testing.assert_array_equal(buffer.array, array)


def test_gradcheck_does_not_keep_tensors_alive():
    x = mg.tensor(np.array([1.0]), requires_grad=True)
    seen = []

    def watched(x):
        seen.append(weakref.ref(x))
        return x.exp()

    gc.collect()
    gc.disable()
    try:
        mg.gradcheck(watched, x)
        assert seen[0]() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- inputs


def test_gradcheck_does_not_change_its_inputs():
    x, y = leaf(X), leaf(Y)
    (x * 2).sum().backward()
    before = x.array
    grad = x.grad
    cell = x.version
    mg.gradcheck(lambda x, y: (x * y).sin(), [x, y], order=2)
    with pytest.raises(ZeroDivisionError):
        mg.gradcheck(lambda x, y: 1 / 0, [x, y])
    assert x.array is before
    assert x.grad is grad
    assert x.version is cell
    assert x.requires_grad
    assert y.grad is None
    np.testing.assert_array_equal(x.array, X)


def test_inputs_in_a_dict_are_named():
    @differentiable
    def planted(x, weight, /):
        return x * weight, (lambda g: g * weight, lambda g: -g * x)

    report = mg.gradcheck(planted, {"x": leaf(X), "weight": leaf(Y)}, raise_exception=False)
    expect(report, "sign flipped", 1)
    assert report.name == "weight"
    assert "input 1 (weight)" in str(report)
    with pytest.raises(OptionError, match="cannot be called with these names"):
        mg.gradcheck(planted, {"x": leaf(X), "bias": leaf(Y)})


def test_gradcheck_varies_and_restores_module_parameters():
    model = mg.nn.Linear(3, 2).double()
    arrays = [p.array for p in model.parameters()]
    copies = [a.copy() for a in arrays]
    report = mg.gradcheck(lambda: model(mg.tensor(X)).tanh(), model, order=2)
    assert report.elements == 8
    assert [one.name for one in report.inputs] == ["weight", "bias"]
    with pytest.raises(ZeroDivisionError):
        mg.gradcheck(lambda: 1 / 0, model)
    for p, array, copy in zip(model.parameters(), arrays, copies, strict=True):
        assert p.array is array
        assert p.grad is None
        np.testing.assert_array_equal(array, copy)


def test_arguments_that_need_no_gradient_are_passed_on():
    mask = mg.tensor([[True, False, True], [False, True, True]])
    report = mg.gradcheck(mg.where, [mask, leaf(X), 0.5])
    assert report.elements == 6


def changes_its_input(x, /):
    def gradient(g):
        x[0, 1] += 1
        return g * 2

    return x * 2, (gradient,)


def draws(x, /):
    factors = rng.random(x.shape)
    return x * factors, (lambda g: g * factors,)


PLANTED = {  # a rule with a mistake -> arrays, the verdict, and which input and element it names
    "a constant factor": (lambda x, /: (x * x, (lambda g: g * x,)), ([[1.0, 2.0], [30.0, -3.0]],),
        "off by a constant factor (analytic = 0.5 x numeric)", 0, (1, 0)),
    "only where x is negative": (
        lambda x, /: (np.where(x > 0, x, 0.1 * x), (lambda g: g * np.where(x > 0, 1.0, 0.2),)), (SIGNED,),
        "off by a constant factor (analytic = 2 x numeric), only where the input is negative", 0, None),
    "one element": (
        lambda x, /: (np.sin(x), (lambda g: g * np.where(np.arange(6).reshape(2, 3) == 4, 7.0, np.cos(x)),)),
        (X,), "only in the element [1, 1]", 0, (1, 1)),
    "a sum that is missing": (lambda x, /: (x[:, None] * np.ones(4), (lambda g: g,)), (X[0],),
        "missing sum over a broadcast axis: axis 1 (length 4) of the gradient", 0, None),
    "a sum too many": (lambda x, /: (x * 2, (lambda g: np.zeros_like(g) + 2 * g.sum(0, keepdims=True),)),
        (X,), "summed over axis 0, which is not broadcast", 0, None),
    "another shape": (lambda x, y, /: (x @ y, (lambda g: (g @ y.T).T, lambda g: x.T @ g)), (X, X.T),
        "transposed, or not reshaped back: the gradient has shape [3, 2]", 0, None),
    "None": (lambda x, y, /: (x * y, (lambda g: g * y, None)), (X, Y),
        "gradient missing (None where the slope is not)", 1, None),
    "zero": (lambda x, y, /: (x * y, (lambda g: g * y, np.zeros_like)), (X, Y),
        "gradient missing (zero where the slope is not)", 1, None),
    "each other's": (lambda x, y, /: (x * y, (lambda g: g * x, lambda g: g * y)), (X, Y),
        "gradient to the wrong input: input 0 and input 1 have each other's", 1, None),
    "a changed input": (changes_its_input, (X,), "input mutated: the gradient changed input 0 at [0, 1]",
        0, (0, 1)),
    "a value that is drawn": (draws, (X,), "not deterministic: output 0 at [", 0, None),
    "a gradient that is drawn": (lambda x, /: (x * 2, (lambda g: g * rng.random(x.shape),)), (X,),
        "not deterministic: the gradient of input 0 at [0, 0]", 0, (0, 0)),
    "not a number": (
        lambda x, /: (np.abs(x), (lambda g: g * (x / np.sqrt(np.where(x > 0, x * x, np.nan))),)), (SIGNED,),
        "the gradient is nan at [0, 0], only where the input is negative", 0, (0, 0)),
    "infinite": (lambda x, /: (x * 2, (lambda g: g / np.zeros(3),)), ([1.0, 2.0, 3.0],),
        "the gradient is inf at [0]", 0, (0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_named(name):
    rule, arrays, verdict, number, index = PLANTED[name]
    with np.errstate(divide="ignore"):
        expect(checked(differentiable(rule), *arrays), verdict, number, index)


def test_a_report_has_the_numbers_of_the_worst_element():
    report = checked(differentiable(PLANTED["a constant factor"][0]), [[1.0, 2.0], [30.0, -3.0]])
    assert report.analytic == pytest.approx(report.numeric / 2)
    assert "the worst is input 0 at [1, 0]: analytic 16.22920572, numeric 32.45841144" in str(report)
    report = checked(differentiable(PLANTED["a sum that is missing"][0]), X[0])
    assert np.isnan(report.analytic)
    assert abs(report.numeric) > 0
    assert "the gradient has shape [3, 4], the input [3]" in report.verdict
    report = checked(differentiable(PLANTED["only where x is negative"][0]), SIGNED)
    assert SIGNED[report.index] < 0
    assert report.failing == 3


def test_gradcheck_reports_non_finite_values():
    with np.errstate(divide="ignore", invalid="ignore"):
        expect(checked(mg.log, [1.0, 0.0]), "the function's value is not finite: output 0 at [1] is -inf")
        expect(checked(mg.sqrt, [1.0, 1e-8]), "the function is not finite one step away", index=(1,))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mg.gradcheck(mg.exp, mg.ones(2, requires_grad=True)), DtypeError, "input 0 is float32"),
        (lambda: mg.gradcheck(mg.exp, mg.ones(2)), OptionError, "no input requires a gradient"),
        (lambda: mg.gradcheck(mg.exp, 3.0), DtypeError, "inputs must be tensors, got float"),
        (lambda: mg.gradcheck(mg.exp, leaf(X), eps=0), OptionError, "a small positive number"),
        (lambda: mg.gradcheck(mg.exp, leaf(X), order=3), OptionError, "order must be 1 or 2"),
        (lambda: mg.gradcheck(mg.argmax, leaf(X)), DtypeError, "int64, which has no derivative"),
        (lambda: mg.gradcheck(lambda x: 1.0, leaf(X)), DtypeError, "the function returned float"),
        (lambda: mg.gradcheck(lambda x: x.float(), leaf(X)), DtypeError, "returned float32, but gradcheck"),
        (lambda: mg.gradcheck(lambda copy: APART * APART, APART), OptionError, "on none of the inputs"),
        (lambda: mg.gradcheck(lambda x: x[x > 0], leaf([1e-7, 1.0])), OptionError,
            "2 numbers, but 1 one step away"),
        (lambda: mg.gradcheck(mg.square, leaf([1e12])), OptionError, "too small for the element"),
        (lambda: mg.gradcheck(mg.multiply, leaf(X), leaf(X)), OptionError,
            r"eps must be a number .*, got Tensor.\n.*mg.gradcheck\(fn, \[x, y\]\)"),
        (lambda: mg.gradcheck_sweep(mg.exp, leaf(X), (0, (7,))), OptionError, "is out of range"),
        (lambda: mg.gradcheck_sweep(mg.exp, leaf(X), (2, (0,))), OptionError, "does not require a gradient"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_call_is_explained(call, error, message):
    with pytest.raises(error, match=message), np.errstate(all="ignore"):
        call()


# ---------------------------------------------------------------- the report


def test_a_report_has_counts_and_errors():
    report = checked(lambda x, y: (x * y).exp(), X, Y[0])
    assert (report.elements, report.failing, report.passed, report.order) == (9, 0, True, 1)
    assert [(one.input, one.shape, one.elements) for one in report.inputs] == [(0, (2, 3), 6), (1, (3,), 3)]
    assert report.relative_error < 1e-8
    assert report.worst_error <= 0
    assert str(report).startswith("the gradient agrees with finite differences in 9 elements")


def test_a_report_renders_as_a_table():
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(checked(lambda x, y: x * y.detach(), X, Y))
    text = console.export_text()
    assert "0 of 6" in text
    assert "6 of 6" in text
    assert "gradient missing" in text


def test_empty_input_reports_nothing_to_check():
    report = checked(mg.exp, np.zeros((2, 0)))
    assert report.passed
    assert str(report) == "the gradient has no elements to check"


# ---------------------------------------------------------------- the sweep


@pytest.mark.parametrize(
    ("fn", "at", "kind", "says"),
    [
        (mg.exp, 0.5, "right", "truncation falls like eps^2"),
        (mg.sin, 2.0, "right", "rounding grows like 1 / eps"),
        (mg.square, 0.5, "exact", "at most quadratic"),
        (lambda x: x * 3.0, 0.5, "exact", "at most quadratic"),
        (lambda x: x * x.detach(), 0.5, "wrong", "the derivative is wrong, not the step"),
        (mg.relu, 0.0, "kink", "a kink: the slope is 0 to the left"),
        (mg.floor, 1.0, "kink", "a jump"),
        (mg.relu, 2e-4, "kink nearby", "a kink at a distance between 1e-04 and 3e-04"),
        (lambda x: (1 + x * x).log(), 3.0, "right", "truncation"),
    ],
)
def test_a_sweep_explains_the_error_curve(fn, at, kind, says):
    sweep = mg.gradcheck_sweep(fn, leaf([at]))
    assert sweep.kind == kind, sweep
    assert says in sweep.reading


def test_a_sweep_measures_both_errors():
    sweep = mg.gradcheck_sweep(mg.exp, leaf([0.5]), steps=[1e-1, 1e-2, 1e-3, 1e-11, 1e-12])
    assert sweep.errors[0] / sweep.errors[1] == pytest.approx(100, rel=0.02)  # like eps^2
    assert sweep.errors[1] / sweep.errors[2] == pytest.approx(100, rel=0.02)
    assert all(
        error < sweep.rounding / eps for eps, error in zip(sweep.eps[3:], sweep.errors[3:], strict=True)
    )
    assert max(sweep.errors[3:]) > 1e-7


def test_a_sweep_takes_the_worst_or_the_chosen_element():
    fn = lambda x, y: x * y + mg.where(mg.tensor([False, True, False]), y * y.detach(), 0.0)
    inputs = [leaf(X[0]), leaf(Y[0])]
    worst = mg.gradcheck_sweep(fn, inputs)
    assert (worst.input, worst.index) == (1, (1,))
    asked = mg.gradcheck_sweep(fn, inputs, element=(0, (2,)), order=1)
    assert (asked.input, asked.index, asked.kind) == (0, (2,), "exact")
    assert mg.gradcheck_sweep(mg.exp, leaf([0.5]), order=2).kind == "right"
    assert min(mg.gradcheck_sweep(mg.square, leaf([1e5])).eps) > 1e-12  # what is lost beside 1e5 is left out


@pytest.mark.slow
def test_a_sweep_can_be_plotted_and_saved(tmp_path):
    for fn, at in ((mg.exp, 0.5), (mg.relu, 0.0), (lambda x: x * 3.0, 0.0)):
        sweep = mg.gradcheck_sweep(fn, leaf([at]))
        sweep.save(tmp_path / "sweep.png")
        assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    axes = mg.gradcheck_sweep(mg.exp, leaf([0.5])).plot()
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert {"|analytic - numeric|", "truncation, like eps$^2$"} <= set(axes.get_legend_handles_labels()[1])


# ---------------------------------------------------------------- the command line


def run(capsys, *argv):
    from minigrad.__main__ import main

    code = main(["gradcheck", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_checks_the_ops_that_are_named(capsys):
    code, out, _ = run(capsys, "softmax", "pow")
    assert code == 0
    assert "softmax (readable)" in out
    assert "power" in out
    assert "all 3 pass" in out


@pytest.mark.parametrize(("flag", "shown"), [("--fused", "softmax "), ("--readable", "softmax (readable)")])
def test_the_command_checks_only_the_fused_or_readable_form(capsys, flag, shown):
    code, out, _ = run(capsys, "softmax", "--order", "1", flag)
    assert code == 0
    assert "all 1 pass" in out
    assert shown in out
    assert "order 2" not in out


def test_the_command_fails_where_a_derivative_is_wrong(capsys):
    from minigrad.ops.samplers import real, unary

    @differentiable(samples=unary(real))
    def planted(x, /):
        return x * x, (lambda g: g * x,)

    code, out, _ = run(capsys, "planted", "exp")
    assert code == 1
    assert "1 of 2 pass" in out
    assert "planted, sample 0: the gradient contradicts" in out
    assert "analytic = 0.5 x numeric" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sofmax"], "there is no op 'sofmax'. Did you mean softmax"),
        (["exp", "--eps", "0"], "a small positive number"),
        (["exp", "--order", "3"], "3"),
    ],
)
def test_the_command_explains_a_mistake(capsys, argv, message):
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert message in err


def test_running_the_module_shows_its_usage(capsys):
    from minigrad.__main__ import main

    assert main([]) == 2
    assert main(["--help"]) == 0
    assert main(["gradcheck", "--help"]) == 0
    assert "python -m minigrad gradcheck" in capsys.readouterr().out
