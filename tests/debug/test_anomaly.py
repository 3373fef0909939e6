"""detect_anomaly: who made the first NaN or infinity, where, out of what."""

import math
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minigrad as mg
from minigrad import NonFiniteError, autograd
from minigrad.autograd import checkpoint, detect_anomaly, set_detect_anomaly
from minigrad.debug import first_nonfinite
from minigrad.nn import functional as F

INF, NAN = math.inf, math.nan
HERE = r"test_anomaly\.py:\d+"


def leaf(*data):
    return mg.tensor(np.array(data, dtype=np.float64), requires_grad=True)


def refusal(function):
    """The message of the error that `function` raises while anomalies are looked for."""
    with detect_anomaly(), pytest.raises(NonFiniteError) as caught:
        function()
    return str(caught.value)


def matches(message, *parts):
    for part in parts:
        assert re.search(part, message), f"{part!r} is not in:\n{message}"
    return True


# ---------------------------------------------------------------- forward


def test_anomalies_report_op_line_index_and_inputs():
    x, y = leaf([1, 2, 3], [4, 0, 6]), leaf(1, 0, 1)
    message = refusal(lambda: (x / y).sum())
    assert matches(
        message,
        r"^(true_)?divide produced inf at \[0, 1\] \(2 of 6 elements are not finite\) of its result",
        HERE,
        r"\nThere x = 2; y = 0\.",
    )


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda: leaf(1, 0, 2).log(), [r"^log produced -inf at \[1\]", "x = 0"]),
        (lambda: leaf(1, -2).sqrt(), [r"^sqrt produced nan at \[1\]", "x = -2"]),
        (lambda: leaf(1, 800).exp(), [r"^exp produced inf at \[1\]", "x = 800"]),
        (lambda: mg.tensor([1e30, 1.0]) * 1e30,
         [r"^multiply produced inf at \[0\]", r"x = 1e\+30; y = 1e\+30"]),
        (lambda: leaf(1e200) @ leaf(1e200),
         [r"^matmul produced inf", r"x, float64\[1\], is finite, from 1e\+200"]),
        (lambda: leaf(1e308, 1e308).sum(), [r"^sum produced inf of", r"x, float64\[2\], is finite"]),
        (lambda: mg.zeros(0).mean(), ["^mean produced nan"]),
        (lambda: mg.tensor([1e6]).half(), [r"^astype produced inf at \[0\]", "x = 1e"]),
        (lambda: leaf(INF, 1) - leaf(INF, 1), [r"^subtract produced nan at \[0\]", "x = inf; y = inf"]),
        (lambda: leaf(-INF, -INF).softmax(0), [r"^softmax produced nan at \[0\]", "x = -inf"]),
        (lambda: F.cross_entropy(mg.zeros(2, 3), [-100, -100]), ["^cross_entropy produced nan"]),
    ],
)  # fmt: skip
def test_the_op_that_produces_a_non_finite_value_is_named(function, parts):
    assert matches(refusal(function), *parts, HERE)


def test_deliberate_infinities_are_not_reported():
    x = leaf([1, 2], [3, 4])
    mask = mg.tensor([[False, True], [False, False]])
    with detect_anomaly():
        masked = x.masked_fill(mask, -INF)
        masked.softmax(-1).sum().backward(retain_graph=True)
        (masked + 1).amax(-1).sum().backward()
        F.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward()
        F.scaled_dot_product_attention(x, x, x, mg.full((2, 2), -INF)).sum().backward()
        assert x.grad.isfinite().all()
        assert mg.where(mask, -INF, x).log_softmax(-1).tolist()[0] == [0, -INF]
        assert (x + mg.full((2, 2), INF)).exp().tolist() == [[INF] * 2] * 2
        assert mg.where(mg.tensor([NAN, 1.0]).isnan(), 0.0, mg.tensor([NAN, 1.0]) * 2).tolist() == [0, 2]
        assert x.clamp(min=-INF, max=3.0).tolist() == [[1, 2], [3, 3]]


def test_anomalies_inside_unfused_definitions_are_named():
    with mg.fused(False):
        message = refusal(lambda: leaf(-INF, -INF).softmax(0))
    assert matches(message, "^softmax.*subtract produced nan", HERE)


def test_check_inf_false_reports_only_nan():
    x = leaf(0, 1)
    with detect_anomaly(check_inf=False):
        y = x.log()
        with pytest.raises(NonFiniteError, match="multiply produced nan"):
            y * 0.0


# ---------------------------------------------------------------- backward


def test_a_nan_gradient_names_its_op_and_forward_line():
    x = leaf(4, 0, 1)
    with detect_anomaly():
        y = mg.where(x > 0, x.sqrt(), 0.0)  # the famous trap: 0 / sqrt(0)
    message = refusal(lambda: y.sum().backward())
    assert matches(
        message,
        rf"^the gradient of sqrt \(recorded at .*{HERE}\) with respect to x, float64\[3\], is nan at \[1\]",
        r"\nThere the upstream gradient g = 0; x = 0\. .*before sqrt, not after it",
    )
    assert x.grad is None


