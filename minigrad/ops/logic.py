"""Closeness, bitwise and logical functions, predicates, and limits."""

from __future__ import annotations

import math

import numpy as np

from ..core.dtypes import finfo, is_floating
from ..core.errors import OptionError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from .comparisons import _bits, _pairs, _small, eq
from .samplers import binary, cases, distinct, integers, mask, real, unary

__family__ = "elementwise"
__all__ = [
    "allclose", "bitwise_left_shift", "bitwise_right_shift", "bitwise_xor", "clamp", "clamp_max",
    "clamp_min", "clip", "equal", "fmax", "fmin", "gcd", "heaviside", "isclose", "isfinite", "isinf",
    "isnan", "isneginf", "isposinf", "isreal", "lcm", "logical_and", "logical_not", "logical_or",
    "logical_xor", "nan_to_num", "signbit",
]  # fmt: skip

_everything = unary(real) | cases(np.array([0.0, -0.0, math.inf, -math.inf, math.nan]))


# ---------------------------------------------------------------- maximum and minimum


@differentiable(samples=_pairs, latex=(r"g\,[x \ge y]", r"g\,[x < y]"))
def fmax(x, y, /):
    """The elementwise maximum, or the other number if one is NaN; at a tie x gets the gradient."""
    xp = namespace(x, y)
    first = (x >= y) | (y != y)
    return xp.fmax(x, y), (lambda g: xp.where(first, g, 0.0), lambda g: xp.where(first, 0.0, g))


@differentiable(samples=_pairs, latex=(r"g\,[x \le y]", r"g\,[x > y]"))
def fmin(x, y, /):
    """The elementwise minimum, or the other number if one is NaN; at a tie x gets the gradient."""
    xp = namespace(x, y)
    first = (x <= y) | (y != y)
    return xp.fmin(x, y), (lambda g: xp.where(first, g, 0.0), lambda g: xp.where(first, 0.0, g))


@differentiable(samples=_pairs)
def heaviside(x, values, /):
    """0 for negative x, 1 for positive x, `values` where x is 0; without a derivative."""
    return namespace(x, values).where(x == 0, values, (x > 0).astype(x.dtype)), None


# ---------------------------------------------------------------- within limits


@derived(exact_in_half=True, samples=cases((distinct, 2, 3), -0.6) | cases((distinct, 2, 3), (real, 3)))
def clamp_min(x, min):
    """Limit x to at least `min`."""
    return limit(x, min, None)


@derived(exact_in_half=True, samples=cases((distinct, 2, 3), -0.6) | cases((distinct, 2, 3), (real, 3)))
def clamp_max(x, max):
    """Limit x to at most `max`."""
    return limit(x, None, max)


@differentiable(
    exact_in_half=True,
    samples=unary(real) | cases((real, 3), nan=1.0, posinf=2.0, neginf=3.0),
    latex=r"g\,[|x| < \infty]",
)
def nan_to_num(x, /, nan=0.0, posinf=None, neginf=None):
    """Replace NaN and infinities with numbers (None: the dtype's largest and lowest), with d/dx = 0 there."""
    xp = namespace(x)
    if not is_floating(x.dtype):
        return xp.copy(x), (lambda g: g,)
    posinf = float(finfo(x.dtype).max) if posinf is None else posinf
    neginf = float(finfo(x.dtype).min) if neginf is None else neginf
    finite = xp.where(x == math.inf, posinf, xp.where(x == -math.inf, neginf, x))
    return xp.where(x != x, nan or 0.0, finite).astype(x.dtype), (
        lambda g: xp.where((x == x) & (x != math.inf) & (x != -math.inf), g, xp.zeros_like(g)),
    )


# ---------------------------------------------------------------- comparisons


@derived(exact_in_half=True, samples=binary(_small))
def equal(x, y):
    """Whether two tensors have the same shape and elements, as a Python bool; `eq` is elementwise."""
    x, y = as_tensor(x), as_tensor(y)
    return x.shape == y.shape and bool(eq(x, y).array.all())


