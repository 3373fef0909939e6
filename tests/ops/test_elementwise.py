"""Elementwise functions far out, at their kinks and at the edges of numbers."""

import math
from operator import attrgetter

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F


def slope(function, *numbers):
    """The function's derivatives at one point."""
    xs = [mg.tensor(x, dtype="float64", requires_grad=True) for x in numbers]
    function(*xs).backward()
    return [x.grad.item() for x in xs]


def relative_error(ours, exact):
    return np.max(np.abs(ours - exact) / np.abs(exact))


@pytest.mark.parametrize("name", ["erf", "erfc", "lgamma"])
def test_the_functions_that_numpy_lacks_agree_with_pythons(name):
    x = np.concatenate([np.linspace(-5.9, 26, 999), np.linspace(-0.99, 1, 100), [1e-300, 1e-9]])
    exact = np.array([getattr(math, name)(v) for v in x])
    ours = getattr(mg, name)(mg.tensor(x)).array
    np.testing.assert_allclose(
        ours, exact, rtol=5e-13 if name == "erfc" else 1e-14, atol=2e-14 * (name == "lgamma")
    )


def test_the_complementary_error_function_keeps_its_digits_in_the_tail():
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


def test_the_logarithm_of_a_vanishing_probability_is_finite():
    assert mg.special.log_ndtr(mg.tensor(-1e4, dtype="float64")).item() == pytest.approx(
        -50000010.12927892, rel=1e-15
    )
    assert slope(mg.special.log_ndtr, -1e4) == [pytest.approx(1e4 + 1e-4)]
    assert slope(mg.special.log_ndtr, 1e4) == [pytest.approx(0, abs=1e-290)]


def test_polygamma_of_integers_and_their_reflections():
    euler = 0.5772156649015329
    x = mg.tensor([1.0, 2.0, 0.5, -0.5], dtype="float64")
    np.testing.assert_allclose(
        mg.digamma(x).array,
        [-euler, 1 - euler, -euler - 2 * math.log(2), 2 - euler - 2 * math.log(2)],
        rtol=1e-13,
    )
    np.testing.assert_allclose(
        mg.polygamma(1, x).array,
        [math.pi**2 / 6, math.pi**2 / 6 - 1, math.pi**2 / 2, math.pi**2 / 2 + 4],
        rtol=1e-14,
    )
    assert mg.polygamma(1, mg.tensor([0.0, -3.0])).tolist() == [math.inf, math.inf]
    with pytest.raises(mg.OptionError, match="order n"):
        mg.polygamma(-1, x)
    with pytest.raises(mg.RangeError, match=r"above 0\.5, got -0\.5"):
        mg.mvlgamma(x, 2)


FAR = [
    *(f"nn.functional.{name}" for name in
      ("sigmoid", "silu", "softplus", "logsigmoid", "mish", "gelu", "elu", "selu", "tanh", "softsign")),
    "erf", "erfc", "special.log_ndtr", "special.ndtr",
]  # fmt: skip


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_overflows_on_the_way(name, dtype):
    """A warning is an error here."""
    function = attrgetter(name)(mg)
    x = mg.tensor([-700.0, -50.0, -5.0, 0.0, 5.0, 20.0, 50.0, 700.0], dtype=dtype, requires_grad=True)
    y = function(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype
    assert np.isfinite(y.array).all()
    assert np.isfinite(x.grad.array).all()


def test_equal_is_one_answer_and_eq_one_for_each_element():
    x, y = mg.tensor([1.0, 2.0]), mg.tensor([1.0, 3.0])
    assert mg.equal(x, x.clone()) is True
    assert mg.equal(x, y) is x.equal(y) is False
    assert mg.equal(x, mg.tensor([[1.0, 2.0]])) is False
    assert mg.eq(x, y).tolist() == (x == y).tolist() == [True, False]
    assert mg.allclose(x, x + 1e-9) is True
    assert mg.isclose(x, y).tolist() == [True, False]


def test_the_gradient_of_a_clamp_reaches_the_limit_that_is_met():
    x, low, high = (mg.tensor(v, requires_grad=True) for v in ([-2.0, 0.0, 2.0], [-1.0] * 3, [1.0] * 3))
    y = x.clamp(low, high)
    y.sum().backward()
    assert y.tolist() == [-1, 0, 1]
    assert [x.grad.tolist(), low.grad.tolist(), high.grad.tolist()] == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert mg.clamp(mg.tensor([1, 5]), max=2.5).tolist() == [1, 2.5]
    assert mg.clamp(mg.tensor([1.0]), 3, 2).tolist() == [2], "the upper limit wins"
    with pytest.raises(mg.OptionError, match="neither min nor max"):
        mg.clamp(x)


def test_derivatives_at_kinks_are_pytorchs():
    assert slope(lambda x: mg.clamp(x, -1, 1), 1.0) == [1]
    assert slope(F.hardtanh, 1.0) == slope(F.relu6, 0.0) == slope(F.relu, 0.0) == [0]
    assert slope(F.leaky_relu, 0.0) == [0.01]
    assert slope(F.elu, 0.0) == [1]
    assert slope(mg.maximum, 1.0, 1.0) == slope(mg.minimum, 1.0, 1.0) == [0.5, 0.5]
    assert slope(mg.fmax, 1.0, 1.0) == slope(mg.fmin, 1.0, 1.0) == [1, 0]
    assert slope(mg.maximum, math.nan, 1.0) == [1, 1]
    assert slope(mg.fmax, math.nan, 1.0) == [0, 1]
    assert slope(mg.xlogy, 0.0, 2.0)[1] == 0
    assert slope(mg.atan2, 0.0, 0.0) == [0, 0]
    assert slope(mg.sinc, 0.0) == slope(mg.sign, 0.0) == slope(mg.round, 0.5) == [0]


def test_alpha_and_rounding_are_settings_of_arithmetic():
    x, y = mg.tensor([7.0, -7.0]), mg.tensor([2.0, 2.0])
    assert mg.add(x, y, alpha=3).tolist() == [13, -1]
    assert mg.sub(x, y, alpha=3).tolist() == [1, -13]
    assert mg.rsub(x, y).tolist() == [-5, 9]
    assert mg.div(x, y, rounding_mode="trunc").tolist() == [3, -3]
    assert mg.div(x, y, rounding_mode="floor").tolist() == [3, -4]
    whole = mg.div(mg.tensor([7, -7, 6]), 2, rounding_mode="trunc")
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


def test_the_shapes_that_glu_and_prelu_refuse_are_named():
    with pytest.raises(mg.ShapeError, match="odd"):
        F.glu(mg.ones(2, 3))
    with pytest.raises(mg.ShapeError, match="one weight or 3"):
        F.prelu(mg.ones(2, 3), mg.ones(2))
