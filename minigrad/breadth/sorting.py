"""Order along an axis: sorted values, the k largest, medians and quantiles.

Each finds places first, which have no derivative, and then gathers: a gradient goes back to where its value
stood. NaN counts as larger than every number, as in PyTorch.
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
from ..ops.axes import axis_of, check_nonempty
from ..ops.comparisons import where
from ..ops.samplers import along_axis, cases, distinct, probability

__family__ = "reduction"
__all__ = [
    "argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "nanquantile", "quantile", "sort",
    "topk",
]  # fmt: skip


class Ordered(NamedTuple):
    """Values in some order, and where they stood."""

    values: Tensor
    indices: Tensor


# ---------------------------------------------------------------- sorting

_lines = along_axis(distinct) | cases((distinct, 2, 3), descending=True) | cases((distinct,))


@differentiable(samples=_lines)
def argsort(x, /, dim=-1, descending=False, stable=False):
    """The places of the elements in increasing order; elements that tie keep theirs, `stable` or not."""
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
    """(values, indices) in increasing order along an axis; elements that tie keep theirs, `stable` or not."""
    x = as_tensor(x)
    places = argsort(x, dim, descending)
    return Ordered(x.gather(dim, places), places)


@derived(exact_in_half=True, samples=cases((distinct, 3, 2)) | cases((distinct, 4)))
def msort(x):
    """x in increasing order along its first axis."""
    return sort(x, 0).values


# ---------------------------------------------------------------- one or some of them


@derived(
    exact_in_half=True,
    samples=cases((distinct, 2, 4), 2)
    | cases((distinct, 4, 2), 3, dim=0, largest=False)
    | cases((distinct, 2, 3), 3),
)
def topk(x, k, dim=-1, largest=True, sorted=True):
    """(values, indices) of the k largest (or smallest) along an axis, the most extreme first."""
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
    """The indices of the k largest (or smallest) along an axis, the most extreme first; of ties the first."""
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
    """(values, indices) of the k-th smallest along an axis; the smallest is k = 1."""
    x = as_tensor(x)
    _check_rank("kthvalue", x, k, dim, least=1)
    return _ranked(x, constant(np.full((), k - 1), x), dim, keepdim)


def _check_rank(name, x, k, dim, least):
    n = x.shape[axis_of(dim, x.ndim)] if x.ndim else 1
    if not isinstance(k, int | np.integer) or not least <= k <= n:
        raise RangeError(f"{name} of k = {k!r} among {n} elements.\nGive an integer from {least} to {n}.")


def _ranked(x, rank, dim, keepdim):
    """(values, indices) of the element at position `rank` in increasing order."""
    places = argsort(x, dim)
    if x.ndim:
        axis = axis_of(dim, x.ndim)
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        places = places.gather(axis, rank.broadcast_to(shape))
    return _found(x, places, dim, keepdim)


def _found(x, places, dim, keepdim):
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
    """The lower median of all; elements that tie share the gradient evenly."""
    xp = namespace(x)
    plain = x.array if isinstance(x, Tensor) else x
    ordered = array_module(plain).sort(plain.reshape(-1))
    missing = int((ordered != ordered).sum())
    n = ordered.size - missing if skip_nan else ordered.size
    if not ordered.size and not is_floating(ordered.dtype):
        raise ShapeError("the median of no elements.\nIntegers have no NaN to return: give at least one.")
    value = ordered[(n - 1) // 2] if n and (skip_nan or not missing) else ordered.dtype.type(math.nan)

    def gradient(g):
        ties = xp.stop_gradient((x == value) | ((value != value) & (x != x))).astype(g.dtype)
        return (g / ties.sum()) * ties

    return to_device_of(np.asarray(on_cpu(value)), plain), (gradient,)


_medians = cases((distinct, 2, 3)) | cases((distinct, 2, 4), dim=1) | cases((distinct, 3, 2), 0, keepdim=True)


@derived(exact_in_half=True, samples=_medians)
def median(x, dim=None, keepdim=False):
    """The lower of the middle elements of all, or (values, indices) along `dim`; NaN if one is NaN.

    Of all elements, those that tie share the gradient.
    """
    return _median(x, dim, keepdim, skip_nan=False)


@derived(exact_in_half=True, samples=_medians)
def nanmedian(x, dim=None, keepdim=False):
    """The lower of the middle elements that are not NaN, of all, or (values, indices) along `dim`."""
    return _median(x, dim, keepdim, skip_nan=True)


def _median(x, dim, keepdim, skip_nan):
    x = as_tensor(x)
    if dim is None:
        return middle(x, skip_nan)
    axis = axis_of(dim, x.ndim)
    n = x.shape[axis] if x.ndim else 1
    check_nonempty("the median", x.shape, (axis,) if x.ndim else ())
    present = (x == x).sum(dim, keepdim=True)  # those that are not NaN come first
    lower = (present - 1).clamp(0) // 2
    return _ranked(x, lower if skip_nan else where(present < n, present, lower), dim, keepdim)


@derived(
    exact_in_half=True, samples=cases((distinct, 2, 3)) | cases(np.array([[1, 2, 2], [3, 1, 0]]), 1, True)
)
def mode(x, dim=-1, keepdim=False):
    """(values, indices) of the most frequent element along an axis: the smallest of several."""
    x = as_tensor(x)
    if not x.ndim:
        return _found(x, constant(np.zeros((), np.int64), x), dim, keepdim)
    axis = axis_of(dim, x.ndim)
    check_nonempty("the mode", x.shape, (axis,))
    return _found(x, constant(_most_frequent(x.numpy(), axis), x), dim, keepdim)


def _most_frequent(x, axis):
    """The place of the most frequent element along an axis, which stays."""
    order = np.moveaxis(np.argsort(x, axis=axis, kind="stable"), axis, -1)
    ordered = np.take_along_axis(np.moveaxis(x, axis, -1), order, -1)
    place = np.arange(ordered.shape[-1])
    new = np.ones(ordered.shape, bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    so_far = place - np.maximum.accumulate(np.where(new, place, 0), -1)  # equal elements before, in order
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
    """What a share q (0 to 1) of the elements lie below; several shares make a new first axis.

    Between two elements it is `interpolation`: "linear", "lower", "higher", "nearest" or "midpoint". NaN if
    one is NaN.
    """
    return _quantile(x, q, dim, keepdim, interpolation, skip_nan=False)


@derived(samples=_shares)
def nanquantile(x, q, dim=None, keepdim=False, *, interpolation="linear"):
    """What a share q (0 to 1) of the elements that are not NaN lie below, as in `quantile`."""
    return _quantile(x, q, dim, keepdim, interpolation, skip_nan=True)


def _quantile(x, q, dim, keepdim, interpolation, skip_nan):
    x = as_tensor(x)
    x = x if x.is_floating_point() else x.to("float32")
    q = q if isinstance(q, Tensor) else tensor(q, x.dtype, x.device)
    if q.ndim > 1:
        raise ShapeError(f"quantiles q of shape {q.shape}.\nGive a number or a vector.")
    if interpolation not in INTERPOLATIONS:
        said = ", ".join(INTERPOLATIONS)
        raise OptionError(f"interpolation is one of {said}, got {interpolation!r}.\nChoose one of them.")
    if not ((q.array >= 0) & (q.array <= 1)).all():
        raise OptionError(f"a quantile must be from 0 to 1, got {q.array}.\nPass a number in that range.")
    axis = axis_of(dim, x.ndim) if dim is not None else 0
    line = x.reshape(-1) if dim is None or not x.ndim else x.permute(_first(axis, x.ndim))
    if not line.shape[0]:
        raise ShapeError(f"a quantile of no elements, in shape {x.shape}.\nReduce an axis that has some.")
    found = _between(line, q.reshape(-1, *[1] * (line.ndim - 1)), interpolation, skip_nan)
    if keepdim:
        kept = [1] * x.ndim if dim is None else [1 if i == axis else n for i, n in enumerate(x.shape)]
        found = found.reshape(q.numel(), *kept)
    return found if q.ndim else found.squeeze(0)


def _first(axis, ndim):
    """All axes, `axis` first."""
    return (axis, *(i for i in range(ndim) if i != axis))


def _between(line, q, interpolation, skip_nan):
    """The quantiles of the first axis."""
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
