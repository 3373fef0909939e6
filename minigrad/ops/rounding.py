"""Division with a remainder, rounding, signs, and formulas made of sums and products."""

from __future__ import annotations

import math

import numpy as np

from ..core.costs import per_element
from ..core.dtypes import float64, is_floating
from ..core.errors import DivisionError, OptionError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from .arithmetic import TOO_LARGE, astype, multiply, power, subtract, true_divide
from .axes import all_floating, as_floating
from .comparisons import where
from .samplers import away_from_zero, binary, cases, distinct, unary
from .samplers import positive as positives
from .samplers import real as reals

__family__ = "elementwise"
__all__ = [
    "addcdiv", "addcmul", "angle", "ceil", "conj", "conj_physical", "copysign", "deg2rad", "div", "divide",
    "fix", "float_power", "floor", "floor_divide", "fmod", "frac", "hypot", "ldexp", "lerp", "positive",
    "rad2deg", "real", "reciprocal", "remainder", "round", "rsqrt", "rsub", "sgn", "sign", "square",
    "trunc",
]  # fmt: skip


# ---------------------------------------------------------------- sums and products


@derived(exact_in_half=True, samples=binary(reals) | binary(reals, alpha=0.5), latex=(r"-\alpha\,g", "g"))
def rsub(x, y, *, alpha=1):
    """y - alpha x."""
    return subtract(y, x, alpha=alpha)


@derived(
    exact_in_half=True,
    samples=binary(reals, away_from_zero) | binary(reals, away_from_zero, rounding_mode="trunc"),
    latex=(r"\frac{g}{y}", r"-g\,\frac{x}{y^2}"),
)
def div(x, y, *, rounding_mode=None):
    """x / y; with `rounding_mode` rounded towards 0 ("trunc") or down ("floor"), and with derivative 0."""
    if rounding_mode is None:
        return true_divide(x, y)
    if rounding_mode not in ("trunc", "floor"):
        raise OptionError(
            f'rounding_mode must be None, "trunc" or "floor", got {rounding_mode!r}.\nChoose one of them.'
        )
    return quotient(x, y, rounding_mode == "floor")


@differentiable(
    public_name="floor_divide",
    samples=cases((reals, 2, 3), (away_from_zero, 3), down=True)
    | cases((reals, 2, 3), (away_from_zero, 2, 1), down=False),
    latex=("0", "0"),
)
def quotient(x, y, /, down):
    """The integer quotient of x / y, rounded `down` or towards 0; its derivative is 0."""
    _check_nonzero_divisor(x, y)
    xp = namespace(x, y)
    value = xp.floor_divide(x, y)
    if not down:
        whole = not is_floating(value.dtype)
        value = value + ((value < 0) & (value * y != x)) if whole else xp.trunc(x / y)
    return value, (lambda g: xp.zeros_like(g), lambda g: xp.zeros_like(g))


@differentiable(samples=binary(reals, away_from_zero))
def floor_divide(x, y, /):
    """x / y rounded down, without a derivative."""
    _check_nonzero_divisor(x, y)
    return x // y, None


@differentiable(samples=binary(reals, positives), latex=("g", r"-g\left\lfloor\frac{x}{y}\right\rfloor"))
def remainder(x, y, /):
    """The remainder x - q y with q = floor(x / y), which has the sign of y; d/dx = 1, d/dy = -q.

    q is the floor of the exact quotient, as in `floor_divide`: for 7 and 0.1 it is 69, though 7 / 0.1 is
    rounded to 70.
    """
    _check_nonzero_divisor(x, y)
    xp = namespace(x, y)
    return xp.remainder(x, y), (lambda g: g, lambda g: g * -xp.floor_divide(x, y))


@differentiable(
    samples=binary(reals, positives), latex=("g", r"-g\,\operatorname{trunc}\left(\frac{x}{y}\right)")
)
def fmod(x, y, /):
    """The remainder x - q y with q = trunc(x / y), which has the sign of x; d/dx = 1, d/dy = -q.

    The value and the derivative use the exact quotient, while PyTorch's derivative uses a rounded one: for 7
    and 0.1, q is 69, though 7 / 0.1 is rounded to 70.
    """
    _check_nonzero_divisor(x, y)
    xp = namespace(x, y)
    value = xp.fmod(x, y)
    return value, (lambda g: g, lambda g: g * -xp.round((x - value) / y))


