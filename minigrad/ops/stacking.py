"""Stacking and splitting along given axes: hstack, vsplit, chunk, unbind, ..."""

from __future__ import annotations

import numpy as np

from ..core.costs import zero_flops
from ..core.devices import to_device_of
from ..core.errors import OptionError, ShapeError, counted
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from .axes import axis_of
from .indexing import getitem
from .samplers import cases, real
from .shaping import _SOME, cat, split, view_as_shape
from .views import atleast_1d, atleast_2d, atleast_3d

__family__ = "shape"
__exact_in_half__ = True
__all__ = [
    "chunk", "column_stack", "dsplit", "dstack", "hsplit", "hstack", "split_with_sizes", "tensor_split",
    "unbind", "vsplit", "vstack",
]  # fmt: skip


# ---------------------------------------------------------------- joining


@derived(
    samples=cases([(real, 2), (real, 3)]) | cases([(real, 2, 1), (real, 2, 2)]) | cases([(real,), (real,)])
)
def hstack(tensors):
    """Concatenate tensors along the second axis, or vectors along their only axis."""
    tensors = [atleast_1d(as_tensor(x)) for x in tensors]
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@derived(samples=cases([(real, 3), (real, 2, 3)]) | cases([(real,), (real,)]))
def vstack(tensors):
    """Concatenate tensors along the first axis, with vectors as rows."""
    return cat([atleast_2d(as_tensor(x)) for x in tensors], 0)


@derived(samples=cases([(real, 2), (real, 1, 2)]) | cases(_SOME))
def dstack(tensors):
    """Concatenate tensors along the third axis."""
    return cat([atleast_3d(as_tensor(x)) for x in tensors], 2)


@derived(samples=cases([(real, 2), (real, 2, 3)]) | cases([(real,), (real,)]))
def column_stack(tensors):
    """Concatenate tensors along the second axis, with vectors as columns."""
    tensors = map(as_tensor, tensors)
    return cat([x if x.ndim > 1 else view_as_shape(x, (x.numel(), 1)) for x in tensors], 1)


# ---------------------------------------------------------------- splitting


@derived(samples=cases((real, 2, 3), [1, 2], 1))
def split_with_sizes(x, split_sizes, dim=0):
    """Split into pieces of the given lengths along an axis."""
    return split(x, list(split_sizes), dim)


def _axis_to_split(x, dim):
    """Return the axis as a non-negative number, and its length."""
    if not x.ndim:
        raise ShapeError("a 0-d tensor cannot be split.\nAdd an axis: x.reshape(1).")
    dim = axis_of(dim, x.ndim)
    return dim, x.shape[dim]


def _check_pieces(pieces):
    if not 1 <= pieces < 2**31:
        raise OptionError(f"cannot split into {pieces} pieces.\nPass a number from 1 to what memory holds.")


@derived(samples=cases((real, 5, 2), 3) | cases((real, 2, 3), 2, -1))
def chunk(x, chunks, dim=0):
    """Split into at most `chunks` pieces of equal length (the last may be shorter)."""
    _check_pieces(chunks)
    dim, n = _axis_to_split(as_tensor(x), dim)
    return split(x, -(-n // chunks), dim) if n else split(x, (0,) * chunks, dim)


@derived(samples=cases((real, 5, 2), 3) | cases((real, 5, 2), (1, 3, 7)) | cases((real, 2, 3), (2, 1), -1))
def tensor_split(x, indices_or_sections, dim=0):
    """Split into a number of pieces, of which the first may be longer by one, or before each given index."""
    x = as_tensor(x)
    dim, n = _axis_to_split(x, dim)
    cuts = indices_or_sections
    cuts = cuts.tolist() if hasattr(cuts, "tolist") else cuts
    if isinstance(cuts, int):
        _check_pieces(cuts)
        return split(x, tuple(n // cuts + (i < n % cuts) for i in range(cuts)), dim)
    lead = (slice(None),) * dim
    return tuple(getitem(x, (*lead, slice(a, b))) for a, b in zip([0, *cuts], [*cuts, n], strict=True))


@derived(samples=cases((real, 2, 4), 2) | cases((real, 3), (1,)))
def hsplit(x, indices_or_sections):
    """Split x as `tensor_split` does, along the second axis, or along the only axis of a vector."""
    return _split_evenly(x, indices_or_sections, 1 if x.ndim > 1 else 0, 1)


@derived(samples=cases((real, 4, 2), 2))
def vsplit(x, indices_or_sections):
    """Split x as `tensor_split` does, along the first axis."""
    return _split_evenly(x, indices_or_sections, 0, 2)


@derived(samples=cases((real, 1, 2, 4), (1, 2)))
def dsplit(x, indices_or_sections):
    """Split x as `tensor_split` does, along the third axis."""
    return _split_evenly(x, indices_or_sections, 2, 3)


def _split_evenly(x, sections, dim, least):
    if x.ndim < least:
        needed = counted(least, "axis", "axes")
        raise ShapeError(f"expected at least {needed}, got shape {x.shape}.\nUse a tensor with more axes.")
    if isinstance(sections, int) and (sections < 1 or x.shape[dim] % sections):
        raise ShapeError(
            f"cannot split axis {dim} of length {x.shape[dim]} into {sections} equal pieces.\n"
            f"Pass a number that divides it, or use tensor_split."
        )
    return tensor_split(x, sections, dim)


@differentiable(
    public_name="unbind",
    view=True,
    samples=cases((real, 3, 2), 0) | cases((real, 2, 3), 1),
    latex=r"\operatorname{stack}(g_1, g_2, \ldots)",
    flops=zero_flops,
)
def slices(x, /, dim):
    """The slices of x along an axis, as several results of one node."""
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    dtype = x.dtype

    def gradient(gs, needs):
        like = next(g for g in gs if g is not None)
        parts = [to_device_of(np.zeros(shape, dtype), like) if g is None else g.reshape(shape) for g in gs]
        return (namespace(like).concat(parts, axis=dim),)

    # x[i, ...] is a view, x[i] a number
    lead = (slice(None),) * dim
    rest = () if x.ndim > 1 else (...,)
    return tuple([x[(*lead, i, *rest)] for i in range(x.shape[dim])]), gradient


@derived(samples=cases((real, 3, 2)) | cases((real, 2, 3), -1))
def unbind(x, dim=0):
    """Return the slices of x along an axis as a tuple."""
    x = as_tensor(x)
    dim, n = _axis_to_split(x, dim)
    return slices(x, dim) if n else ()
