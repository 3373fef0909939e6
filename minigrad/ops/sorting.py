"""Order along an axis: sorted values, the k largest, medians and quantiles.

Each finds places first, which have no derivative, and then gathers: a gradient goes back to where its value
stood. NaN counts as larger than every number, as in PyTorch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..errors import OptionError, RangeError, ShapeError
from ..tensor import Tensor, as_tensor
from .axes import axis_of
from .namespace import namespace
from .record import differentiable, made_of_ops
from .samplers import along, distinct, each

__all__ = ["argsort", "kthvalue", "median", "msort", "nanmedian", "quantile", "sort", "topk"]


class Ordered(NamedTuple):
    """Values in some order, and where they stood."""

    values: Tensor
    indices: Tensor


@differentiable(samples=along(distinct) | each((distinct, 2, 3), descending=True))
def argsort(x, /, dim=-1, descending=False, stable=False):
    """The places of the elements in increasing order; elements that tie keep theirs, `stable` or not."""
    axis = axis_of(dim, x.ndim)
    if not x.ndim:
        return np.zeros((), np.int64), None
    if not descending:
        return np.argsort(x, axis=axis, kind="stable"), None
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis), None


@made_of_ops(samples=along(distinct) | each((distinct, 2, 3), descending=True))
def sort(x, dim=-1, descending=False, stable=False):
    """(values, indices) in increasing order along an axis; a gradient goes back to where its value stood."""
    places = argsort(x, dim, descending)
    return Ordered(as_tensor(x).gather(dim, places), places)


@made_of_ops(samples=each((distinct, 3, 2)) | each((distinct, 4)))
def msort(x):
    """x in increasing order along its first axis."""
    return sort(x, 0).values


@made_of_ops(samples=each((distinct, 2, 4), 2) | each((distinct, 4, 2), 3, dim=0, largest=False))
def topk(x, k, dim=-1, largest=True, sorted=True):
    """(values, indices) of the k largest (or smallest) along an axis, the largest (smallest) first."""
    x = as_tensor(x)
    _check_rank("topk", x, k, dim, least=0)
    places = argsort(x, dim, largest)
    places = places.narrow(dim, 0, k) if x.ndim else places
    return Ordered(x.gather(dim, places), places)


@made_of_ops(samples=each((distinct, 2, 4), 2) | each((distinct, 4, 2), 3, dim=0, keepdim=True))
def kthvalue(x, k, dim=-1, keepdim=False):
    """(values, indices) of the k-th smallest along an axis; the smallest is k = 1."""
    x = as_tensor(x)
    _check_rank("kthvalue", x, k, dim, least=1)
    return _ranked(x, as_tensor(np.full((), k - 1)), dim, keepdim)


def _check_rank(name, x, k, dim, least):
    n = x.shape[axis_of(dim, x.ndim)] if x.ndim else 1
    if not isinstance(k, int | np.integer) or not least <= k <= n:
        raise RangeError(f"{name} of k = {k!r} among {n} elements.\nGive a whole number from {least} to {n}.")


def _ranked(x, rank, dim, keepdim):
    """(values, indices) of the element of place `rank` in increasing order."""
    places = argsort(x, dim)
    if x.ndim:
        axis = axis_of(dim, x.ndim)
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        places = places.gather(axis, rank.broadcast_to(shape))
    values = x.gather(dim, places)
    return (
        Ordered(values, places)
        if keepdim or not x.ndim
        else Ordered(values.squeeze(dim), places.squeeze(dim))
    )


@differentiable(samples=each((distinct, 2, 3)) | each((distinct, 5)) | each((distinct,)),
                latex=r"\frac{g\,[x = y]}{\text{number of ties}}")  # fmt: skip
def middle(x, /, skip_nan=False):
    """The lower median of all; elements that tie share the gradient evenly."""
    xp, ordered = namespace(x), np.sort(np.asarray(x), axis=None)
    missing = np.isnan(ordered) if ordered.dtype.kind == "f" else np.zeros(ordered.shape, bool)
    n = int((~missing).sum()) if skip_nan else ordered.size
    if not ordered.size and ordered.dtype.kind != "f":
        raise ShapeError("the median of no elements.\nOf whole numbers there has to be one.")
    nothing = not n or (missing.any() and not skip_nan)
    value = ordered.dtype.type(math.nan) if nothing else ordered[(n - 1) // 2]

    def gradient(g):
        ties = xp.stop_gradient(xp.isnan(x) if value != value else x == value).astype(g.dtype)
        return (g / ties.sum()) * ties

    return np.asarray(value), (gradient,)


@made_of_ops(
    samples=each((distinct, 2, 3)) | each((distinct, 2, 4), dim=1) | each((distinct, 3, 2), 0, keepdim=True)
)
def median(x, dim=None, keepdim=False):
    """The lower of the middle elements of all, or (values, indices) along `dim`; NaN if one is NaN."""
    return _median(x, dim, keepdim, skip_nan=False)


@made_of_ops(samples=each((distinct, 2, 3)) | each((distinct, 2, 4), dim=1))
def nanmedian(x, dim=None, keepdim=False):
    """The lower of the middle elements that are not NaN, of all, or (values, indices) along `dim`."""
    return _median(x, dim, keepdim, skip_nan=True)


def _median(x, dim, keepdim, skip_nan):
    x = as_tensor(x)
    if dim is None:
        return middle(x, skip_nan)
    n = x.shape[axis_of(dim, x.ndim)] if x.ndim else 1
    if not n:
        raise ShapeError(f"the median of no elements, in shape {x.shape}.\nReduce an axis that has some.")
    missing = x.isnan().sum(dim, keepdim=True) if x.is_floating_point() else as_tensor(np.zeros((), np.int64))
    rank = (n - missing - 1).clamp(0) // 2 if skip_nan else as_tensor(
        np.where(missing.data > 0, n - missing.data, (n - 1) // 2)  # the first NaN
    )  # fmt: skip
    return _ranked(x, rank, dim, keepdim)


INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


@made_of_ops(
    samples=each((distinct, 2, 4), 0.3, dim=1)
    | each((distinct, 5), np.array([0.25, 0.9]), interpolation="midpoint")
)
def quantile(x, q, dim=None, keepdim=False, *, interpolation="linear"):
    """What a share q (0 to 1) of the elements lie below; several shares make a new first axis."""
    if interpolation not in INTERPOLATIONS:
        raise OptionError(
            f"interpolation is one of {', '.join(INTERPOLATIONS)}, got {interpolation!r}.\nChoose one."
        )
    x, shares = as_tensor(x), np.asarray(q, dtype=np.float64)
    if shares.size and not (shares.min() >= 0 and shares.max() <= 1):
        raise OptionError(f"a quantile is a share from 0 to 1, got {q}.\nGive such a share.")
    rank = x.ndim
    line, axis = (x.reshape(-1), 0) if dim is None else (x.movedim(dim, 0), axis_of(dim, rank))
    if not line.ndim:
        line = line.reshape(1)
    place = shares.reshape(-1) * (line.shape[0] - 1)
    below, above = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
    whole = {"lower": below, "higher": above, "nearest": np.rint(place).astype(np.int64)}.get(interpolation)
    values = sort(line, 0).values
    if whole is not None:
        found = values[whole]
    else:
        part = place - below if interpolation == "linear" else np.full(place.shape, 0.5)
        part = as_tensor(part.astype(x.dtype).reshape(-1, *[1] * (line.ndim - 1)))
        found = values[below].lerp(values[above], part)
    found = found.masked_fill(line.isnan().any(0), math.nan)
    if keepdim:
        found = found.reshape(-1, *([1] * rank)) if dim is None else found.unsqueeze(axis + 1)
    return found if shares.ndim else found.squeeze(0)
