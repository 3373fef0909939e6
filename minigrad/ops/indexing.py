"""Choosing elements: indexing, gather, masks, one-hot vectors, embeddings. Gradients go back where values came from."""

from __future__ import annotations

import numpy as np

from ..tensor import Tensor, _array_index
from .namespace import namespace
from .record import composite, differentiable


@differentiable(view=True)
def getitem(x, /, index):
    """x[index]: basic, advanced and boolean indexing as NumPy's; an element chosen twice gets both gradients."""
    shape, xp = x.shape, namespace(x)
    return xp.take(x, index) if isinstance(x, Tensor) else x[index], (
        lambda g: namespace(g).scatter_add(shape, index, g),
    )


def index(x, index):
    """x[index], where indices may be tensors, arrays and lists."""
    return getitem(x, _array_index(index))


@differentiable
def put(x, /, shape, index):
    """zeros(shape) with x added at `index`: what undoes x[index]."""
    return namespace(x).scatter_add(shape, index, x), (lambda g: namespace(g).take(g, index),)


def _along(shape, dim, places):
    """The index that picks element `places` along `dim` and its own place along every other axis."""
    grid = np.ogrid[tuple(slice(n) for n in places.shape)]
    return tuple(places if i == dim % len(shape) else grid[i] for i in range(len(shape)))


def gather(x, dim, index):
    """y[i, j] = x[i, index[i, j]] for dim=1, and so for each axis (torch.gather)."""
    return getitem(x, _along(x.shape, dim, np.asarray(index)))


def index_select(x, dim, index):
    """The elements of `index`, a list of places along `dim`."""
    return getitem(x, (slice(None),) * (dim % x.ndim) + (np.asarray(index),))


@differentiable(promotes=False)
def masked_fill(x, mask, /, value):
    """x with the number `value` where `mask` is True."""
    xp = namespace(x)
    return xp.where(mask, np.asarray(value, x.dtype), x), (lambda g: g * xp.logical_not(mask), None)


def one_hot(index, num_classes):
    """A row of zeros with a 1 at `index`, for each: int64 (..., num_classes)."""
    places = np.asarray(index)
    if places.size and not (places.min() >= 0 and places.max() < num_classes):
        raise IndexError(
            f"one_hot: class {places.max()} with num_classes={num_classes}.\nClasses count from 0."
        )
    return Tensor((places[..., None] == np.arange(num_classes)).astype(np.int64))


@composite(promotes=False)
def embedding(weight, ids, /):
    """Row `ids` of `weight` (V, D) for each id: (..., D). Equal to one_hot(ids) @ weight."""
    return getitem(weight, np.asarray(ids))
