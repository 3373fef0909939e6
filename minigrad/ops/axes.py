"""Axes of a reduction: which they are, how many elements they hold, and how a gradient gets them back."""

from __future__ import annotations

import math

import numpy as np

from ..errors import DtypeError, RangeError, ShapeError
from .namespace import namespace


def axes_of(dim, ndim):
    """`dim` as a sorted tuple of axes counted from the front."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    for d in dims:
        axis_of(d, ndim)
    axes = tuple(sorted(d % ndim for d in dims)) if ndim else ()
    if len(set(axes)) != len(axes):
        raise ShapeError(f"an axis is repeated in dim={dim}.\nName each axis once.")
    return axes


def axis_of(dim, ndim):
    """`dim` counted from the front; a number without axes is treated as if it had one."""
    if not isinstance(dim, int | np.integer):
        raise DtypeError(f"an axis is a whole number, got {dim!r}.\nThe first is 0, the last -1.")
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise RangeError(f"axis {dim} of a tensor with {ndim} axes.\nThe first is 0, the last -1.")
    return int(dim) % max(ndim, 1)


def spread(g, shape, axes, keepdim):
    """Undo a reduction's shape: `g` with its axes back, expanded to `shape`."""
    if not keepdim:
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        g = g.reshape(kept)
    return namespace(g).broadcast_to(g, shape)


def count(shape, axes):
    """How many elements each result sums over."""
    return math.prod(shape[i] for i in axes)
