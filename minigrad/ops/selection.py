"""Selecting slices, elements and indices, by index or by mask. For changing them see scattering.py."""

from __future__ import annotations

from functools import wraps

import numpy as np

from ..core.devices import array_module
from ..core.errors import OptionError, RangeError, ShapeError
from ..core.op import derived
from ..core.tensor import Tensor, as_tensor
from . import comparisons
from .axes import axis_of
from .indexing import check_mask_dtype, checked_ids, checked_places, gather, getitem, out_of_range
from .indices import as_index_array
from .samplers import cases, integers, mask, real, unary
from .shaping import broadcast_to, view_as_shape
from .views import broadcast_tensors, ravel

__family__ = "shape"
__exact_in_half__ = True
__all__ = [
    "argwhere", "index_select", "masked_select", "narrow", "nonzero", "one_hot", "select", "take",
    "take_along_dim", "where",
]  # fmt: skip


@wraps(comparisons.where)
def where(condition, *values, **named):
    """x where `condition` is True, y elsewhere; with a condition alone, the indices where it is True."""
    if values or named:
        return comparisons.where(condition, *values, **named)
    return nonzero(condition, as_tuple=True)


# ---------------------------------------------------------------- x[...]


@derived(samples=cases((real, 2, 3), 1, -1))
def select(x, dim, index: int):
    """Return slice `index` along an axis."""
    dim = axis_of(dim, x.ndim)
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise RangeError(out_of_range(index, dim, x.shape[dim]))
    return getitem(x, (slice(None),) * dim + (int(index),))


@derived(samples=cases((real, 2, 4), 1, 1, 2) | cases((real, 3), 0, -2, 2))
def narrow(x, dim, start: int, length):
    """Return `length` slices along an axis, from `start` on."""
    dim = axis_of(dim, x.ndim)
    n = x.shape[dim]
    first = int(start)
    first += n * (first < 0)
    if not 0 <= first <= n or not 0 <= length <= n - first:
        raise RangeError(
            f"narrow got start {start} and length {length} for axis {dim} of length {n}.\n"
            f"Stay within the axis."
        )
    return getitem(x, (slice(None),) * dim + (slice(first, first + length),))


# ---------------------------------------------------------------- along an axis


@derived(samples=cases((real, 2, 3), 1, (integers(0, 3), 4)) | cases((real, 2), 0, (integers(0, 2),)))
def index_select(x, dim, index):
    """Select the slices `index`, a vector, along `dim`."""
    x = as_tensor(x)
    line = x if x.ndim else view_as_shape(x, (1,))
    dim = axis_of(dim, line.ndim)
    places = checked_places("index_select", index, line, dim)
    if places.ndim > 1:
        raise ShapeError(f"index must be a vector, got shape {places.shape}.\nUse index.flatten().")
    chosen = getitem(line, (slice(None),) * dim + (places.reshape(-1),))
    return chosen if x.ndim else view_as_shape(chosen, ())


@derived(samples=cases((real, 2, 3), (integers(-6, 6), 2, 2)) | cases((real,), 0))
def take(x, index):
    """Select elements of the flattened x; the result has the index's shape."""
    line = ravel(as_tensor(x))
    return getitem(line, checked_places("take", index, line, 0, negative=True))


@derived(
    samples=cases((real, 2, 3), (integers(0, 3), 2, 2), 1)
    | cases((real, 2, 1), (integers(0, 2), 1, 3), 0)
    | cases((real, 2, 3), (integers(0, 6), 4))
)
def take_along_dim(x, indices, dim=None):
    """Like `gather`, with the other axes broadcast; without `dim`, from the flattened x."""
    x = as_tensor(x)
    line, d = (ravel(x), 0) if dim is None else (x, axis_of(dim, x.ndim))
    places = checked_places("take_along_dim", indices, line, d, negative=True) % max(line.shape[d], 1)
    if dim is None:
        return gather(line, 0, places.reshape(-1))
    if places.ndim != x.ndim:
        raise ShapeError(
            f"indices of shape {places.shape} must have as many axes as shape {x.shape}.\nReshape them."
        )
    with_length = lambda shape, n: (*shape[:d], n, *shape[d + 1 :])
    shape = np.broadcast_shapes(with_length(x.shape, 1), with_length(places.shape, 1))
    places = array_module(places).broadcast_to(places, with_length(shape, places.shape[d]))
    return gather(broadcast_to(x, with_length(shape, x.shape[d])), d, places)


# ---------------------------------------------------------------- masks


@derived(samples=cases((real, 2, 3), (mask, 2, 3)) | cases((real, 3), (mask, 2, 1)))
def masked_select(x, mask):
    """Return a vector of the elements of x where `mask` is True, after broadcasting both."""
    x, mask = broadcast_tensors(x, mask)
    check_mask_dtype("masked_select", mask)
    return getitem(x, mask.array.copy())


@derived(samples=unary(mask))
def nonzero(x, *, as_tuple=False):
    """The indices of nonzero elements: int64 (count, axes), or with `as_tuple` a vector for each axis."""
    array = as_tensor(x).array
    if as_tuple:
        return tuple(Tensor(places) for places in (array if array.ndim else array.reshape(1)).nonzero())
    return Tensor(array_module(array).argwhere(array))


@derived(samples=unary(mask))
def argwhere(x):
    """The indices of nonzero elements: int64 (count, axes)."""
    return nonzero(x)


@derived(samples=cases((integers(0, 4), 2, 3), 4) | cases((integers(0, 4), 3)))
def one_hot(index, num_classes=-1):
    """Encode integers as one-hot vectors: int64 (..., num_classes), or as many as the largest integer + 1."""
    places = as_index_array(index)
    if num_classes == -1:
        if not places.size:
            raise OptionError("num_classes cannot be derived from an empty index.\nPass num_classes.")
        num_classes = int(places.max()) + 1
    places = checked_ids("one_hot", places, num_classes)
    return Tensor((places[..., None] == array_module(places).arange(num_classes)).astype(np.int64))
