"""Sorting along an axis, top k, medians and quantiles.

Each op finds indices, which have no derivative, and then gathers, so gradients go back to the elements whose
values were returned. NaN counts as larger than every number, as in PyTorch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.devices import array_module, on_cpu, to_device_of
from ..core.dtypes import is_floating
from ..core.errors import OptionError, RangeError, ShapeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import Tensor, as_tensor, constant, tensor
from .axes import axis_of, check_nonempty
from .comparisons import where
from .samplers import along_axis, cases, distinct, probability

__family__ = "reduction"
__all__ = [
    "argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "nanquantile", "quantile", "sort",
    "topk",
]  # fmt: skip


class Ordered(NamedTuple):
    """Ordered values, and their indices in the input."""

    values: Tensor
    indices: Tensor


# ---------------------------------------------------------------- sorting

_lines = along_axis(distinct) | cases((distinct, 2, 3), descending=True) | cases((distinct,))


@differentiable(samples=_lines)
def argsort(x, /, dim=-1, descending=False, stable=False):
    """Return the indices that sort x along an axis. The sort is always stable, whatever `stable` says."""
    xp = namespace(x)
    axis = axis_of(dim, x.ndim)
    if not x.ndim:
        return to_device_of(np.zeros((), np.int64), x), None
    if not descending:
        return xp.argsort(x, axis=axis, kind="stable"), None
    backwards = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - xp.flip(backwards, axis), None


@derived(exact_in_half=True, samples=_lines)
def sort(x, dim=-1, descending=False, stable=False):
    """Sort along an axis. Return (values, indices). The sort is always stable, whatever `stable` says."""
    x = as_tensor(x)
    places = argsort(x, dim, descending)
    return Ordered(x.gather(dim, places), places)


@derived(exact_in_half=True, samples=cases((distinct, 3, 2)) | cases((distinct, 4)))
def msort(x):
    """Sort x along its first axis."""
    return sort(x, 0).values


# ---------------------------------------------------------------- selection by rank


@derived(
    exact_in_half=True,
    samples=cases((distinct, 2, 4), 2)
    | cases((distinct, 4, 2), 3, dim=0, largest=False)
    | cases((distinct, 2, 3), 3),
)
def topk(x, k, dim=-1, largest=True, sorted=True):
    """Return (values, indices) of the k largest (or smallest) along an axis, the most extreme first.

    >>> values, indices = mg.topk(mg.tensor([3.0, 1.0, 2.0]), 2)
    >>> values, indices
    (tensor([3., 2.]), tensor([0, 2]))
    """
    x = as_tensor(x)
    _check_rank("topk", x, k, dim, least=0)
    places = extreme_places(x, int(k), dim, largest)
    return Ordered(x.gather(dim, places), places)


@differentiable(
    samples=cases((distinct, 2, 4), 2, -1, True)
    | cases((distinct, 2, 4), 4, 1, False)
    | cases((distinct, 3), 0, 0, True)
)
def extreme_places(x, /, k, dim, largest):
    """The indices of the k largest (or smallest) along an axis, in order; of equal elements, the first."""
    xp = namespace(x)
    axis = axis_of(dim, x.ndim)
    if not x.ndim or not k:
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :]) if x.ndim else ()
        return to_device_of(np.zeros(shape, np.int64), x), None
    line = xp.moveaxis(x, axis, -1)
    cut = line.shape[-1] - k if largest else k - 1
    last = xp.partition(line, cut, axis=-1)[..., cut : cut + 1]  # the least extreme of them
    nan = line != line
    last_nan = last != last
    better = (line > last) | (nan & ~last_nan) if largest else (line < last) | (last_nan & ~nan)
    equal = (line == last) | (nan & last_nan)
    wanted = k - better.sum(-1, keepdims=True)
    chosen = better | (equal & (xp.cumsum(equal, axis=-1) <= wanted))
    places = xp.nonzero(chosen)[-1].reshape((*line.shape[:-1], k))
    order = argsort.op.rule(xp.take_along_axis(line, places, axis=-1), -1, largest)[0]
    return xp.moveaxis(xp.take_along_axis(places, order, axis=-1), -1, axis), None


@derived(
    exact_in_half=True, samples=cases((distinct, 2, 4), 2) | cases((distinct, 4, 2), 3, dim=0, keepdim=True)
)
def kthvalue(x, k, dim=-1, keepdim=False):
    """Return (values, indices) of the k-th smallest along an axis, counting from k = 1."""
    x = as_tensor(x)
    _check_rank("kthvalue", x, k, dim, least=1)
    return _select_rank(x, constant(np.full((), k - 1), x), dim, keepdim)


def _check_rank(name, x, k, dim, least):
    n = x.shape[axis_of(dim, x.ndim)] if x.ndim else 1
    if not isinstance(k, int | np.integer) or not least <= k <= n:
        raise RangeError(f"{name} got k = {k!r} for {n} elements.\nPass an integer from {least} to {n}.")


def _select_rank(x, rank, dim, keepdim):
    """(values, indices) of the element at position `rank` in increasing order."""
    places = argsort(x, dim)
    if x.ndim:
        axis = axis_of(dim, x.ndim)
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        places = places.gather(axis, rank.broadcast_to(shape))
    return _gather_at(x, places, dim, keepdim)


def _gather_at(x, places, dim, keepdim):
    values = x.gather(dim, places)
    if keepdim or not x.ndim:
        return Ordered(values, places)
    return Ordered(values.squeeze(dim), places.squeeze(dim))


# ---------------------------------------------------------------- medians and modes


@differentiable(
    public_name="median",
    samples=cases((distinct, 2, 3)) | cases((distinct, 5)) | cases((distinct,)),
    latex=r"\frac{g\,[x = y]}{\text{number of ties}}",
)
def middle(x, /, skip_nan=False):
    """The lower median of all elements; equal elements share the gradient."""
    xp = namespace(x)
    plain = x.array if isinstance(x, Tensor) else x
    ordered = array_module(plain).sort(plain.reshape(-1))
    missing = int((ordered != ordered).sum())
    n = ordered.size - missing if skip_nan else ordered.size
    if not ordered.size and not is_floating(ordered.dtype):
        raise ShapeError("median needs at least one element.\nOnly floating tensors have NaN to return.")
    value = ordered[(n - 1) // 2] if n and (skip_nan or not missing) else ordered.dtype.type(math.nan)

    def gradient(g):
        ties = xp.stop_gradient((x == value) | ((value != value) & (x != x))).astype(g.dtype)
        return (g / ties.sum()) * ties

    return to_device_of(np.asarray(on_cpu(value)), plain), (gradient,)


_medians = cases((distinct, 2, 3)) | cases((distinct, 2, 4), dim=1) | cases((distinct, 3, 2), 0, keepdim=True)


@derived(exact_in_half=True, samples=_medians)
def median(x, dim=None, keepdim=False):
    """Return the lower median of all elements, or (values, indices) along `dim`; NaN if any is NaN.

    If `dim` is not given, elements equal to the median share the gradient.
    """
    return _median(x, dim, keepdim, skip_nan=False)


@derived(exact_in_half=True, samples=_medians)
def nanmedian(x, dim=None, keepdim=False):
    """Return the lower median, ignoring NaN, of all elements, or (values, indices) along `dim`."""
    return _median(x, dim, keepdim, skip_nan=True)


def _median(x, dim, keepdim, skip_nan):
    x = as_tensor(x)
    if dim is None:
        return middle(x, skip_nan)
    axis = axis_of(dim, x.ndim)
    n = x.shape[axis] if x.ndim else 1
    check_nonempty("the median", x.shape, (axis,) if x.ndim else ())
    present = (x == x).sum(dim, keepdim=True)  # NaN is sorted last
    lower = (present - 1).clamp(0) // 2
    return _select_rank(x, lower if skip_nan else where(present < n, present, lower), dim, keepdim)


@derived(
    exact_in_half=True, samples=cases((distinct, 2, 3)) | cases(np.array([[1, 2, 2], [3, 1, 0]]), 1, True)
)
def mode(x, dim=-1, keepdim=False):
    """Return (values, indices) of the most frequent element along an axis, the smallest of several."""
    x = as_tensor(x)
    if not x.ndim:
        return _gather_at(x, constant(np.zeros((), np.int64), x), dim, keepdim)
    axis = axis_of(dim, x.ndim)
    check_nonempty("the mode", x.shape, (axis,))
    return _gather_at(x, constant(_most_frequent(x.numpy(), axis), x), dim, keepdim)


def _most_frequent(x, axis):
    """The index of the most frequent element along an axis, which is kept."""
    order = np.moveaxis(np.argsort(x, axis=axis, kind="stable"), axis, -1)
    ordered = np.take_along_axis(np.moveaxis(x, axis, -1), order, -1)
    place = np.arange(ordered.shape[-1])
    new = np.ones(ordered.shape, bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    so_far = place - np.maximum.accumulate(np.where(new, place, 0), -1)  # how many equal elements precede
    places = np.take_along_axis(order, so_far.argmax(-1)[..., None], -1)
    return np.moveaxis(places, -1, axis)


# ---------------------------------------------------------------- quantiles

INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")

_shares = (
    cases((distinct, 2, 4), 0.3, dim=1)
    | cases((distinct, 5), (probability, 2), interpolation="midpoint")
    | cases((distinct, 2, 4), (probability, 3), dim=0, keepdim=True)
)


@derived(samples=_shares)
def quantile(x, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Compute the q-th quantiles, q in [0, 1]; a vector q adds a new first axis.

    `interpolation` between two elements is "linear", "lower", "higher", "nearest" or "midpoint". NaN if any
    element is NaN.
    """
    return _quantile(x, q, dim, keepdim, interpolation, skip_nan=False)


