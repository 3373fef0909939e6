"""Triangles of matrices, such as the causal mask `mg.ones(T, T, dtype="bool").tril()`."""

from __future__ import annotations

import numpy as np

from ..core.costs import zero_flops
from ..core.errors import DtypeError, ShapeError
from ..core.namespace import namespace
from ..core.op import differentiable
from .samplers import cases, real

__family__ = "shape"
__exact_in_half__ = True
__all__ = ["tril", "triu"]


@differentiable(
    samples=cases((real, 3, 3)) | cases((real, 2, 2, 3), 1) | cases((real, 3, 2), -1),
    latex=r"\operatorname{tril}(g)",
    flops=zero_flops,
)
def tril(x, /, diagonal=0):
    """Return the lower triangle of each matrix of x (..., M, N), with zeros above a diagonal.

    `diagonal` is 0 for the main diagonal, positive for one above it and negative for one below it.
    """
    xp = _of_matrices(x, diagonal)
    return xp.tril(x, diagonal), (lambda g: xp.tril(g, diagonal),)


@differentiable(
    samples=cases((real, 3, 3)) | cases((real, 2, 2, 3), 1) | cases((real, 3, 2), -1),
    latex=r"\operatorname{triu}(g)",
    flops=zero_flops,
)
def triu(x, /, diagonal=0):
    """Return the upper triangle of each matrix of x (..., M, N), with zeros below a diagonal.

    `diagonal` is 0 for the main diagonal, positive for one above it and negative for one below it.
    """
    xp = _of_matrices(x, diagonal)
    return xp.triu(x, diagonal), (lambda g: xp.triu(g, diagonal),)


def _of_matrices(x, diagonal):
    if not isinstance(diagonal, int | np.integer):
        raise DtypeError(f"a diagonal must be an integer, got {diagonal!r}.\nThe main one is 0.")
    if x.ndim < 2:
        raise ShapeError(f"expected a matrix or a batch of matrices, got shape {x.shape}.\nAdd an axis.")
    return namespace(x)
