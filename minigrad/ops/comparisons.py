"""Comparisons, logic, and choices: one of two values, the larger, the smaller, what lies within limits.

What answers True or False has no derivative. At a tie and at a limit the gradient goes where PyTorch sends
it.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import DtypeError, OptionError
from .namespace import namespace
from .op import derived, differentiable
from .samplers import Domain, binary, distinct, each, mask, real, unary, whole

__family__ = "elementwise"

__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "clamp", "clip", "eq", "ge", "greater", "greater_equal",
    "gt", "isfinite", "isinf", "isnan", "le", "less", "less_equal", "logical_and", "logical_not",
    "logical_or", "lt", "maximum", "minimum", "ne", "not_equal", "where",
]  # fmt: skip

_pairs = (
    each((distinct, 2, 3), (real, 2, 1))
    | each((distinct, 3), (real, 2, 3))
    | each((distinct,), (real, 3))
    | each((distinct, 0), (real, 2, 1))
)


@differentiable(
    promotes=(1, 2),
    samples=each((mask, 2, 3), (real, 2, 3), (real, 2, 3)) | each((mask, 2, 3), (real, 3), (real, 2, 1)),
    latex=(None, r"g\,[\text{condition}]", r"g\,[\neg\,\text{condition}]"),
)
def where(condition, x, y, /):
    """x where `condition` is True, y elsewhere."""
    xp = namespace(condition, x, y)
    if not isinstance(condition, bool) and condition.dtype != bool:
        raise DtypeError(f"where takes booleans, got {condition.dtype}.\nCompare: condition != 0.")
    return xp.where(condition, x, y), (
        None,
        lambda g: xp.where(condition, g, 0.0),
        lambda g: xp.where(condition, 0.0, g),
    )


# ---------------------------------------------------------------- of two numbers


@differentiable(
    samples=_pairs,
    latex=(r"g\,[x > y] + \frac{g}{2}\,[x = y]", r"g\,[x < y] + \frac{g}{2}\,[x = y]"),
)
def maximum(x, y, /):
    """The larger of each pair, NaN if one is; where they are equal each gets half of the gradient."""
    xp = namespace(x, y)
    return xp.maximum(x, y), (lambda g: _kept(xp, x < y, x == y, g), lambda g: _kept(xp, x > y, x == y, g))


@differentiable(
    samples=_pairs,
    latex=(r"g\,[x < y] + \frac{g}{2}\,[x = y]", r"g\,[x > y] + \frac{g}{2}\,[x = y]"),
)
def minimum(x, y, /):
    """The smaller of each pair, NaN if one is; where they are equal each gets half of the gradient."""
    xp = namespace(x, y)
    return xp.minimum(x, y), (lambda g: _kept(xp, x > y, x == y, g), lambda g: _kept(xp, x < y, x == y, g))


def _kept(xp, lost, tied, g):
    """0 where the other was chosen, half of g at a tie, g elsewhere (also where one of them is NaN)."""
    return xp.where(lost, 0.0, xp.where(tied, g * 0.5, g))


# ---------------------------------------------------------------- within limits


@differentiable(
    public_name="clamp",
    samples=each((distinct, 2, 3), -0.6, 0.6)
    | each((distinct, 4), None, 0.0)
    | each((distinct, 2, 3), (real, 2, 3), 1.2)
    | each((distinct, 2, 3), None, (real, 3))
    | each((distinct, 3), (real, 2, 1), (real, 2, 3)),
    latex=(
        r"g\,[\text{low} \le x \le \text{high}]",
        r"g\,[x < \text{low} < \text{high}]",
        r"g\,[x > \text{high} \lor \text{low} > \text{high}]",
    ),
)
def limit(x, low, high, /):
    """min(max(x, low), high); x has the gradient within (limits included), the limit that is met elsewhere.

    Either limit may be None. Where `low` is above `high` all is `high`.
    """
    xp = namespace(x, low, high)
    y, inside, below, above = x, True, False, False
    if low is not None:
        y = xp.maximum(y, low)
        inside, below = x >= low, x < low
    if high is not None:
        y = xp.minimum(y, high)
        inside, above = (x <= high) & inside, x > high
    if low is not None and high is not None:
        below, above = below & (low < high), above | (low > high)
    return y, tuple(lambda g, chosen=chosen: xp.gate(chosen, g) for chosen in (inside, below, above))


@derived(
    samples=each((distinct, 2, 3), min=-0.6, max=0.6)
    | each((distinct, 4), max=0.0)
    | each((distinct,), (real, 2), (real, 2)),
    latex=r"g\,[\text{min} \le x \le \text{max}]",
)
def clamp(x, min=None, max=None):
    """x, no less than `min`, no more than `max`, which are numbers or tensors.

    The derivative is 1 within (limits included) and 0 outside, where it is that of a limit which is a tensor.
    """
    if min is None and max is None:
        raise OptionError("clamp with neither min nor max.\nGive one of them.")
    return limit(x, min, max)


clip = clamp  # PyTorch's other name

_small: Domain = whole(-1, 2)  # which has ties

_bits: Domain = whole(0, 16)

_everything = unary(real) | each(np.array([0.0, -0.0, math.inf, -math.inf, math.nan]))


# ---------------------------------------------------------------- comparisons


@differentiable(samples=binary(_small))
def eq(x, y, /):
    """x == y."""
    return x == y, None


@differentiable(samples=binary(_small))
def ne(x, y, /):
    """x != y."""
    return x != y, None


@differentiable(samples=binary(_small))
def lt(x, y, /):
    """x < y."""
    return x < y, None


@differentiable(samples=binary(_small))
def le(x, y, /):
    """x <= y."""
    return x <= y, None


@differentiable(samples=binary(_small))
def gt(x, y, /):
    """x > y."""
    return x > y, None


@differentiable(samples=binary(_small))
def ge(x, y, /):
    """x >= y."""
    return x >= y, None


# ---------------------------------------------------------------- logic


@differentiable(samples=binary(mask) | binary(_bits))
def bitwise_and(x, y, /):
    """x & y, bit by bit; of booleans, whether both are true."""
    return x & y, None


@differentiable(samples=binary(mask) | binary(_bits))
def bitwise_or(x, y, /):
    """x | y, bit by bit; of booleans, whether either is true."""
    return x | y, None


@differentiable(samples=unary(mask) | unary(_bits))
def bitwise_not(x, /):
    """~x, bit by bit; of booleans, whether it is false."""
    return ~x, None


@differentiable(samples=unary(mask) | unary(_small))
def logical_not(x, /):
    """Whether x is 0 or False."""
    return namespace(x).logical_not(x), None


@differentiable(samples=binary(mask) | binary(_small))
def logical_and(x, y, /):
    """Whether both are true; on booleans this is `&`."""
    return namespace(x, y).logical_and(x, y), None


@differentiable(samples=binary(mask) | binary(_small))
def logical_or(x, y, /):
    """Whether either is true; on booleans this is `|`."""
    return namespace(x, y).logical_or(x, y), None


# ---------------------------------------------------------------- kinds of numbers


@differentiable(samples=_everything)
def isnan(x, /):
    """Whether x is not a number."""
    return namespace(x).isnan(x), None


@differentiable(samples=_everything)
def isinf(x, /):
    """Whether x is infinite."""
    return namespace(x).isinf(x), None


@differentiable(samples=_everything)
def isfinite(x, /):
    """Whether x is neither infinite nor NaN."""
    return namespace(x).isfinite(x), None


# ---------------------------------------------------------------- PyTorch's longer names

less, less_equal, greater, greater_equal, not_equal = lt, le, gt, ge, ne