@derived(samples=_shares)
def nanquantile(x, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Compute the q-th quantiles, ignoring NaN; see `quantile`."""
    return _quantile(x, q, dim, keepdim, interpolation, skip_nan=True)


def _quantile(x, q, dim, keepdim, interpolation, skip_nan):
    x = as_tensor(x)
    x = x if x.is_floating_point() else x.to("float32")
    q = q if isinstance(q, Tensor) else tensor(q, x.dtype, x.device)
    if q.ndim > 1:
        raise ShapeError(f"q must be a number or a vector, got shape {q.shape}.\nUse q.flatten().")
    if interpolation not in INTERPOLATIONS:
        said = ", ".join(INTERPOLATIONS)
        raise OptionError(f"interpolation must be one of {said}, got {interpolation!r}.\nChoose one of them.")
    if not ((q.array >= 0) & (q.array <= 1)).all():
        raise OptionError(f"q must be between 0 and 1, got {q.array}.\nDivide percentages by 100.")
    axis = axis_of(dim, x.ndim) if dim is not None else 0
    line = x.reshape(-1) if dim is None or not x.ndim else x.permute(_to_front(axis, x.ndim))
    if not line.shape[0]:
        raise ShapeError(f"quantile needs at least one element, got shape {x.shape}.\nReduce another axis.")
    found = _interpolate(line, q.reshape(-1, *[1] * (line.ndim - 1)), interpolation, skip_nan)
    if keepdim:
        kept = [1] * x.ndim if dim is None else [1 if i == axis else n for i, n in enumerate(x.shape)]
        found = found.reshape(q.numel(), *kept)
    return found if q.ndim else found.squeeze(0)


def _to_front(axis, ndim):
    """A permutation that moves `axis` to the front."""
    return (axis, *(i for i in range(ndim) if i != axis))


def _interpolate(line, q, interpolation, skip_nan):
    """The quantiles q along the first axis, interpolated between elements."""
    missing = line != line
    last = (line.shape[0] - 1 - missing.sum(0)).clamp(0) if skip_nan else line.shape[0] - 1
    rank = q * last
    if not skip_nan:
        rank = where(missing.any(0), last, rank)  # the position of NaN
    values = sort(line, 0).values
    at = lambda rank: values.gather(0, rank.detach().to("int64"))
    if interpolation in ("lower", "higher", "nearest"):
        return at({"lower": rank.floor, "higher": rank.ceil, "nearest": rank.round}[interpolation]())
    weight = rank - rank.detach().floor() if interpolation == "linear" else 0.5
    return at(rank).lerp(at(rank.ceil()), weight)