def _check_nonzero_divisor(x, y):
    """Raise a DivisionError if integers are divided by 0; not on a GPU, which would have to synchronize."""
    whole = all(getattr(a, "dtype", np.dtype(type(a))).kind in "iub" for a in (x, y))
    if whole and isinstance(y, int | np.ndarray) and np.size(x) and not np.all(y):
        raise DivisionError("integers divided by 0.\nReplace the zeros, or divide floating-point numbers.")


@derived(exact_in_half=True, samples=unary(reals), latex="g")
def positive(x):
    """x itself."""
    return as_tensor(x)


@differentiable(autocast="float32", floating=True, samples=unary(away_from_zero), latex=r"-\frac{g}{x^2}")
def reciprocal(x, /):
    """y = 1 / x; d/dx = -y**2."""
    y = 1 / x
    return y, (lambda g: g * -(y * y),)


@derived(
    samples=cases((reals, 2, 3), (reals, 3), (reals, 2, 1))
    | cases((reals, 2), (reals, 2), (reals, 2), value=-2),
    latex=("g", r"g\,\text{value}\;y", r"g\,\text{value}\;x"),
)
def addcmul(input, x, y, *, value=1):
    """input + value * x * y."""
    if isinstance(value, float):
        x, y = all_floating(x, y)  # a product of integers may wrap around
    return as_tensor(input) + value * multiply(x, y)


@derived(
    samples=cases((reals, 2, 3), (reals, 3), (away_from_zero, 2, 1))
    | cases((reals, 2), (reals, 2), (away_from_zero, 2), value=-2),
    latex=("g", r"g\,\frac{\text{value}}{y}", r"-g\,\frac{\text{value}\;x}{y^2}"),
)
def addcdiv(input, x, y, *, value=1):
    """input + value * x / y."""
    return as_tensor(input) + value * true_divide(x, y)


@derived(
    samples=cases((reals, 2, 3), (reals, 3), (reals, 2, 1)) | cases((reals, 2), (reals, 2), 0.75),
    latex=(r"(1 - weight)\,g", r"weight\,g", r"g\,(\text{end} - \text{start})"),
)
def lerp(start, end, weight):
    """start + weight (end - start), computed from the nearer end, so that a weight of 1 gives `end`."""
    start, end = all_floating(start, end)
    step = end - start
    if isinstance(weight, int | float):
        return start + weight * step if weight < 0.5 else end - (1 - weight) * step
    weight = as_floating(weight)
    return where(weight < 0.5, start + weight * step, end - (1 - weight) * step)


@derived(samples=unary(reals), latex=r"g\,\frac{\pi}{180}")
def deg2rad(x):
    """Convert degrees to radians."""
    return multiply(x, math.pi / 180)


@derived(samples=unary(reals), latex=r"g\,\frac{180}{\pi}")
def rad2deg(x):
    """Convert radians to degrees."""
    return multiply(x, 180 / math.pi)


# ---------------------------------------------------------------- powers and roots


@derived(exact_in_half=True, samples=binary(positives, reals), latex=(r"g\,y\,x^{y - 1}", r"g\,x^y \ln x"))
def float_power(x, y):
    """x ** y in float64, whatever the dtypes."""
    x, y = (
        as_tensor(a, dtype="float64") if isinstance(a, int | float) else astype(a, "float64") for a in (x, y)
    )
    return power(x, y)


@differentiable(
    autocast="float32",
    floating=True,
    samples=binary(away_from_zero),
    latex=(r"g\,\frac{x}{\sqrt{x^2 + y^2}}", r"g\,\frac{y}{\sqrt{x^2 + y^2}}"),
    flops=per_element(4),
)
def hypot(x, y, /):
    """r = sqrt(x**2 + y**2), without overflow; d/dx = x / r, d/dy = y / r, NaN where both are 0."""
    r = namespace(x, y).hypot(x, y)
    return r, (lambda g: g * (x / r), lambda g: g * (y / r))


