"""The axes of a reduction: normalizing `dim`, counting elements, and expanding gradients back.

Everything works for arrays and for Tensors.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.dtypes import as_dtype, default_float, is_floating, result_type
from ..core.errors import DtypeError, RangeError, ShapeError, counted
from ..core.namespace import namespace
from ..core.tensor import as_tensor


def axes_of(dim, ndim):
    """`dim` as a sorted tuple of non-negative axes."""
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
    """`dim` as a non-negative axis; a 0-d tensor is treated as if it had one axis."""
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
    """Undo the shape of a reduction: restore the axes of `g` and expand it to `shape`."""
    if not keepdim:
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        g = g.reshape(kept)
    return namespace(g).broadcast_to(g, shape)


def count(shape, axes):
    """The number of elements that are reduced to each result."""
    return math.prod([shape[i] for i in axes])


def check_nonempty(name, shape, axes):
    """Raise a ShapeError if there are no elements to reduce."""
    if 0 in shape and not count(shape, axes):
        raise ShapeError(f"{name} of no elements, in shape {tuple(shape)}.\nReduce non-empty axes.")


def slice_along(x, dim, start, stop=None):
    """x[start:stop] along an axis."""
    return x[(slice(None),) * dim + (slice(start, stop),)]


def as_floating(x):
    """Convert x to a tensor, and integers and booleans to float32."""
    x = as_tensor(x)
    return x if is_floating(x.dtype) else x.to(default_float)


def all_floating(*xs):
    """Convert all to tensors, and integers and booleans to the common floating dtype, or float32."""
    tensors = [as_tensor(x) for x in xs]
    dtype = result_type(*tensors)
    dtype = dtype if is_floating(dtype) else default_float
    return [x if is_floating(x.dtype) else x.to(dtype) for x in tensors]


def cast(x, dtype, whole=None):
    """Cast x to `dtype`; if that is None, cast integers and booleans to `whole`, and leave floats as is."""
    if dtype is None:
        if whole is None or is_floating(x.dtype):
            return x
        dtype = whole
    return x if x.dtype == dtype else x.astype(as_dtype(dtype))
