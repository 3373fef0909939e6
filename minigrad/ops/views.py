"""PyTorch's other views: view, unflatten, movedim, as_strided, ..."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..core.costs import zero_flops
from ..core.devices import array_module
from ..core.dtypes import as_dtype
from ..core.errors import ShapeError, SignatureError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import Tensor, as_tensor
from ..core.versions import version_of
from .arithmetic import alias
from .axes import axis_of
from .samplers import cases, mask, real
from .shaping import broadcast_to, permute_axes, sizes_of, transpose, unsqueeze, view_as_shape

__family__ = "shape"
__exact_in_half__ = True
__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "contiguous", "expand_as", "moveaxis",
    "movedim", "ravel", "reshape_as", "t", "unflatten", "view", "view_as",
]  # fmt: skip


# ---------------------------------------------------------------- another shape


@derived(samples=cases((real, 2, 3), 3, 2) | cases((real, 2, 3), (3, -1)))
def view(x, *shape, dtype=None):
    """Return a view of x in another shape; view("int32") reads its memory as int32, outside any graph."""
    if dtype is not None or (len(shape) == 1 and not isinstance(shape[0], int | np.integer | tuple | list)):
        return _read_as(x, as_dtype(shape[0] if dtype is None else dtype))
    if not shape:
        raise SignatureError(
            "view needs a shape or a dtype.\nWrite x.view(2, 3), x.view(-1) or x.view('int32')."
        )
    y = view_as_shape(x, sizes_of(shape))
    shared = x.array.flags.c_contiguous or array_module(x.array).may_share_memory(x.array, y.array)
    if not shared and x.numel():
        raise ShapeError(
            f"shape {x.shape} with strides {x.stride()} cannot be viewed as {y.shape} without a copy.\n"
            f"Use x.reshape(...), which copies, or x.contiguous().view(...)."
        )
    return y


def _read_as(x, dtype):
    if dtype == x.dtype:
        return alias(x)
    try:
        y = Tensor(x.array.view(dtype))
    except ValueError as error:
        raise ShapeError(
            f"the memory of {x.dtype} numbers in shape {x.shape} cannot be read as {dtype}: "
            f"{str(error).rstrip('.')}.\nThe last axis must be contiguous, and divide into these."
        ) from None
    y.version = version_of(x)
    return y


@derived(samples=cases((real, 2, 3), (mask, 3, 2)))
def view_as(x, other):
    """Return a view of x in the shape of `other`."""
    return view(x, other.shape)


@derived(samples=cases((real, 2, 3), (mask, 3, 2)))
def reshape_as(x, other):
    """Reshape x to the shape of `other`."""
    return view_as_shape(x, other.shape)


@derived(samples=cases((real, 6, 2), 0, (2, 3)) | cases((real, 2, 6), -1, (-1, 2)))
def unflatten(x, dim, sizes):
    """Split axis `dim` into axes of the given sizes, one of which may be -1."""
    dim = axis_of(dim, x.ndim)
    n = x.shape[dim]
    known = math.prod(size for size in sizes if size != -1)
    if known != n and (-1 not in sizes or not known or n % known):
        raise ShapeError(
            f"axis {dim} has {n} elements, which do not fill the sizes {tuple(sizes)}.\n"
            f"They must multiply to {n}; one of them may be -1."
        )
    sizes = [n // known if size == -1 else size for size in sizes]
    return view_as_shape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


@derived(samples=cases((real,)) | cases([(real,), (real, 2)]) | cases((real, 2, 3)))
def atleast_1d(*tensors):
    """View x with at least one axis: a number becomes (1,). Several tensors give a tuple."""
    return _of_each(tensors, lambda x: x if x.ndim else view_as_shape(x, (1,)))


@derived(samples=cases((real,)) | cases([(real, 3), (real, 2, 1, 2)]))
def atleast_2d(*tensors):
    """View x with at least two axes: a vector becomes (1, n). Several tensors give a tuple."""
    return _of_each(tensors, lambda x: x if x.ndim > 1 else view_as_shape(x, (1, x.numel())))


@derived(samples=cases((real,)) | cases([(real, 3), (real, 2, 2)]))
def atleast_3d(*tensors):
    """View x with at least three axes: a vector becomes (1, n, 1), a matrix (m, n, 1).

    Several tensors give a tuple.
    """
    return _of_each(
        tensors,
        lambda x: (
            x if x.ndim > 2 else unsqueeze(x, -1) if x.ndim == 2 else view_as_shape(x, (1, x.numel(), 1))
        ),
    )


def _of_each(tensors, function):
    """Apply a function to one tensor, or to each of several (as arguments or in a list)."""
    if len(tensors) == 1 and not isinstance(tensors[0], tuple | list):
        return function(as_tensor(tensors[0]))
    return tuple(function(as_tensor(x)) for x in (tensors[0] if len(tensors) == 1 else tensors))


# ---------------------------------------------------------------- another order of axes


@derived(samples=cases((real, 2, 3)) | cases((real, 3)) | cases((real,)))
def t(x):
    """The transpose of a matrix; a vector or a number is returned unchanged."""
    if x.ndim > 2:
        raise ShapeError(f"t needs at most 2 axes, got {x.shape}.\nUse x.mT, or x.transpose(dim0, dim1).")
    return transpose(x, 0, -1)


@derived(samples=cases((real, 2, 1, 3), 0, 2) | cases((real, 2, 1, 3), (0, -1), (1, 0)))
def movedim(x, source: int | Sequence[int], destination: int | Sequence[int]):
    """Move axes from positions `source` to `destination` (one or several); the others keep their order."""
    ndim = x.ndim
    sources, places = (
        [axis_of(d, ndim) for d in (dims if isinstance(dims, tuple | list) else (dims,))]
        for dims in (source, destination)
    )
    if not len(set(sources)) == len(sources) == len(places) == len(set(places)):
        raise ShapeError(
            f"movedim got source {source} and destination {destination}.\nName each axis once in both."
        )
    order = [d for d in range(ndim) if d not in sources]
    for place, d in sorted(zip(places, sources, strict=True)):
        order.insert(place, d)
    return permute_axes(x, order[:ndim])


# ---------------------------------------------------------------- expanding


@derived(samples=cases((real, 2, 1), (mask, 4, 2, 3)))
def expand_as(x, other):
    """Expand x, without a copy, to the shape of `other`."""
    return broadcast_to(x, other.shape)


# ---------------------------------------------------------------- strides


@differentiable(
    view=True,
    samples=cases((real, 3, 4), (2, 3), (4, 1), 1, (0, 1))
    | cases((real, 3, 4), (3,), (4,), 0, (1, 0))
    | cases((real, 6), (2, 2), (1, 1), 3, (0,)),
    latex=r"\sum_{\text{uses}} g",
    flops=zero_flops,
)
def strided(x, /, size, stride, offset, order):
    """View the memory of x with the given size, strides and offset (torch.as_strided).

    `order` names the axes of x as they lie in memory, the one with the largest step first.
    """
    shape = x.shape
    lengths = [shape[d] for d in order]
    back = [order.index(d) for d in range(len(order))]

    def places():
        steps = [np.arange(n) * step for n, step in zip(size, stride, strict=True)]
        return offset + sum(np.ix_(*steps)) if size else np.array(offset)

    def gradient(g):
        xp = namespace(g)
        flat = xp.scatter_add((math.prod(shape),), (places(),), g)
        return xp.permute_dims(flat.reshape(lengths), back)

    line = namespace(x).permute_dims(x, order).reshape((-1,))
    if isinstance(x, Tensor):
        return namespace(x).take(line, (places(),)), (gradient,)
    as_strided = array_module(line).lib.stride_tricks.as_strided
    steps = [n * line.itemsize for n in stride]
    if isinstance(line, np.ndarray):
        return as_strided(line[offset:], size, steps, subok=True), (gradient,)
    return as_strided(line[offset:], size, steps), (gradient,)


# ---------------------------------------------------------------- copying if necessary


@derived(samples=cases((real, 2, 3)))
def contiguous(x, memory_format=None):
    """Return x if its memory is in row-major order, otherwise a copy; `memory_format` is ignored."""
    x = as_tensor(x)
    return x if x.array.flags.c_contiguous else in_row_order(x)


@differentiable(public_name="contiguous", samples=cases((real, 2, 3)), latex="g", flops=zero_flops)
def in_row_order(x, /):
    """A copy of x in row-major order."""
    return namespace(x).copy(x, order="C"), (lambda g: g,)


moveaxis = movedim


@derived(samples=cases((real, 2, 3)) | cases((real,)))
def ravel(x):
    """Flatten x into a vector."""
    return view_as_shape(x, (-1,)) if math.prod(x.shape) else view_as_shape(x, (0,))


@derived(samples=cases((real, 2, 1), (real, 3)) | cases((real,), (real, 2, 2)))
def broadcast_tensors(*tensors):
    """Broadcast tensors, without a copy, to their common shape."""
    shape = np.broadcast_shapes(*[as_tensor(x).shape for x in tensors])
    return tuple(broadcast_to(as_tensor(x), shape) for x in tensors)
