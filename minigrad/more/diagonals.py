"""Diagonals and triangles of matrices."""

from __future__ import annotations

import numpy as np

from ..core.costs import zero_flops
from ..core.dtypes import int64
from ..core.errors import ShapeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from ..ops.axes import axis_of
from ..ops.creation import tensor
from ..ops.reductions import sum as sum_of
from ..ops.samplers import cases, real
from ..ops.scattering import replaced, scattered
from ..ops.shaping import cat, view_as_shape
from ..ops.views import atleast_2d, movedim, ravel

__family__ = "shape"
__exact_in_half__ = True
__all__ = [
    "block_diag", "diag", "diag_embed", "diagflat", "diagonal", "diagonal_scatter", "trace",
    "tril_indices", "triu_indices",
]  # fmt: skip


# ---------------------------------------------------------------- diagonals


def _diagonal_indices(rows, columns, offset):
    """Row and column indices of the diagonal `offset` to the right of the main one."""
    i = np.arange(max(-offset, 0), max(min(rows, columns - offset), 0))
    return Ellipsis, i, i + offset


def _matrix_axes(ndim, dim1, dim2):
    dim1, dim2 = axis_of(dim1, ndim), axis_of(dim2, ndim)
    if ndim < 2 or dim1 == dim2:
        raise ShapeError(f"dim1 and dim2 are the same axis, {dim1} and {dim2} of {ndim}.\nPass two axes.")
    return dim1, dim2


@differentiable(
    view=True,
    samples=cases((real, 3, 3))
    | cases((real, 2, 3), 1)
    | cases((real, 3, 2, 2), -1, 0, -1)
    | cases((real, 2, 2), 2),
    latex=r"\operatorname{diag\_embed}(g)",
    flops=zero_flops,
)
def diagonal(x, /, offset=0, dim1=0, dim2=1):
    """Return the diagonals x[i, i + offset] of the matrices in two axes, as the last axis."""
    dim1, dim2 = _matrix_axes(x.ndim, dim1, dim2)
    xp = namespace(x)
    others = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    order = [*others, dim1, dim2]
    shape = tuple(x.shape[d] for d in order)
    line = _diagonal_indices(shape[-2], shape[-1], offset)

    def gradient(g):
        back = np.argsort(order).tolist()
        return namespace(g).permute_dims(namespace(g).scatter_add(shape, line, g), back)

    return xp.diagonal(x, offset, dim1, dim2), (gradient,)


@derived(samples=cases((real, 2, 3)) | cases((real,), 1) | cases((real, 2, 2), -1, 0, 2))
def diag_embed(x, offset=0, dim1=-2, dim2=-1):
    """Make matrices, in axes `dim1` and `dim2`, with the last axis of x on a diagonal and 0 elsewhere."""
    x = as_tensor(x) if as_tensor(x).ndim else view_as_shape(x, (1,))
    dim1, dim2 = _matrix_axes(x.ndim + 1, dim1, dim2)
    n = x.shape[-1] + abs(offset)
    matrices = scattered(x, (*x.shape[:-1], n, n), _diagonal_indices(n, n, offset))
    return movedim(matrices, (-2, -1), (dim1, dim2))


@derived(samples=cases((real, 3), -1) | cases((real, 2, 3), 1))
def diag(x, diagonal=0):
    """Return the diagonal of a matrix, or a matrix with the given vector on its diagonal."""
    if x.ndim == 1:
        return diag_embed(x, diagonal)
    if x.ndim != 2:
        raise ShapeError(f"diag needs a vector or a matrix, got {x.shape}.\nUse diagonal or diag_embed.")
    return _diagonal(x, diagonal)


@derived(samples=cases((real, 2, 2), 1) | cases((real,)))
def diagflat(x, offset=0):
    """Make a matrix with all elements of x on a diagonal."""
    return diag_embed(ravel(x), offset)


@derived(samples=cases((real, 3, 2)) | cases((real, 2, 2)), latex=r"g\,I")
def trace(x):
    """Sum the diagonal of a matrix."""
    if x.ndim != 2:
        raise ShapeError(f"trace needs a matrix, got shape {x.shape}.\nFor a batch, use diagonal and sum.")
    return sum_of(diagonal(x))


@derived(samples=cases((real, 3, 2), (real, 2)) | cases((real, 2, 3, 2), (real, 3, 1), 1, 0, 2))
def diagonal_scatter(x, src, offset=0, dim1=0, dim2=1):
    """Return a copy of x with `src` on a diagonal."""
    dim1, dim2 = _matrix_axes(x.ndim, dim1, dim2)
    matrices = movedim(x, (dim1, dim2), (-2, -1))
    line = _diagonal_indices(matrices.shape[-2], matrices.shape[-1], offset)
    expected = (*matrices.shape[:-2], len(line[1]))
    if src.shape != expected:
        raise ShapeError(f"src must have shape {expected}, got {src.shape}.\nPass the diagonal's shape.")
    return movedim(replaced(matrices, as_tensor(src).to(matrices.dtype), line), (-2, -1), (dim1, dim2))


@derived(samples=cases((real, 2, 3), (real, 2), (real,)) | cases((real, 1, 2)))
def block_diag(*tensors):
    """Make a matrix with the given matrices (vectors as rows) along its diagonal, and 0 elsewhere."""
    blocks = [atleast_2d(x) for x in tensors]
    width = sum(b.shape[1] for b in blocks)
    before = 0
    rows = []
    for block in blocks:
        height, n = block.shape
        rows.append(scattered(block, (height, width), (slice(None), slice(before, before + n))))
        before += n
    return cat(rows, 0)


_diagonal = diagonal  # for functions with an argument of that name


# ---------------------------------------------------------------- triangles


def tril_indices(row, col, offset=0, *, dtype=int64, device=None):
    """Return the row and column indices of the lower triangle of a matrix, shape (2, n)."""
    return tensor(np.stack(np.tril_indices(row, offset, col)), dtype, device)


def triu_indices(row, col, offset=0, *, dtype=int64, device=None):
    """Return the row and column indices of the upper triangle of a matrix, shape (2, n)."""
    return tensor(np.stack(np.triu_indices(row, offset, col)), dtype, device)
