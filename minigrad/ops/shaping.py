"""Views and rearrangements: the same numbers in another shape. A gradient takes the way back."""

from __future__ import annotations

import math

import numpy as np

from ..errors import DtypeError, OptionError, ShapeError
from ..tensor import as_tensor
from .axes import axes_of, axis_of
from .namespace import namespace
from .record import differentiable, made_of_ops

__all__ = [
    "broadcast_to", "cat", "chunk", "concat", "expand", "expand_as", "flatten", "flip", "permute",
    "repeat", "repeat_interleave", "reshape", "split", "squeeze", "stack", "swapaxes", "transpose",
    "tril", "triu", "unbind", "unflatten", "unsqueeze", "view",
]  # fmt: skip


def _sizes(shape):
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` are the same."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else tuple(shape)


@differentiable(view=True)
def view_as_shape(x, /, shape):
    """x in another shape of as many elements, in the order of its elements (row by row)."""
    before = x.shape
    return x.reshape(shape), (lambda g: g.reshape(before),)


@made_of_ops
def reshape(x, *shape):
    """x in another shape of as many elements; one of the sizes may be -1."""
    return view_as_shape(x, _sizes(shape))


view = reshape


@differentiable(view=True)
def permute_axes(x, /, dims):
    """x with axis dims[i] in place i."""
    back = tuple(np.argsort([axis_of(d, x.ndim) for d in dims]).tolist())
    xp = namespace(x)
    return xp.permute_dims(x, dims), (lambda g: xp.permute_dims(g, back),)


@made_of_ops
def permute(x, *dims):
    """x with axis dims[i] in place i."""
    return permute_axes(x, _sizes(dims))


@differentiable(view=True)
def transpose(x, /, dim0, dim1):
    """x with two axes exchanged."""
    dim0, dim1 = axis_of(dim0, x.ndim), axis_of(dim1, x.ndim)
    return x.swapaxes(dim0, dim1), (lambda g: g.swapaxes(dim0, dim1),)


@made_of_ops
def squeeze(x, dim=None):
    """x without its axes of length 1, or without those of them that `dim` names."""
    axes = axes_of(dim, x.ndim)
    return view_as_shape(x, tuple(n for i, n in enumerate(x.shape) if n != 1 or i not in axes))


@made_of_ops
def unsqueeze(x, dim):
    """x with an axis of length 1 put in place `dim`."""
    x = as_tensor(x)
    place = axis_of(dim, x.ndim + 1)
    return view_as_shape(x, (*x.shape[:place], 1, *x.shape[place:]))


@made_of_ops
def flatten(x, start_dim=0, end_dim=-1):
    """The axes from `start_dim` to `end_dim` as one."""
    first, last = axis_of(start_dim, x.ndim), axis_of(end_dim, x.ndim)
    return view_as_shape(x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@made_of_ops
def unflatten(x, dim, sizes):
    """The axis `dim` as several of the given sizes, one of which may be -1."""
    dim = axis_of(dim, x.ndim)
    return view_as_shape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


@differentiable(view=True)
def broadcast_to(x, /, shape):
    """x repeated, without a copy, to a shape that it broadcasts to; the gradient adds the repetitions up."""
    return namespace(x).broadcast_to(x, shape), (lambda g: g,)


@made_of_ops
def expand(x, *shape):
    """x repeated along its axes of length 1, without a copy; -1 keeps an axis as it is."""
    sizes = _sizes(shape)
    new = len(sizes) - x.ndim
    return broadcast_to(
        x, tuple(x.shape[i - new] if n == -1 and i >= new else n for i, n in enumerate(sizes))
    )


@made_of_ops
def expand_as(x, other):
    """x repeated, without a copy, to the shape of `other`."""
    return broadcast_to(x, other.shape)


@made_of_ops
def repeat(x, *sizes):
    """x copied sizes[i] times along axis i, as tiles; sizes beyond its axes make new ones in front."""
    sizes = _sizes(sizes)
    shape = (1,) * (len(sizes) - x.ndim) + tuple(x.shape)
    if len(shape) != len(sizes):
        raise ShapeError(f"repeat of {sizes} along the axes of {shape}.\nGive a number for each axis.")
    spread = broadcast_to(
        view_as_shape(x, [m for n in shape for m in (1, n)]),
        [m for r, n in zip(sizes, shape, strict=True) for m in (r, n)],
    )
    return view_as_shape(spread, [r * n for r, n in zip(sizes, shape, strict=True)])


@made_of_ops
def repeat_interleave(x, repeats, dim):
    """x with each slice along `dim` repeated `repeats` times in a row."""
    dim = axis_of(dim, x.ndim)
    spread = unsqueeze(x, dim + 1)
    spread = broadcast_to(spread, (*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :]))
    return flatten(spread, dim, dim + 1)


@differentiable
def concatenate(*xs, dim=0):
    """Tensors one behind another along an axis that they have."""
    dim = axis_of(dim, xs[0].ndim)
    ends = np.cumsum([x.shape[dim] for x in xs]).tolist()
    starts = [0, *ends[:-1]]
    lead = (slice(None),) * dim
    take = lambda start, end: lambda g: g[(*lead, slice(start, end))]
    return namespace(xs[0]).concat(xs, axis=dim), tuple(take(s, e) for s, e in zip(starts, ends, strict=True))


@made_of_ops
def cat(tensors, dim=0):
    """Tensors one behind another along an axis that they have."""
    return concatenate(*tensors, dim=dim)


@made_of_ops
def stack(tensors, dim=0):
    """Tensors of one shape, one behind another along a new axis."""
    return concatenate(*[unsqueeze(x, dim) for x in tensors], dim=dim)


@made_of_ops
def split(x, split_size, dim=0):
    """Pieces of length `split_size` along an axis (the last may be shorter), or of the lengths given."""
    x = as_tensor(x)
    dim = axis_of(dim, x.ndim)
    n = x.shape[dim]
    if isinstance(split_size, int):
        if split_size < 1:
            raise OptionError(f"pieces of length {split_size}.\nA piece has at least one element.")
        split_size = [split_size] * (n // split_size) + [n % split_size] * (n % split_size > 0) or [0]
    if sum(split_size) != n:
        raise ShapeError(
            f"pieces of lengths {list(split_size)} make {sum(split_size)}, but the axis has {n}.\n"
            f"Give lengths that add up to {n}."
        )
    return pieces(x, tuple(split_size), dim)


@made_of_ops
def chunk(x, chunks, dim=0):
    """At most `chunks` pieces of equal length (the last may be shorter)."""
    return split(x, max(-(-x.shape[axis_of(dim, x.ndim)] // chunks), 1), dim)


@made_of_ops
def unbind(x, dim=0):
    """The slices of x along an axis, one by one."""
    return tuple(squeeze(piece, dim) for piece in split(x, 1, dim))


@differentiable(view=True)
def pieces(x, /, sizes, dim):
    """x cut along an axis into pieces of the given sizes: one node, several results."""
    dim %= x.ndim
    ends = np.cumsum(sizes).tolist()
    lead = (slice(None),) * dim
    shapes = [(*x.shape[:dim], n, *x.shape[dim + 1 :]) for n in sizes]
    dtype = x.dtype

    def gradient(gs, needs):
        parts = [np.zeros(s, dtype) if g is None else g for g, s in zip(gs, shapes, strict=True)]
        like = next(g for g in gs if g is not None)
        return (namespace(like).concat(parts, axis=dim),)

    return tuple(x[(*lead, slice(e - n, e))] for n, e in zip(sizes, ends, strict=True)), gradient


@differentiable
def flip(x, /, dim):
    """x with the order along `dim` (one axis or several) reversed."""
    xp = namespace(x)
    return xp.copy(xp.flip(x, axis=dim)), (lambda g: xp.flip(g, axis=dim),)


@differentiable
def tril(x, /, diagonal=0):
    """The lower triangle of each matrix, zero above the diagonal."""
    xp = _of_matrices(x, diagonal)
    return xp.tril(x, diagonal), (lambda g: xp.tril(g, diagonal),)


@differentiable
def triu(x, /, diagonal=0):
    """The upper triangle of each matrix, zero below the diagonal."""
    xp = _of_matrices(x, diagonal)
    return xp.triu(x, diagonal), (lambda g: xp.triu(g, diagonal),)


def _of_matrices(x, diagonal):
    if not isinstance(diagonal, int | np.integer):
        raise DtypeError(f"a diagonal is a whole number, got {diagonal!r}.\nThe main one is 0.")
    if x.ndim < 2:
        raise ShapeError(f"a triangle of a tensor with {x.ndim} axes.\nGive a matrix, or a batch of them.")
    return namespace(x)


concat, swapaxes = cat, transpose  # PyTorch's other names
