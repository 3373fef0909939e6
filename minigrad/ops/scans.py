"""Running sums, products and extremes along an axis: element i of the result is of elements 0 to i.

Products and log-sums are scans of log n steps (Hillis and Steele 1986, "Data Parallel Algorithms"): each
doubles how many elements a result covers, so that their derivatives are those of the pairs and hold at zeros.
"""

from __future__ import annotations

import numpy as np

from ..errors import OptionError
from ..tensor import as_tensor
from .axes import axis_of
from .elementary import logaddexp
from .joining import cat
from .namespace import namespace
from .record import differentiable, made_of_ops
from .reductions import Extremes
from .samplers import along, distinct, each, real

__all__ = [
    "cummax", "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "diff", "logcumsumexp",
    "trapezoid", "trapz",
]  # fmt: skip


@differentiable(samples=along(real), latex=r"\sum_{j \ge i} g_j")
def cumsum(x, /, dim, dtype=None):
    """The sum of all elements up to each (int64 of integers); the gradient is the sum of all from each on."""
    xp, dim, source = namespace(x), axis_of(dim, x.ndim), x.dtype
    if dtype is not None or source.kind in "bui":
        x = x.astype(dtype or "int64")
    if not x.ndim:
        return xp.copy(x), (lambda g: g.astype(source),)

    def gradient(g):
        g = xp.flip(xp.cumsum(xp.flip(g, axis=dim), axis=dim), axis=dim)
        return g if g.dtype == source else g.astype(source)

    return xp.cumsum(x, axis=dim), (gradient,)


def _scan(combine, x, dim):
    """Element i becomes the combination of elements 0 to i."""
    dim = axis_of(dim, x.ndim)
    if not x.ndim:
        return x.clone()
    n, reach = x.shape[dim], 1
    while reach < n:
        grown = combine(x.narrow(dim, reach, n - reach), x.narrow(dim, 0, n - reach))
        x = cat([x.narrow(dim, 0, reach), grown], dim)
        reach *= 2
    return x if reach > 1 else x.clone()


@made_of_ops(samples=along(real) | each(np.array([2.0, 0.0, 3.0, 0.0, 1.5]), dim=0))
def cumprod(x, dim, dtype=None):
    """The product of all elements up to each (int64 of integers); derivatives hold at zeros."""
    x = as_tensor(x)
    if dtype is not None or not x.is_floating_point():
        x = x.to(dtype or "int64")
    return _scan(lambda later, earlier: later * earlier, x, dim)


@made_of_ops(samples=along(real))
def logcumsumexp(x, dim):
    """log(cumsum(exp(x))), without overflow."""
    return _scan(logaddexp, as_tensor(x), dim)


def _running(accumulate, x, dim):
    """(values, indices) of the extreme so far; of ties the last, and NaN from the first NaN on."""
    x = as_tensor(x)
    dim = axis_of(dim, x.ndim)
    if not x.ndim:
        return Extremes(x.clone(), as_tensor(np.zeros((), np.int64)))
    best = accumulate(x.data, axis=dim)
    steps = np.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    new = (x.data == best) | (x.data != x.data)
    places = as_tensor(np.maximum.accumulate(np.where(new, steps, 0), axis=dim))
    return Extremes(x.gather(dim, places), places)


@made_of_ops(samples=along(distinct))
def cummax(x, dim):
    """(values, indices) of the largest element so far."""
    return _running(np.maximum.accumulate, x, dim)


@made_of_ops(samples=along(distinct))
def cummin(x, dim):
    """(values, indices) of the smallest element so far."""
    return _running(np.minimum.accumulate, x, dim)


@made_of_ops(samples=along(real) | each((real, 2, 4), n=2) | each((real, 2, 3), prepend=(real, 2, 1)))
def diff(x, n=1, dim=-1, prepend=None, append=None):
    """Each element less the one before it, n times over; `prepend` and `append` are joined to x first."""
    if n < 0:
        raise OptionError(f"diff of order {n}.\nGive one from 0.")
    x = cat([as_tensor(part) for part in (prepend, x, append) if part is not None], dim)
    for _ in range(min(n, x.shape[dim])):
        length = x.shape[dim]
        later, earlier = x.narrow(dim, 1, length - 1), x.narrow(dim, 0, length - 1)
        x = later != earlier if x.dtype == bool else later - earlier
    return x


def _strips(y, x, dx, dim):
    """The areas under the lines between neighbours."""
    y = as_tensor(y)
    n = y.shape[dim]
    means = (y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)) / 2
    if x is None:
        return means * dx
    x = as_tensor(x)
    if x.ndim == 1:
        return means * diff(x).reshape([-1 if i == axis_of(dim, y.ndim) else 1 for i in range(y.ndim)])
    return means * diff(x, dim=dim)


@made_of_ops(samples=each((real, 2, 4)) | each((real, 2, 4), (real, 4)) | each((real, 3, 2), dx=0.5, dim=0))
def trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """The integral of y along an axis, by straight lines between its points, which are `dx` apart or at x."""
    y = as_tensor(y)
    return _strips(y, x, dx, dim).sum(dim) if y.shape[dim] else y.sum(dim)


@made_of_ops(samples=each((real, 2, 4)) | each((real, 2, 4), (real, 4)) | each((real, 3, 2), dx=0.5, dim=0))
def cumulative_trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """The integral of y from the first point to each of the others."""
    return _strips(y, x, dx, dim).cumsum(dim)


trapz = trapezoid  # PyTorch's other name
