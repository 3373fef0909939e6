"""Comparisons, logic, and questions about numbers: what answers True or False, and so has no derivative."""

from __future__ import annotations

import math

import numpy as np

from ..tensor import as_tensor
from .namespace import namespace
from .op import derived, differentiable
from .samplers import Domain, binary, each, mask, real, unary, whole

__family__ = "elementwise"

__all__ = [
    "allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "eq", "equal", "gcd", "ge", "greater", "greater_equal", "gt", "isclose", "isfinite",
    "isinf", "isnan", "isneginf", "isposinf", "isreal", "lcm", "le", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "ne", "not_equal", "signbit",
]  # fmt: skip

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


@derived(samples=binary(_small))
def equal(x, y):
    """Whether two tensors have one shape and the same elements: a Python bool. Elementwise is `eq`."""
    x, y = as_tensor(x), as_tensor(y)
    return x.shape == y.shape and bool(eq(x, y).array.all())


@differentiable(samples=binary(real) | binary(_small))
def isclose(x, y, /, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether |x - y| <= atol + rtol |y|; an infinity is close to itself, NaN only with `equal_nan`."""
    return namespace(x, y).isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan), None


@derived(samples=binary(real) | binary(_small))
def allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether every element of x `isclose` to that of y: a Python bool."""
    return bool(isclose(x, y, rtol, atol, equal_nan).array.all())


# ---------------------------------------------------------------- logic


@differentiable(samples=binary(mask) | binary(_bits))
def bitwise_and(x, y, /):
    """x & y, bit by bit; of booleans, whether both are true."""
    return x & y, None


@differentiable(samples=binary(mask) | binary(_bits))
def bitwise_or(x, y, /):
    """x | y, bit by bit; of booleans, whether either is true."""
    return x | y, None


@differentiable(samples=binary(mask) | binary(_bits))
def bitwise_xor(x, y, /):
    """x ^ y, bit by bit; of booleans, whether one is true and the other is not."""
    return x ^ y, None


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


@differentiable(samples=binary(mask) | binary(_small))
def logical_xor(x, y, /):
    """Whether one is true and the other is not; on booleans this is `^`."""
    return namespace(x, y).logical_xor(x, y), None


# ---------------------------------------------------------------- whole numbers


@differentiable(samples=binary(_bits, whole(0, 5)))
def bitwise_left_shift(x, y, /):
    """x * 2**y, of whole numbers: x with its bits moved y places up."""
    return x << y, None


@differentiable(samples=binary(_bits, whole(0, 5)))
def bitwise_right_shift(x, y, /):
    """x / 2**y rounded down, of whole numbers: x with its bits moved y places down."""
    return x >> y, None


@differentiable(samples=binary(_bits))
def gcd(x, y, /):
    """The largest whole number that divides both, 0 of two zeros."""
    return namespace(x, y).gcd(x, y), None


@differentiable(samples=binary(_bits))
def lcm(x, y, /):
    """The smallest positive whole number that both divide, 0 if one is 0."""
    return namespace(x, y).lcm(x, y), None


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
def isposinf(x, /):
    """Whether x is +infinity."""
    return x == math.inf, None


@differentiable(samples=_everything)
def isneginf(x, /):
    """Whether x is -infinity."""
    return x == -math.inf, None


@differentiable(samples=_everything)
def isfinite(x, /):
    """Whether x is neither infinite nor NaN."""
    return namespace(x).isfinite(x), None


@differentiable(samples=_everything)
def isreal(x, /):
    """True everywhere: no number here is complex."""
    return namespace(x).ones_like(x, dtype=bool), None


@differentiable(samples=_everything)
def signbit(x, /):
    """Whether x is negative, -0.0 included."""
    return namespace(x).signbit(x), None


# ---------------------------------------------------------------- PyTorch's longer names

less, less_equal, greater, greater_equal, not_equal = lt, le, gt, ge, ne
