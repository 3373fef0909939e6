"""Choices: one of two values, the larger, the smaller, what lies within limits.

At a tie and at a limit the gradient goes where PyTorch sends it, named beside each rule.
"""

from __future__ import annotations

import math

from ..devices import finfo, is_floating
from ..errors import DtypeError, OptionError
from .namespace import namespace
from .op import derived, differentiable
from .samplers import distinct, each, mask, real, unary

__family__ = "elementwise"

__all__ = [
    "clamp", "clamp_max", "clamp_min", "clip", "fmax", "fmin", "heaviside", "maximum", "minimum",
    "nan_to_num", "where",
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


@differentiable(samples=_pairs, latex=(r"g\,[x \ge y]", r"g\,[x < y]"))
def fmax(x, y, /):
    """The larger of each pair, the other where one is NaN; of a tie the first gets the gradient."""
    xp = namespace(x, y)
    first = (x >= y) | (y != y)
    return xp.fmax(x, y), (lambda g: xp.where(first, g, 0.0), lambda g: xp.where(first, 0.0, g))


@differentiable(samples=_pairs, latex=(r"g\,[x \le y]", r"g\,[x > y]"))
def fmin(x, y, /):
    """The smaller of each pair, the other where one is NaN; of a tie the first gets the gradient."""
    xp = namespace(x, y)
    first = (x <= y) | (y != y)
    return xp.fmin(x, y), (lambda g: xp.where(first, g, 0.0), lambda g: xp.where(first, 0.0, g))


@differentiable(samples=_pairs)
def heaviside(x, values, /):
    """0 where x is negative, 1 where it is positive, `values` where it is 0; without a derivative."""
    return namespace(x, values).where(x == 0, values, (x > 0).astype(x.dtype)), None


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


@derived(samples=each((distinct, 2, 3), -0.6) | each((distinct, 2, 3), (real, 3)))
def clamp_min(x, min):
    """x, no less than `min`."""
    return limit(x, min, None)


@derived(samples=each((distinct, 2, 3), -0.6) | each((distinct, 2, 3), (real, 3)))
def clamp_max(x, max):
    """x, no more than `max`."""
    return limit(x, None, max)


@differentiable(
    exact_in_half=True,
    samples=unary(real) | each((real, 3), nan=1.0, posinf=2.0, neginf=3.0),
    latex=r"g\,[|x| < \infty]",
)
def nan_to_num(x, /, nan=0.0, posinf=None, neginf=None):
    """x with numbers for NaN and infinities (if None the dtype's largest and lowest), where d/dx = 0."""
    xp = namespace(x)
    if not is_floating(x.dtype):
        return xp.copy(x), (lambda g: g,)
    posinf = float(finfo(x.dtype).max) if posinf is None else posinf
    neginf = float(finfo(x.dtype).min) if neginf is None else neginf
    finite = xp.where(x == math.inf, posinf, xp.where(x == -math.inf, neginf, x))
    return xp.where(x != x, nan or 0.0, finite).astype(x.dtype), (
        lambda g: xp.gate((x == x) & (x != math.inf) & (x != -math.inf), g),
    )


clip = clamp  # PyTorch's other name
