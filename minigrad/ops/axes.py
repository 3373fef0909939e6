"""Axes of a reduction: which they are, how many elements they hold, and how a gradient gets them back."""

from __future__ import annotations

import math

from .namespace import namespace


def axes_of(dim, ndim):
    """`dim` as a sorted tuple of axes counted from the front."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    for d in dims:
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError(f"axis {d} is out of range for a tensor with {ndim} axes")
    axes = tuple(sorted(d % max(ndim, 1) for d in dims)) if ndim else ()
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis repeated in dim={dim}")
    return axes


def spread(g, shape, axes, keepdim):
    """Undo a reduction's shape: `g` with its axes back, expanded to `shape`."""
    if not keepdim:
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        g = g.reshape(kept)
    return namespace(g).broadcast_to(g, shape)


def count(shape, axes):
    """How many elements each result sums over."""
    return math.prod(shape[i] for i in axes)