@derived(autocast="float32", samples=binary(reals), latex=(r"g\,2^y", r"g\,x\,2^y \ln 2"))
def ldexp(x, y):
    """x * 2 ** y."""
    x, y = as_tensor(x), as_tensor(y)
    result = multiply(x, power(2.0, y.to(float64) if x.dtype == float64 else y))
    return result.to(x.dtype) if is_floating(x.dtype) and not is_floating(y.dtype) else result


# ---------------------------------------------------------------- rounding


def _rounding(name, meaning):
    def rule(x, /):
        xp = namespace(x)
        whole = not is_floating(x.dtype)
        return xp.copy(x) if whole else getattr(xp, name)(x), (lambda g: xp.zeros_like(g),)

    rule.__name__ = rule.__qualname__ = name
    rule.__doc__ = f"{meaning}; its derivative is 0."
    return differentiable(rule, samples=unary(distinct), latex="0")


floor = _rounding("floor", "x rounded down to an integer")

ceil = _rounding("ceil", "x rounded up to an integer")

trunc = _rounding("trunc", "x rounded towards 0 to an integer")


def _far_from_ties(rng, *shape):
    """Random numbers that are 0.1 to 0.4 above an integer from -4 to 3."""
    return np.asarray(rng.integers(-4, 4, shape) + rng.uniform(0.1, 0.4, shape))


@differentiable(samples=unary(_far_from_ties) | cases((_far_from_ties, 2, 3), decimals=-1), latex="0")
def round(x, /, decimals=0):
    """x rounded to `decimals` decimal places, half to even (2.5 becomes 2); its derivative is 0."""
    xp = namespace(x)
    return xp.round(x, decimals), (lambda g: xp.zeros_like(g),)


@derived(samples=unary(distinct), latex="g")
def frac(x):
    """The fractional part of x, with the sign of x; its derivative is 1."""
    return subtract(x, trunc(x))


# ---------------------------------------------------------------- signs


@differentiable(samples=unary(distinct), latex="0")
def sign(x, /):
    """The sign of x, which is -1, 0 or 1, and for NaN 0, as in PyTorch; its derivative is 0."""
    xp = namespace(x)
    return x != 0 if x.dtype == bool else xp.sign(x), (lambda g: xp.zeros_like(g),)


@differentiable(
    floating=True,
    samples=binary(distinct, away_from_zero),
    latex=(r"g\,\operatorname{sign}(x)\,\operatorname{sign}(y)", "0"),
)
def copysign(x, y, /):
    """|x| with the sign of y (-0.0 is negative); d/dx = sign(x) sign(y), 0 where x is 0; d/dy = 0."""
    xp = namespace(x, y)
    value = xp.copysign(x, y)
    return value, (lambda g: g * (xp.sign(value) * xp.sign(x)), lambda g: xp.zeros_like(g))


@differentiable(floating=True, samples=unary(distinct), latex="0")
def angle(x, /):
    """The angle in the complex plane: pi for negative numbers, else 0; its derivative is 0."""
    xp = namespace(x)
    return xp.where(x < 0, math.pi, xp.where(x != x, x, 0.0)), (lambda g: xp.zeros_like(g),)


# ---------------------------------------------------------------- PyTorch's other names

divide = div
fix = trunc
sgn = sign

real = conj = conj_physical = positive  # the same for real numbers


@differentiable(autocast="float32", sign="x²", advice=TOO_LARGE, samples=unary(reals), latex=r"2\,g\,x")
def square(x, /):
    """x * x; booleans are squared in int64."""
    if x.dtype == bool:
        x = x.astype("int64")
    return x * x, (lambda g: g * (2 * x),)


@differentiable(
    autocast="float32",
    advice="Add an eps to what may be 0.",
    floating=True,
    samples=unary(positives),
    latex=r"-\frac{g}{2\,x^{3/2}}",
    flops=per_element(2),
)
def rsqrt(x, /):
    """1 / sqrt(x); d/dx = -1/2 x**(-3/2)."""
    y = 1 / namespace(x).sqrt(x)
    return y, (lambda g: g * (-0.5 * y * y * y),)