def test_infinite_gradients_report_their_operand():
    x, y = leaf(1, 2), leaf([1e-200], [1.0])
    message = refusal(lambda: (x / y).sum().backward())
    assert matches(
        message,
        r"^the gradient of (true_)?divide .* with respect to y, float64\[2, 2\], is -inf at \[0, 0\]",
        "y = 1e-200",
    )


def test_non_finite_second_derivatives_are_reported():
    x = leaf(4, 0)
    with detect_anomaly():
        (g,) = autograd.grad((x**1.5).sum(), x, create_graph=True)  # finite: 1.5 sqrt(x)
        with pytest.raises(NonFiniteError, match="gradient of power"):
            autograd.grad(g.sum(), x)


def test_a_nan_loss_names_the_nan_constant_that_caused_it():
    x = leaf(1, 2)
    message = refusal(lambda: ((x * np.array([1.0, NAN])) + 1).sum().backward())
    assert matches(
        message,
        r"starts at a result that is nan",
        rf"multiply \(recorded at .*{HERE}\) was given y = nan at \[1\]",
    )
    y = (x * mg.tensor([1.0, 0.0])).sum()
    with np.errstate(all="ignore"):
        y = (y - y) / (y - y)
    assert matches(refusal(y.backward), r"Run the forward pass under detect_anomaly\(\) too")


def test_non_finite_gradient_arguments_are_reported():
    x = leaf(1, 2)
    assert matches(
        refusal(lambda: (x * 2).backward(np.array([1.0, NAN]))), r"passed to backward\(\) is nan at \[1\]"
    )


def test_anomalies_within_a_checkpoint_name_the_inner_op():
    x = leaf(4, 0)
    message = refusal(lambda: checkpoint(lambda x: x.sqrt(), x).sum().backward())
    assert matches(message, rf"^the gradient of sqrt \(recorded at .*{HERE}")
    message = refusal(lambda: checkpoint(lambda x: x.sqrt(), x - 1).sum().backward())
    assert matches(message, r"^sqrt produced nan at \[1\]")


def test_anomalies_name_the_failing_one_of_several_results():
    x = leaf(1, 2, 4)
    message = refusal(lambda: autograd.grad([p.log().sum() for p in (x - 1).split([1, 2])], x))
    assert matches(message, r"^log produced -inf at \[0\]")


# ---------------------------------------------------------------- switching


def test_detect_anomaly_ends_with_its_block():
    x = leaf(0, 1)
    with np.errstate(all="ignore"):
        x.log()
        with pytest.raises(ZeroDivisionError), detect_anomaly():
            raise ZeroDivisionError
        x.log().sum().backward()
    assert x.grad.array[0] == INF


def test_detect_anomaly_as_decorator_and_setter():
    @detect_anomaly()
    def step():
        return leaf(0).log()

    with pytest.raises(NonFiniteError):
        step()
    switch = set_detect_anomaly(True)
    with np.errstate(all="ignore"):
        with switch, pytest.raises(NonFiniteError):
            leaf(0).log()
        leaf(0).log()
        with set_detect_anomaly(True), set_detect_anomaly(False):
            leaf(0).log()


def test_detect_anomaly_does_not_change_a_valid_step():
    rng = np.random.default_rng(0)
    found = []
    for watching in (False, True):
        x = mg.tensor(rng.normal(size=(2, 3, 4)) * 0 + 0.3, requires_grad=True)
        with set_detect_anomaly(watching):
            y = F.gelu(F.layer_norm(F.scaled_dot_product_attention(x, x * 2, x, is_causal=True), 4))
            F.cross_entropy(y[:, -1] + x[:, 0], [1, 3]).backward()
        found.append(x.grad.array)
    np.testing.assert_array_equal(*found)


# ---------------------------------------------------------------- modules


class Log(mg.nn.Module):
    def forward(self, x):
        return x.log()


def test_the_first_module_with_a_non_finite_output_is_found():
    model = mg.nn.Sequential(mg.nn.Linear(2, 2), mg.nn.Sequential(Log(), Log()))
    forward = lambda: model(mg.zeros(1, 2)).sum()
    for p in model.parameters():
        p.array[...] = 1.0
    assert first_nonfinite(model, forward) == "1.1"  # log(log(1))
    assert first_nonfinite(model, lambda: mg.zeros(1).log()) == ""
    model[0].bias.array[0] = NAN
    assert first_nonfinite(model, forward) == "0"
    model[0].bias.array[...] = 3.0
    assert first_nonfinite(model, forward) is None


def test_detect_anomaly_is_thread_local():
    def elsewhere():
        with np.errstate(all="ignore"):
            return mg.zeros(1).log().item()

    with mg.autograd.detect_anomaly(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(elsewhere).result() == -np.inf
