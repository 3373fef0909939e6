"""Comparisons, logic, where, maximum and minimum.

Boolean results have no derivative. At a tie the gradient is split as in PyTorch.
"""

from __future__ import annotations

from ..core.errors import DtypeError
from ..core.namespace import namespace
from ..core.op import differentiable
from .samplers import Domain, binary, cases, distinct, integers, mask, real, unary

__family__ = "elementwise"
__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "eq", "ge", "greater", "greater_equal", "gt", "le", "less",
    "less_equal", "lt", "maximum", "minimum", "ne", "not_equal", "where",
]  # fmt: skip

_pairs = (
    cases((distinct, 2, 3), (real, 2, 1))
    | cases((distinct, 3), (real, 2, 3))
    | cases((distinct,), (real, 3))
    | cases((distinct, 0), (real, 2, 1))
)


@differentiable(
    promotes=(1, 2),
    samples=cases((mask, 2, 3), (real, 2, 3), (real, 2, 3)) | cases((mask, 2, 3), (real, 3), (real, 2, 1)),
    latex=(None, r"g\,[\text{condition}]", r"g\,[\neg\,\text{condition}]"),
)
def where(condition, x, y, /):
    """x where `condition` is True, y elsewhere.

    >>> x = mg.tensor([-1.0, 2.0])
    >>> mg.where(x > 0, x, 0.1 * x)
    tensor([-0.1000,  2.0000])
    """
    xp = namespace(condition, x, y)
    if isinstance(condition, bool):
        condition = xp.ones_like(x, dtype=bool) if condition else xp.zeros_like(x, dtype=bool)
    elif condition.dtype != bool:
        raise DtypeError(f"where needs a boolean condition, got {condition.dtype}.\nUse condition != 0.")
    return xp.where(condition, x, y), (
        None,
        lambda g: xp.where(condition, g, xp.zeros_like(g)),
        lambda g: xp.where(condition, xp.zeros_like(g), g),
    )


# ---------------------------------------------------------------- maximum and minimum


@differentiable(
    samples=_pairs, latex=(r"g\,[x > y] + \frac{g}{2}\,[x = y]", r"g\,[x < y] + \frac{g}{2}\,[x = y]")
)
def maximum(x, y, /):
    """The elementwise maximum, NaN if either is NaN; at a tie each gets half of the gradient."""
    xp = namespace(x, y)
    return xp.maximum(x, y), (lambda g: _kept(xp, x < y, x == y, g), lambda g: _kept(xp, x > y, x == y, g))


@differentiable(
    samples=_pairs, latex=(r"g\,[x < y] + \frac{g}{2}\,[x = y]", r"g\,[x > y] + \frac{g}{2}\,[x = y]")
)
def minimum(x, y, /):
    """The elementwise minimum, NaN if either is NaN; at a tie each gets half of the gradient."""
    xp = namespace(x, y)
    return xp.minimum(x, y), (lambda g: _kept(xp, x > y, x == y, g), lambda g: _kept(xp, x < y, x == y, g))


def _kept(xp, lost, tied, g):
    """0 where the other operand was chosen, half of g at a tie, else g (also where an operand is NaN)."""
    return xp.where(lost, 0.0, xp.where(tied, g * 0.5, g))


_small: Domain = integers(-1, 2)  # has ties
_bits: Domain = integers(0, 16)


# ---------------------------------------------------------------- comparisons


@differentiable(compares=True, samples=binary(_small))
def eq(x, y, /):
    """Whether x == y, elementwise."""
    return x == y, None


@differentiable(compares=True, samples=binary(_small))
def ne(x, y, /):
    """Whether x != y, elementwise."""
    return x != y, None


@differentiable(compares=True, samples=binary(_small))
def lt(x, y, /):
    """Whether x < y, elementwise."""
    return x < y, None


@differentiable(compares=True, samples=binary(_small))
def le(x, y, /):
    """Whether x <= y, elementwise."""
    return x <= y, None


@differentiable(compares=True, samples=binary(_small))
def gt(x, y, /):
    """Whether x > y, elementwise."""
    return x > y, None


@differentiable(compares=True, samples=binary(_small))
def ge(x, y, /):
    """Whether x >= y, elementwise."""
    return x >= y, None


# ---------------------------------------------------------------- logic


@differentiable(samples=binary(mask) | binary(_bits))
def bitwise_and(x, y, /):
    """x & y, bitwise; for booleans, whether both are true."""
    return x & y, None


@differentiable(samples=binary(mask) | binary(_bits))
def bitwise_or(x, y, /):
    """x | y, bitwise; for booleans, whether either is true."""
    return x | y, None


@differentiable(samples=unary(mask) | unary(_bits))
def bitwise_not(x, /):
    """~x, bitwise; for booleans, the negation."""
    return ~x, None


# ---------------------------------------------------------------- PyTorch's longer names

less = lt
less_equal = le
greater = gt
greater_equal = ge
not_equal = ne