@differentiable(samples=binary(real) | binary(_small))
def isclose(x, y, /, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether |x - y| <= atol + rtol |y|; an infinity is close to itself, and NaN with `equal_nan`."""
    if not (rtol >= 0 and atol >= 0):
        raise OptionError(f"tolerances must be at least 0, got rtol={rtol} and atol={atol}.\nRaise them.")
    return namespace(x, y).isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan), None


@derived(exact_in_half=True, samples=binary(real) | binary(_small))
def allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements are close (see `isclose`), as a Python bool."""
    return bool(isclose(x, y, rtol, atol, equal_nan).array.all())


# ---------------------------------------------------------------- logic


@differentiable(samples=binary(mask) | binary(_bits))
def bitwise_xor(x, y, /):
    """x ^ y, bitwise; for booleans, whether exactly one is true."""
    return x ^ y, None


@differentiable(samples=binary(mask) | binary(_small))
def logical_xor(x, y, /):
    """Whether exactly one is true; for booleans the same as `^`."""
    return namespace(x, y).logical_xor(x, y), None


# ---------------------------------------------------------------- integers


@differentiable(samples=binary(_bits, integers(0, 5)))
def bitwise_left_shift(x, y, /):
    """Shift the bits of integers left by y: x * 2**y."""
    return x << y, None


@differentiable(samples=binary(_bits, integers(0, 5)))
def bitwise_right_shift(x, y, /):
    """Shift the bits of integers right by y: x / 2**y, rounded down."""
    return x >> y, None


@differentiable(samples=binary(_bits))
def gcd(x, y, /):
    """The greatest common divisor of integers; 0 for two zeros."""
    return namespace(x, y).gcd(x, y), None


@differentiable(samples=binary(_bits))
def lcm(x, y, /):
    """The least common multiple of integers; 0 if one is 0."""
    return namespace(x, y).lcm(x, y), None


# ---------------------------------------------------------------- predicates


@differentiable(samples=_everything)
def isposinf(x, /):
    """Whether x is +infinity."""
    return x == math.inf, None


@differentiable(samples=_everything)
def isneginf(x, /):
    """Whether x is -infinity."""
    return x == -math.inf, None


@differentiable(samples=_everything)
def isreal(x, /):
    """True for every element, as there are no complex tensors."""
    return namespace(x).ones_like(x, dtype=bool), None


@differentiable(samples=_everything)
def signbit(x, /):
    """Whether x is negative, -0.0 included."""
    return namespace(x).signbit(x), None


@differentiable(
    public_name="clamp",
    samples=cases((distinct, 2, 3), -0.6, 0.6)
    | cases((distinct, 4), None, 0.0)
    | cases((distinct, 2, 3), (real, 2, 3), 1.2)
    | cases((distinct, 2, 3), None, (real, 3))
    | cases((distinct, 3), (real, 2, 1), (real, 2, 3)),
    latex=(
        r"g\,[\text{low} \le x \le \text{high}]",
        r"g\,[x < \text{low} < \text{high}]",
        r"g\,[x > \text{high} \lor \text{low} > \text{high}]",
    ),
)
def limit(x, low, high, /):
    """min(max(x, low), high); the gradient flows to x from low to high (included), else to the limit.

    Either limit may be None. Where low > high the result is `high`; where they are equal, x gets no gradient.
    """
    xp = namespace(x, low, high)
    y = x
    inside = True
    below = False
    above = False
    if low is not None:
        y = xp.maximum(y, low)
        inside = x >= low
        below = x < low
    if high is not None:
        y = xp.minimum(y, high)
        inside = (x <= high) & inside
        above = x > high
    if low is not None and high is not None:
        inside = inside & (low != high)
    if isinstance(low, int | float) and isinstance(high, int | float):  # they have no gradient
        return y, (lambda g: xp.where(inside, g, xp.zeros_like(g)), None, None)
    if low is not None and high is not None:
        below = below & (low < high)
        above = above | (low >= high)
    gradient_where = lambda chosen: lambda g: xp.where(chosen, g, xp.zeros_like(g))
    return y, tuple(map(gradient_where, (inside, below, above)))


@derived(
    exact_in_half=True,
    samples=cases((distinct, 2, 3), min=-0.6, max=0.6)
    | cases((distinct, 4), max=0.0)
    | cases((distinct,), (real, 2), (real, 2)),
    latex=r"g\,[\text{min} \le x \le \text{max}]",
)
def clamp(x, min=None, max=None):
    """Limit x to the range [min, max]; each limit is a number, a tensor or None.

    The derivative is 1 from min to max (included) and 0 outside, where a limit that is a tensor gets the
    gradient.
    """
    if min is None and max is None:
        raise OptionError("clamp needs min or max.\nPass at least one of them.")
    return limit(x, min, max)


clip = clamp  # PyTorch's other name


@differentiable(samples=unary(mask) | unary(_small))
def logical_not(x, /):
    """Whether x is 0 or False."""
    return namespace(x).logical_not(x), None


@differentiable(samples=binary(mask) | binary(_small))
def logical_and(x, y, /):
    """Whether both are true; for booleans the same as `&`."""
    return namespace(x, y).logical_and(x, y), None


@differentiable(samples=binary(mask) | binary(_small))
def logical_or(x, y, /):
    """Whether either is true; for booleans the same as `|`."""
    return namespace(x, y).logical_or(x, y), None


@differentiable(samples=_everything)
def isnan(x, /):
    """Whether x is NaN."""
    return namespace(x).isnan(x), None


@differentiable(samples=_everything)
def isinf(x, /):
    """Whether x is infinite."""
    return namespace(x).isinf(x), None


@differentiable(samples=_everything)
def isfinite(x, /):
    """Whether x is neither infinite nor NaN."""
    return namespace(x).isfinite(x), None
