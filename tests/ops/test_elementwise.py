"""Elementwise functions far out, at their kinks and at the edges of numbers."""

import math
from operator import attrgetter

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from tests.leaves import INF, assert_equal, gradient_of, leaf, vector


def slope(function, *numbers):
    """The function's derivatives at one point."""
    xs = [mg.tensor(x, dtype="float64", requires_grad=True) for x in numbers]
    function(*xs).backward()
    return [x.grad.item() for x in xs]


def relative_error(ours, exact):
    return np.max(np.abs(ours - exact) / np.abs(exact))


@pytest.mark.parametrize("name", ["erf", "erfc", "lgamma"])
def test_erf_erfc_and_lgamma_agree_with_the_math_module(name):
    x = np.concatenate([np.linspace(-5.9, 26, 999), np.linspace(-0.99, 1, 100), [1e-300, 1e-9]])
    exact = np.array([getattr(math, name)(v) for v in x])
    ours = getattr(mg, name)(mg.tensor(x)).array
    np.testing.assert_allclose(
        ours, exact, rtol=5e-13 if name == "erfc" else 1e-14, atol=2e-14 * (name == "lgamma")
    )


def test_erfc_is_accurate_in_the_tail():
    assert relative_error(mg.erfc(mg.tensor([26.0], dtype="float64")).array, 5.663192408856143e-296) < 1e-12
    assert (
        relative_error(mg.special.erfcx(mg.tensor([1e8], dtype="float64")).array, 5.641895835477562e-9)
        < 1e-14
    )
    assert mg.erfc(mg.tensor([math.inf, -math.inf])).tolist() == [0, 2]


def test_the_inverse_of_the_error_function_inverts_it():
    y = np.concatenate([np.linspace(-5, 5, 101), [1e-200, -1e-9]])
    p = mg.erf(mg.tensor(y)).array
    np.testing.assert_allclose(mg.erfinv(mg.tensor(p[np.abs(y) < 2])).array, y[np.abs(y) < 2], rtol=1e-13)
    q = np.array([1e-300, 1e-100, 1e-5, 0.3, 0.5, 0.9])
    np.testing.assert_allclose(mg.special.ndtr(mg.special.ndtri(mg.tensor(q))).array, q, rtol=1e-11)
    assert mg.special.ndtri(mg.tensor([0.0, 1.0])).tolist() == [-math.inf, math.inf]
    assert mg.erfinv(mg.tensor([1.0, -1.0])).tolist() == [math.inf, -math.inf]
    assert math.isnan(mg.erfinv(mg.tensor(1.5)).item())


def test_log_ndtr_is_finite_far_in_the_tail():
    assert mg.special.log_ndtr(mg.tensor(-1e4, dtype="float64")).item() == pytest.approx(
        -50000010.12927892, rel=1e-15
    )
    assert slope(mg.special.log_ndtr, -1e4) == [pytest.approx(1e4 + 1e-4)]
    assert slope(mg.special.log_ndtr, 1e4) == [pytest.approx(0, abs=1e-290)]


