"""Choosing elements: indexing, gather, masks, one-hot vectors, embeddings.

A gradient goes back to where the value came from.
"""

from __future__ import annotations

import numpy as np

from ..errors import DtypeError, OptionError, RangeError, ShapeError
from ..tensor import Tensor, array_index
from .axes import axis_of
from .namespace import namespace
from .record import composite, differentiable, made_of_ops

__all__ = [
    "gather", "index_select", "masked_fill", "one_hot",
]  # fmt: skip


@differentiable(view=True)
def getitem(x, /, index):
    """x[index], as NumPy's basic, advanced and boolean indexing; what is chosen twice gets both gradients."""
    shape, xp = x.shape, namespace(x)
    return xp.take(x, index), (lambda g: namespace(g).scatter_add(shape, index, g),)


@made_of_ops
def index(x, index):
    """x[index], where indices may be tensors, arrays and lists."""
    return getitem(x, _own(array_index(index)))


def _own(index):
    """The index with its arrays copied, so that what changes one after this does not change the gradient."""
    if isinstance(index, tuple):
        return tuple(_own(i) for i in index)
    return index.copy() if isinstance(index, np.ndarray) else index


@differentiable
def put(x, /, shape, index):
    """zeros(shape) with x added at `index`: what undoes x[index]."""
    return namespace(x).scatter_add(shape, index, x), (lambda g: namespace(g).take(g, index),)


def _along(shape, dim, places):
    """The index that picks element `places` along `dim` and its own place along every other axis."""
    grid = np.ogrid[tuple(slice(n) for n in places.shape)]
    return tuple(places if i == dim else grid[i] for i in range(len(shape)))


@made_of_ops
def gather(x, dim, index):
    """y[i, j] = x[i, index[i, j]] for dim=1, and so for each axis (torch.gather)."""
    dim, places = axis_of(dim, x.ndim), whole_numbers("gather", index, x.shape[dim] if x.ndim else 1)
    if places.ndim != x.ndim:
        raise ShapeError(
            f"gather from shape {x.shape} by an index of shape {places.shape}.\nGive them as many axes."
        )
    return getitem(x, _along(x.shape, dim, places)) if x.ndim else x


@made_of_ops
def index_select(x, dim, index):
    """The elements of `index`, a list of places along `dim`."""
    dim = axis_of(dim, x.ndim)
    return getitem(x, (slice(None),) * dim + (whole_numbers("index_select", index, x.shape[dim]),))


def whole_numbers(name, ids, count, ignored=None):
    """`ids` as an array of our own, each from 0 to before `count`, or equal to `ignored`."""
    array = np.array(array_index(ids))
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{name} takes whole numbers, got {array.dtype}.\nConvert them with .to('int64').")
    wrong = (array < 0) | (array >= count)
    if ignored is not None:
        wrong &= array != ignored
    if wrong.any():
        raise RangeError(
            f"{name}: {array[wrong].flat[0]} is none of the {count} there are.\n"
            f"They count from 0 to {count - 1}."
        )
    return array


@differentiable(promotes=False)
def masked_fill(x, mask, /, value):
    """x with the number `value` where `mask` is True."""
    if mask.dtype != bool:
        raise DtypeError(
            f"masked_fill takes a boolean mask, got {mask.dtype}.\nCompare to get one: mask != 0."
        )
    if isinstance(value, Tensor) and value.requires_grad:
        raise OptionError("masked_fill has no gradient for its value.\nUse mg.where(mask, value, x).")
    xp = namespace(x)
    return xp.where(mask, np.asarray(value, x.dtype), x), (lambda g: xp.gate(xp.logical_not(mask), g), None)


@made_of_ops
def one_hot(index, num_classes=-1):
    """A row of zeros with a 1 at `index`, for each: int64 (..., num_classes), by default the largest + 1."""
    places = np.asarray(array_index(index))
    if num_classes == -1:
        num_classes = int(places.max()) + 1
    places = whole_numbers("one_hot", places, num_classes)
    return Tensor((places[..., None] == np.arange(num_classes)).astype(np.int64))


@composite(promotes=False)
def embedding(weight, ids, /):
    """Row `ids` of `weight` (V, D) for each id: (..., D). Equal to one_hot(ids) @ weight."""
    return getitem(weight, whole_numbers("embedding", ids, weight.shape[0]))
