"""Views and axes: the same numbers in another shape. A gradient takes the way back.

Four primitive views (another shape, another order of axes, repetition, and `getitem` in indexing.py) make
the others; diagonals are in diagonals.py.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import OptionError, ShapeError
from ..tensor import as_tensor
from .axes import axes_of, axis_of
from .costs import nothing
from .namespace import namespace
from .op import derived, differentiable
from .samplers import each, mask, real
from .windows import sliding_windows

__family__ = "shape"

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "broadcast_to", "contiguous", "expand",
    "expand_as", "flatten", "moveaxis", "movedim", "permute", "ravel", "reshape", "reshape_as", "squeeze",
    "swapaxes", "swapdims", "t", "transpose", "unflatten", "unsqueeze", "view", "view_as",
]  # fmt: skip


def sizes_of(shape):
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` are the same."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape


# ---------------------------------------------------------------- another shape


@differentiable(
    public_name="reshape",
    view=True,
    samples=each((real, 2, 3), (3, 2))
    | each((real, 2, 3), (-1,))
    | each((real,), (1, 1))
    | each((real, 0, 2), (3, 0)),
    latex=r"\operatorname{reshape}(g)",
    flops=nothing,
)
def view_as_shape(x, /, shape):
    """x in another shape of as many elements, in the order of its elements (row by row)."""
    before = x.shape
    try:
        return x.reshape(shape), (lambda g: g.reshape(before),)
    except ValueError:
        raise ShapeError(
            f"{math.prod(before)} elements of shape {before} do not fill the shape {tuple(shape)}.\n"
            f"Its sizes must multiply to {math.prod(before)}; one of them may be -1."
        ) from None


@derived(samples=each((real, 2, 3), 3, 2) | each((real, 2, 3), (3, -1)) | each((real, 1), ()))
def reshape(x, *shape):
    """x in another shape of as many elements; one of the sizes may be -1."""
    return view_as_shape(x, sizes_of(shape))


@derived(samples=each((real, 2, 3), (mask, 3, 2)))
def reshape_as(x, other):
    """x in the shape of `other`."""
    return view_as_shape(x, other.shape)


@derived(samples=each((real, 2, 1, 3, 1)) | each((real, 2, 1, 1), 1) | each((real, 1, 2, 1), (0, -1)))
def squeeze(x, dim=None):
    """x without its axes of length 1, or without those of them that `dim` names."""
    if type(dim) is int and -x.ndim <= dim < x.ndim:
        dim %= x.ndim
        return view_as_shape(x, x.shape[:dim] + x.shape[dim + 1 :] if x.shape[dim] == 1 else x.shape)
    axes = axes_of(dim, x.ndim) if dim != () else ()
    return view_as_shape(x, tuple([n for i, n in enumerate(x.shape) if n != 1 or i not in axes]))


@derived(samples=each((real, 2, 3), 0) | each((real, 2, 3), -1) | each((real,), 0))
def unsqueeze(x, dim):
    """x with an axis of length 1 put in place `dim`."""
    x = as_tensor(x)
    place = axis_of(dim, x.ndim + 1)
    return view_as_shape(x, (*x.shape[:place], 1, *x.shape[place:]))


@derived(
    samples=each((real, 2, 3, 2)) | each((real, 2, 3, 2), 1) | each((real, 2, 3, 2), 0, 1) | each((real,))
)
def flatten(x, start_dim=0, end_dim=-1):
    """The axes from `start_dim` to `end_dim` as one."""
    shape = x.shape
    first, last = axis_of(start_dim, len(shape)), axis_of(end_dim, len(shape))
    if first > last:
        raise ShapeError(
            f"the axes from {start_dim} to {end_dim} of shape {shape}: the first comes after the last.\n"
            f"Exchange them."
        )
    return view_as_shape(x, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@derived(samples=each((real, 2, 3)) | each((real,)))
def ravel(x):
    """All elements along one axis."""
    return view_as_shape(x, (-1,)) if math.prod(x.shape) else view_as_shape(x, (0,))


@derived(samples=each((real, 6, 2), 0, (2, 3)) | each((real, 2, 6), -1, (-1, 2)))
def unflatten(x, dim, sizes):
    """The axis `dim` as several of the given sizes, one of which may be -1."""
    dim = axis_of(dim, x.ndim)
    n, known = x.shape[dim], math.prod(size for size in sizes if size != -1)
    if known != n and (-1 not in sizes or not known or n % known):
        raise ShapeError(
            f"axis {dim} has {n} elements, which do not fill the sizes {tuple(sizes)}.\n"
            f"They must multiply to {n}; one of them may be -1."
        )
    sizes = [n // known if size == -1 else size for size in sizes]
    return view_as_shape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


@derived(samples=each((real,)) | each([(real,), (real, 2)]) | each((real, 2, 3)))
def atleast_1d(*tensors):
    """A number as a tensor of one element; several tensors give a tuple."""
    return _of_each(tensors, lambda x: x if x.ndim else view_as_shape(x, (1,)))


@derived(samples=each((real,)) | each([(real, 3), (real, 2, 1, 2)]))
def atleast_2d(*tensors):
    """A number or a vector as a matrix of one row; several tensors give a tuple."""
    return _of_each(tensors, lambda x: x if x.ndim > 1 else view_as_shape(x, (1, x.numel())))


@derived(samples=each((real,)) | each([(real, 3), (real, 2, 2)]))
def atleast_3d(*tensors):
    """A number as (1, 1, 1), a vector as (1, n, 1), a matrix as (m, n, 1); several tensors give a tuple."""
    return _of_each(
        tensors,
        lambda x: (
            x if x.ndim > 2 else unsqueeze(x, -1) if x.ndim == 2 else view_as_shape(x, (1, x.numel(), 1))
        ),
    )


def _of_each(tensors, function):
    """The function of one tensor, or of each of several (given one by one or in a list)."""
    if len(tensors) == 1 and not isinstance(tensors[0], tuple | list):
        return function(as_tensor(tensors[0]))
    return tuple(function(as_tensor(x)) for x in (tensors[0] if len(tensors) == 1 else tensors))


# ---------------------------------------------------------------- another order of axes


@differentiable(
    public_name="permute",
    view=True,
    samples=each((real, 2, 1, 3), (2, 0, 1)) | each((real, 2, 1, 3), (-1, 1, 0)) | each((real,), ()),
    latex=r"\operatorname{permute}^{-1}(g)",
    flops=nothing,
)
def permute_axes(x, /, dims):
    """x with axis dims[i] in place i."""
    permuted, n = namespace(x).permute_dims, x.ndim
    try:
        value = permuted(x, dims)
    except (ValueError, IndexError):
        raise ShapeError(
            f"{tuple(dims)} is no order of the {n} axes of shape {x.shape}.\nName each axis once."
        ) from None

    def gradient(g):
        back = [0] * n
        for i, d in enumerate(dims):
            back[d] = i
        return permuted(g, back)

    return value, (gradient,)


@derived(samples=each((real, 2, 1, 3), 2, 0, 1) | each((real, 2, 3), (-1, 0)))
def permute(x, *dims):
    """x with axis dims[i] in place i."""
    return permute_axes(x, sizes_of(dims))


@differentiable(
    view=True,
    samples=each((real, 2, 3), 0, 1) | each((real, 2, 1, 3), 0, -1) | each((real,), 0, -1),
    latex=r"g^\top",
    flops=nothing,
)
def transpose(x, /, dim0, dim1):
    """x with two axes exchanged."""
    n = x.ndim
    dim0, dim1 = axis_of(dim0, n), axis_of(dim1, n)
    if not n:
        return x, (lambda g: g,)
    return x.swapaxes(dim0, dim1), (lambda g: g.swapaxes(dim0, dim1),)


@derived(samples=each((real, 2, 3)) | each((real, 3)) | each((real,)))
def t(x):
    """The transpose of a matrix; a vector or a number as it is."""
    if x.ndim > 2:
        raise ShapeError(f"t of a tensor of shape {x.shape}.\nUse x.mT, or x.transpose(dim0, dim1).")
    return transpose(x, 0, -1)


@derived(samples=each((real, 2, 1, 3), 0, 2) | each((real, 2, 1, 3), (0, -1), (1, 0)))
def movedim(x, source, destination):
    """x with the axes `source` (one or several) in the places `destination`, the others in their order."""
    ndim = x.ndim
    sources, places = (
        [axis_of(d, ndim) for d in (dims if isinstance(dims, tuple | list) else (dims,))]
        for dims in (source, destination)
    )
    if not len(set(sources)) == len(sources) == len(places) == len(set(places)):
        raise ShapeError(
            f"the axes {source} into the places {destination}.\nName each axis and each place once."
        )
    order = [d for d in range(ndim) if d not in sources]
    for place, d in sorted(zip(places, sources, strict=True)):
        order.insert(place, d)
    return permute_axes(x, order[:ndim])


# ---------------------------------------------------------------- repetition without a copy


@differentiable(
    view=True,
    samples=each((real, 3), (2, 3)) | each((real, 2, 1), (4, 2, 3)) | each((real,), (0, 2)),
    latex=r"\sum_{\text{repetitions}} g",
    flops=nothing,
)
def broadcast_to(x, /, shape):
    """x repeated, without a copy, to a shape that it broadcasts to; the gradient adds the repetitions up."""
    try:
        return namespace(x).broadcast_to(x, shape), (lambda g: g,)
    except ValueError:
        raise ShapeError(
            f"shape {x.shape} does not spread to {tuple(shape)}.\n"
            f"Counted from the last, an axis must have that length or 1; new axes come in front."
        ) from None


@derived(samples=each((real, 2, 1), 4, -1, 3) | each((real, 1, 3), (2, -1)))
def expand(x, *shape):
    """x repeated along its axes of length 1, without a copy; -1 keeps an axis as it is."""
    sizes = sizes_of(shape)
    if -1 not in sizes:
        return broadcast_to(x, sizes)
    new, before = len(sizes) - x.ndim, x.shape
    return broadcast_to(
        x, tuple([before[i - new] if n == -1 and i >= new else n for i, n in enumerate(sizes)])
    )


@derived(samples=each((real, 2, 1), (mask, 4, 2, 3)))
def expand_as(x, other):
    """x repeated, without a copy, to the shape of `other`."""
    return broadcast_to(x, other.shape)


@derived(samples=each((real, 2, 1), (real, 3)) | each((real,), (real, 2, 2)))
def broadcast_tensors(*tensors):
    """Tensors repeated, without a copy, to the shape in which they all meet."""
    given = [as_tensor(x) for x in tensors]
    shape = np.broadcast_shapes(*[x.shape for x in given])
    return tuple(broadcast_to(x, shape) for x in given)


# ---------------------------------------------------------------- windows


@derived(samples=each((real, 5), 0, 3, 1) | each((real, 2, 5), 1, 2, 2) | each((real, 3, 2), -2, 1, 1))
def windows_along(x, dimension, size, step):
    """Windows of `size` elements, `step` apart, along an axis; the elements of a window are the last axis."""
    dim = axis_of(dimension, x.ndim)
    n = x.shape[dim] if x.ndim else 1
    if not 0 <= size <= n or step < 1:
        raise OptionError(
            f"windows of {size} elements, {step} apart, along axis {dim}, which has {n}.\n"
            f"size is from 0 to {n}, step at least 1."
        )
    if not x.ndim:
        return view_as_shape(x, (1,))[:size]
    windows = sliding_windows(movedim(x, dim, -1), (size,), (step,), ((0, 0),), (1,))
    return movedim(windows, -2, dim)


# ---------------------------------------------------------------- a copy where memory asks for one


@derived(samples=each((real, 2, 3)))
def contiguous(x):
    """x itself where its memory is in row order, otherwise a copy that is."""
    return x if as_tensor(x).array.flags.c_contiguous else in_row_order(x)


@differentiable(public_name="contiguous", samples=each((real, 2, 3)), latex="g", flops=nothing)
def in_row_order(x, /):
    """A copy of x whose memory is in row order."""
    return namespace(x).copy(x, order="C"), (lambda g: g,)


# PyTorch's other names
view, view_as, swapaxes, swapdims, moveaxis = reshape, reshape_as, transpose, transpose, movedim
