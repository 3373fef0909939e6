"""Axes of a reduction: which they are, how many elements they hold, and how a gradient gets them back.

All of it works for arrays and for Tensors.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.dtypes import as_dtype, default_float, is_floating, result_type
from ..core.errors import DtypeError, RangeError, ShapeError, counted
from ..core.namespace import namespace
from ..core.tensor import as_tensor


def axes_of(dim, ndim):
    """`dim` as a sorted tuple of axes counted from the front."""
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return tuple(range(ndim))
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    for d in dims:
        axis_of(d, ndim)
    axes = tuple(sorted(d % max(ndim, 1) for d in dims))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"an axis is repeated in dim={dim}.\nName each axis once.")
    return axes if ndim else ()


def axis_of(dim, ndim):
    """`dim` counted from the front; a number without axes is treated as if it had one."""
    if type(dim) is int and -ndim <= dim < ndim:
        return dim % ndim
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer):
        raise DtypeError(f"an axis must be an integer, got {dim!r}.\nThe first is 0, the last -1.")
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise RangeError(
            f"axis {dim} of a tensor with {counted(ndim, 'axis', 'axes')}.\nThe first is 0, the last -1."
        )
    return int(dim) % max(ndim, 1)


def expand_reduced(g, shape, axes, keepdim):
    """Undo a reduction's shape: `g` with its axes back, expanded to `shape`."""
    if not keepdim:
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        g = g.reshape(kept)
    return namespace(g).broadcast_to(g, shape)


def count(shape, axes):
    """How many elements each result sums over."""
    return math.prod([shape[i] for i in axes])


def check_nonempty(name, shape, axes):
    """A ShapeError where there is no element to choose from."""
    if 0 in shape and not count(shape, axes):
        raise ShapeError(f"{name} of no elements, in shape {tuple(shape)}.\nReduce axes that have some.")


def slice_along(x, dim, start, stop=None):
    """x from `start` to before `stop` along an axis, as in a slice."""
    return x[(slice(None),) * dim + (slice(start, stop),)]


def as_floating(x):
    """A tensor of x, integers and booleans as float32: they would wrap around, or lose fractions."""
    x = as_tensor(x)
    return x if is_floating(x.dtype) else x.to(default_float)


def all_floating(*xs):
    """Tensors of all, integers and booleans in the dtype that they meet, float32 if none is floating."""
    tensors = [as_tensor(x) for x in xs]
    dtype = result_type(*tensors)
    dtype = dtype if is_floating(dtype) else default_float
    return [x if is_floating(x.dtype) else x.to(dtype) for x in tensors]


def cast(x, dtype, whole=None):
    """x in a dtype; where that is None as it is, or if it holds integers or booleans in `whole`."""
    if dtype is None:
        if whole is None or is_floating(x.dtype):
            return x
        dtype = whole
    return x if x.dtype == dtype else x.astype(as_dtype(dtype))