FAR = [
    *(f"nn.functional.{name}" for name in
      ("sigmoid", "silu", "softplus", "logsigmoid", "mish", "gelu", "elu", "selu", "tanh", "softsign")),
    "erf", "erfc", "special.log_ndtr", "special.ndtr",
]  # fmt: skip


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients_of_large_inputs_are_finite(name, dtype):
    """A warning is an error here."""
    function = attrgetter(name)(mg)
    x = mg.tensor([-700.0, -50.0, -5.0, 0.0, 5.0, 20.0, 50.0, 700.0], dtype=dtype, requires_grad=True)
    y = function(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype
    assert np.isfinite(y.array).all()
    assert np.isfinite(x.grad.array).all()


def test_equal_returns_a_bool_and_eq_is_elementwise():
    x, y = mg.tensor([1.0, 2.0]), mg.tensor([1.0, 3.0])
    assert mg.equal(x, x.clone()) is True
    assert mg.equal(x, y) is x.equal(y) is False
    assert mg.equal(x, mg.tensor([[1.0, 2.0]])) is False
    assert mg.eq(x, y).tolist() == (x == y).tolist() == [True, False]
    assert mg.allclose(x, x + 1e-9) is True
    assert mg.isclose(x, y).tolist() == [True, False]


def test_clamp_passes_its_gradient_to_the_active_limit():
    x, low, high = (mg.tensor(v, requires_grad=True) for v in ([-2.0, 0.0, 2.0], [-1.0] * 3, [1.0] * 3))
    y = x.clamp(low, high)
    y.sum().backward()
    assert y.tolist() == [-1, 0, 1]
    assert [x.grad.tolist(), low.grad.tolist(), high.grad.tolist()] == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert mg.clamp(mg.tensor([1, 5]), max=2.5).tolist() == [1, 2.5]
    assert mg.clamp(mg.tensor([1.0]), 3, 2).tolist() == [2], "the upper limit wins"
    with pytest.raises(mg.OptionError, match="clamp needs min or max"):
        mg.clamp(x)


to_zero = lambda loss, **settings: lambda x: loss(x, mg.zeros_like(x), reduction="none", **settings)
CURVATURES = {  # where pieces meet: a function, points, and its second derivatives there
    "huber_loss": (to_zero(F.huber_loss), [-0.0, 0.0, 0.5, -0.5, 1.0, -1.0, 2.0], [1, 1, 1, 1, 0, 0, 0]),
    "huber_loss, delta": (to_zero(F.huber_loss, delta=0.5), [0.0, 0.4, 0.5, -0.7], [1, 1, 0, 0]),
    "smooth_l1_loss": (to_zero(F.smooth_l1_loss), [-0.0, 0.0, 0.5, 1.0, -2.0], [1, 1, 1, 0, 0]),
    "smooth_l1_loss, beta": (to_zero(F.smooth_l1_loss, beta=0.5), [0.0, -0.4, 0.5], [2, 2, 0]),
    "l1_loss": (to_zero(F.l1_loss), [0.0, 2.0], [0, 0]),
    "mse_loss": (to_zero(F.mse_loss), [0.0, 2.0], [2, 2]),
    "binary_cross_entropy": (to_zero(F.binary_cross_entropy), [0.0, 0.5], [1e12, 4]),
    "logit, eps": (lambda x: mg.logit(x, 0.1), [0.05, 0.1, 0.5, 0.9, 0.95], [0, -80 / 0.81, 0, 80 / 0.81, 0]),
    "x**-1": (lambda x: x**-1, [0.0, -2.0], [INF, -0.25]),
    "x**-2": (lambda x: x**-2, [0.0, 1.0], [INF, 6]),
    "x**3": (lambda x: x**3, [-0.0, 0.0, 1.0], [0, 0, 6]),
    "softplus": (F.softplus, [0.0, 21.0], [0.25, 0]),
    "sinc": (mg.sinc, [-0.0, 0.0], [-(math.pi**2) / 3] * 2),
    "gelu": (F.gelu, [0.0], [2 / math.sqrt(2 * math.pi)]),
    "hardswish": (F.hardswish, [-3.0, 0.0, 3.0], [0, 1 / 3, 0]),
    "softsign": (F.softsign, [0.0, 1.0, -1.0], [0, -0.25, 0.25]),
    "|x|": (mg.abs, [0.0, -2.0], [0, 0]),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", CURVATURES)
def test_second_derivatives_at_kinks(name):
    function, points, expected = CURVATURES[name]
    x = leaf(points)
    (slopes,) = mg.autograd.grad(function(x).sum(), x, create_graph=True)
    found = mg.autograd.grad(slopes.sum(), x)[0] if slopes.requires_grad else mg.zeros_like(x)
    np.testing.assert_allclose(found.array, expected, rtol=1e-9, atol=1e-9)


def test_binary_cross_entropy_has_finite_derivatives_at_0_and_1():
    """Also by both arguments: where a logarithm is limited, it is flat."""
    p, t = leaf([0.0, 1.0, 0.0, 1.0]), leaf([0.0, 1.0, 1.0, 0.0])
    losses = F.binary_cross_entropy(p, t, reduction="none")
    assert losses.tolist() == [0, 0, 100, 100]
    d_p, d_t = mg.autograd.grad(losses.sum(), [p, t], create_graph=True)
    np.testing.assert_allclose(d_p.array, [0, 0, -1e12, 1e12])
    np.testing.assert_allclose(d_t.array, [100, -100, 100, -100])
    (mixed,) = mg.autograd.grad(d_t.sum(), p)
    np.testing.assert_allclose(mixed.array, [-1, -1, -1, -1])
    assert np.isfinite(mg.autograd.grad(d_p.sum(), t)[0].array).all()


def test_alpha_and_rounding_mode_arguments():
    x, y = mg.tensor([7, -7, 6]), mg.tensor([2, 2, 2])
    assert mg.rsub(x, y, alpha=2).tolist() == [-12, 16, -10]
    whole = mg.div(x, y, rounding_mode="trunc")
    assert (whole.tolist(), whole.dtype) == ([3, -3, 3], "int64")
    with pytest.raises(TypeError, match=r"add\(\) got 3 arguments[\s\S]*\(x, y, \*, alpha=1\)"):
        mg.add(x, y, 3)
    with pytest.raises(mg.OptionError, match="rounding_mode"):
        mg.div(x, y, rounding_mode="up")


def test_a_softmax_may_be_computed_in_a_wider_dtype():
    x = mg.tensor([[1.0, 2.0]], dtype="float16", requires_grad=True)
    y = F.softmax(x, dim=-1, dtype="float32")
    (y * y).sum().backward()
    assert (y.dtype, x.grad.dtype) == ("float32", "float16")
    assert mg.softmax(mg.tensor([1, 2]), 0, dtype="float64").dtype == "float64"
    assert mg.zeros(3, 0).softmax(axis=-1).shape == (3, 0)
    np.testing.assert_allclose(F.softmin(-x).array, x.softmax(-1).array)


def test_values_and_gradients_at_zero_match_pytorch():
    with np.errstate(divide="ignore", invalid="ignore"):
        assert_equal(mg.zeros(1).log(), [-INF])
        assert_equal(gradient_of(lambda x: x.log(), [0]), [INF])
        assert_equal(gradient_of(lambda x: x.sqrt(), [0]), [INF])
        assert_equal(gradient_of(lambda x: x**0.5, [0]), [INF])
    assert_equal(gradient_of(lambda x: x.norm(), [0, 0]), [0, 0])
    assert_equal(gradient_of(lambda x: x.std(), [3, 3]), [0, 0])
    assert_equal(gradient_of(lambda x: x**0, [0, 2]), [0, 0])
    assert_equal(gradient_of(lambda x: x**1, [0, 2]), [1, 1])
    assert_equal(gradient_of(lambda x: x**2, [0, 2]), [0, 4])
    assert_equal(mg.zeros(1) ** 0, [1])
    assert_equal(mg.zeros(1) ** mg.zeros(1), [1])


def test_masked_elements_block_infinite_gradients():
    closed = np.array([True, False])
    gates = [
        lambda x: x.masked_fill(mg.tensor(closed), 0.0),
        lambda x: mg.where(~closed, x, 0.0),
        lambda x: mg.where(closed, 0.0, x),
        lambda x: (x * np.where(closed, -1.0, 1.0)).relu(),
        lambda x: (x * np.where(closed, -1.0, 1.0)).clamp(min=0.0),
        lambda x: mg.maximum(x * np.where(closed, -1.0, 1.0), 0.0),
    ]
    for gate in gates:
        assert_equal(gradient_of(lambda x, gate=gate: gate(x).sqrt(), [4, 4]), [0, 0.25])


def test_sigmoid_and_log_softmax_are_accurate_in_the_tails():
    x = mg.tensor([-80.0, -30.0])
    assert_equal(x.sigmoid(), np.exp([-80.0, -30.0]), rtol=1e-6)
    assert_equal(mg.tensor([-1000.0, 1000.0]).sigmoid(), [0, 1])
    assert_equal(F.log_softmax(mg.tensor([[0.0, 1000.0]])), [[-1000, 0]])
    assert_equal(mg.tensor([1000.0, 1000.0]).logsumexp(0), 1000 + math.log(2), rtol=1e-6)


def test_gelu_of_a_0d_tensor_is_0d():
    x = mg.tensor(1.0, requires_grad=True)
    for form in ("none", "tanh"):
        y = mg.nn.functional.gelu(x, form)
        assert y.shape == ()
        y.backward()
        assert x.grad.shape == ()


def test_huber_gradients_at_infinity():
    for loss in (F.smooth_l1_loss, F.huber_loss):
        x = vector(-np.inf, -0.5, 1.0, np.inf)
        loss(x, mg.zeros(4), reduction="sum").backward()
        assert x.grad.tolist() == [-1, -0.5, 1, 1]


def test_logaddexp_at_infinity():
    x, y = (mg.tensor(v) for v in np.meshgrid([-np.inf, 0.0, 1e30, np.inf, np.nan], [-np.inf, 2.0, np.inf]))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(mg.logaddexp(x, y).array, np.logaddexp(x.array, y.array))


def test_gcd_lcm_and_bitwise_ops():
    x, y = mg.tensor([12, 18]), mg.tensor([8, 2])
    assert (mg.gcd(x, y).tolist(), mg.lcm(x, y).tolist()) == ([4, 2], [24, 18])
    assert ((x << 1).tolist(), (x >> 1).tolist(), (1 << y).tolist()) == ([24, 36], [6, 9], [256, 4])
    assert ((x & 8).tolist(), (x | 1).tolist(), (~x).tolist()) == ([8, 0], [13, 19], [-13, -19])
    assert (~(x > 12)).tolist() == [True, False]


def test_integer_division_by_zero_raises():
    empty = mg.zeros(0, dtype="int64")
    for divide in (mg.floor_divide, mg.remainder, mg.fmod):
        assert divide(empty, 0).shape == (0,)
        with pytest.raises(mg.MinigradError, match="divided by 0"):
            divide(mg.ones(1, dtype="int64"), 0)


def test_polygamma_at_poles_and_infinities():
    x = mg.tensor([0.5, -0.5], dtype="float64")
    half = -0.5772156649015329 - 2 * math.log(2)
    np.testing.assert_allclose(mg.digamma(x).array, [half, half + 2], rtol=1e-13)
    np.testing.assert_allclose(mg.polygamma(1, x).array, [math.pi**2 / 2, math.pi**2 / 2 + 4], rtol=1e-14)
    assert mg.polygamma(1, mg.tensor([0.0, -3.0])).tolist() == [math.inf, math.inf]
    far = leaf([-INF, INF])
    for n, at_infinity in ((0, INF), (1, 0), (2, 0), (3, 0)):  # poles without end to the left
        np.testing.assert_array_equal(mg.polygamma(n, far).array, [math.nan, at_infinity])
    np.testing.assert_array_equal(gradient_of(mg.lgamma, [-INF, INF]), [math.nan, INF])
    with pytest.raises(mg.OptionError, match="n must be an integer from 0 to 100"):
        mg.polygamma(-1, x)
    with pytest.raises(mg.RangeError, match=r"above 0\.5, got -0\.5"):
        mg.mvlgamma(x, 2)
