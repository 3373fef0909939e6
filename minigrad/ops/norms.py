"""Lengths of vectors and matrices, and distances between vectors."""

from __future__ import annotations

import math

from ..errors import OptionError
from ..tensor import as_tensor
from .axes import axes_of, spread
from .costs import per_input
from .namespace import itself, namespace
from .record import differentiable, made_of_ops
from .samplers import along, away_from_zero, distinct, each, reducing

__all__ = ["norm"]


# ---------------------------------------------------------------- lengths of vectors


@differentiable(
    floating=True,
    samples=reducing(distinct, p=2)
    | along(away_from_zero, p=3.5)
    | along(away_from_zero, p=-0.5)
    | reducing(distinct, p=1)
    | reducing(distinct, p=math.inf)
    | each((distinct, 2, 3), p=-math.inf, dim=1)
    | each((distinct, 2, 3), p=0, dim=1),
    latex=r"g\,\operatorname{sign}(x)\left(\frac{|x|}{\lVert x \rVert_p}\right)^{p - 1}",
    flops=per_input(2),
)
def p_norm(x, /, p, dim=None, keepdim=False):
    """n = sum(|x|**p)**(1/p); d/dx = sign(x) (|x| / n)**(p - 1), and 0 where x or n is 0.

    p = inf is the largest |x|, -inf the smallest (those that tie share the gradient), and 0 counts those
    that are not 0.
    """
    shape, axes = x.shape, axes_of(dim, x.ndim)
    n = itself("p_norm", _length, x, p, axes, True)
    value = n if keepdim else n.reshape(tuple(m for i, m in enumerate(shape) if i not in axes))
    return value, (lambda g: spread(g, shape, axes, keepdim) * _slope(x, n, p, axes),)


def _length(x, p, axes, keepdim):
    """The length of an array, its axes kept."""
    size, along = abs(x), {"axis": axes, "keepdims": keepdim}
    if p == 0:
        return (x != 0).sum(**along, dtype=x.dtype)
    if p == 1:
        return size.sum(**along)
    if p == 2:
        return (x * x).sum(**along) ** 0.5
    if math.isinf(p):
        return size.max(**along) if p > 0 else size.min(**along)
    return (size**p).sum(**along) ** (1 / p)


def _slope(x, n, p, axes):
    """The derivative of the length n by each element."""
    xp = namespace(x)
    if p == 0:
        return xp.zeros_like(x)
    if p == 1:
        return xp.sign(x)
    if p == 2:
        return x / xp.where(n == 0, 1.0, n)
    if math.isinf(p):
        chosen = xp.stop_gradient((xp.absolute(x) == n) | (x != x)).astype(x.dtype)
        return xp.sign(x) * (chosen / chosen.sum(axis=axes, keepdims=True))
    size = xp.where(x == 0, 1.0, xp.absolute(x))
    return xp.sign(x) * (size / xp.where(n == 0, 1.0, n)) ** (p - 1)


@made_of_ops(
    samples=reducing(distinct) | along(away_from_zero, ord=3),
    latex=r"g\,\operatorname{sign}(x)\left(\frac{|x|}{\lVert x \rVert_p}\right)^{p - 1}",
)
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """sum(|x|**ord)**(1/ord); inf and -inf give the largest and smallest |x|, 0 counts what is not 0.

    Where it is 0 its derivative is 0.
    """
    x = as_tensor(x)
    if isinstance(ord, bool) or not isinstance(ord, int | float):
        raise OptionError(f"a vector's norm of order {ord!r}.\nChoose a number, or math.inf.")
    return p_norm(x if dtype is None else x.to(dtype), ord, dim, keepdim)


@made_of_ops(
    samples=reducing(distinct) | along(away_from_zero, p=3),
    latex=r"g\,\operatorname{sign}(x)\left(\frac{|x|}{\lVert x \rVert_p}\right)^{p - 1}",
)
def norm(x, p="fro", dim=None, keepdim=False, *, dtype=None):
    """sum(|x|**p)**(1/p), of all elements or along `dim`; where it is 0 its derivative is 0.

    "fro" is p = 2; "nuc" is the sum of a matrix's singular values.
    """
    return vector_norm(x, 2 if p in (None, "fro") else p, dim, keepdim, dtype=dtype)


def root(x):
    """sqrt(x), with 0 for its infinite derivative at 0."""
    zero = x == 0
    return x.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)
