"""Tensors put together and taken apart along an axis, repeated, turned and rolled."""

from __future__ import annotations

import itertools

import numpy as np

from ..devices import beside, result_type
from ..errors import OptionError, ShapeError
from ..tensor import as_tensor
from ..versions import root
from .axes import axes_of, axis_of
from .costs import nothing
from .indexing import getitem, index_select
from .namespace import namespace
from .op import derived, differentiable
from .samplers import each, real, whole
from .shaping import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_to,
    flatten,
    ravel,
    sizes_of,
    transpose,
    unsqueeze,
    view_as_shape,
)

__family__ = "shape"

__all__ = [
    "cartesian_prod", "cat", "chunk", "column_stack", "combinations", "concat", "concatenate", "dsplit",
    "dstack", "flip", "fliplr", "flipud", "hsplit", "hstack", "meshgrid", "repeat", "repeat_interleave",
    "roll", "rot90", "split", "split_with_sizes", "stack", "tensor_split", "tile", "unbind",
    "vsplit", "vstack",
]  # fmt: skip

_SOME = [(real, 2, 3), (real, 2, 3)]


# ---------------------------------------------------------------- together


@differentiable(
    public_name="cat",
    samples=each((real, 2, 3), (real, 1, 3), (real, 2, 3))
    | each((real, 2, 3), (real, 2, 0), dim=-1)
    | each((real, 3)),
    latex=r"g_{\text{its part}}",
    flops=nothing,
)
def joined(*xs, dim=0):
    """Tensors one behind another along an axis that they have."""
    dim = axis_of(dim, xs[0].ndim)
    ends = list(itertools.accumulate(x.shape[dim] for x in xs))
    lead = (slice(None),) * dim
    take = lambda start, end: lambda g: g[(*lead, slice(start, end))]
    gradients = tuple([take(s, e) for s, e in zip([0, *ends], ends, strict=False)])
    try:
        return namespace(xs[0]).concat(xs, axis=dim), gradients
    except ValueError:
        _refuse_misfits([x.shape for x in xs], dim)
        raise


@derived(samples=each(_SOME) | each([(real, 2, 3), (real, 2, 1)], -1) | each([(real, 0), (real, 2, 2)]))
def cat(tensors, dim=0):
    """Tensors one behind another along an axis that they have; empty vectors count for nothing."""
    tensors = list(map(as_tensor, tensors))
    filled = [x for x in tensors if x.array.shape != (0,)]
    if not filled or len(filled) == len(tensors):
        return joined(*tensors, dim=dim)
    return joined(*filled, dim=dim).to(result_type(*tensors))


def _refuse_misfits(shapes, axis):
    first = shapes[0]
    if () in shapes:
        raise ShapeError("numbers have no axis to be joined along.\nUse mg.stack.")
    for i, shape in enumerate(shapes):
        if shape != first and (
            len(shape) != len(first) or shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]
        ):
            raise ShapeError(
                f"shapes {first} and {shape} (the first and number {i}) along axis {axis}.\n"
                f"They must be equal in every other axis."
            )


@derived(samples=each(_SOME) | each(_SOME, -1) | each([(real,), (real,)]))
def stack(tensors, dim=0):
    """Tensors of one shape, one behind another along a new axis."""
    tensors = list(map(as_tensor, tensors))
    for x in tensors:
        if x.shape != tensors[0].shape:
            raise ShapeError(f"shapes {tensors[0].shape} and {x.shape}.\nOnly tensors of one shape stack.")
    return joined(*[unsqueeze(x, dim) for x in tensors], dim=dim)


@derived(samples=each([(real, 2), (real, 3)]) | each([(real, 2, 1), (real, 2, 2)]) | each([(real,), (real,)]))
def hstack(tensors):
    """Tensors side by side: along the second axis, vectors along their only one."""
    tensors = atleast_1d(*tensors) if len(tensors) > 1 else [atleast_1d(tensors[0])]
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@derived(samples=each([(real, 3), (real, 2, 3)]) | each([(real,), (real,)]))
def vstack(tensors):
    """Tensors one below another: along the first axis, a vector as a row."""
    return cat([atleast_2d(x) for x in tensors], 0)


@derived(samples=each([(real, 2), (real, 1, 2)]) | each(_SOME))
def dstack(tensors):
    """Tensors one behind another along the third axis."""
    return cat([atleast_3d(x) for x in tensors], 2)


@derived(samples=each([(real, 2), (real, 2, 3)]) | each([(real,), (real,)]))
def column_stack(tensors):
    """Tensors side by side, a vector as a column."""
    tensors = map(as_tensor, tensors)
    return cat([x if x.ndim > 1 else view_as_shape(x, (x.numel(), 1)) for x in tensors], 1)


# ---------------------------------------------------------------- apart


@differentiable(
    public_name="split",
    view=True,
    samples=each((real, 2, 3), (1, 2), 1) | each((real, 2, 3), (1, 0, 1), -2),
    latex=r"\operatorname{cat}(g_1, g_2, \ldots)",
    flops=nothing,
)
def pieces(x, /, sizes, dim):
    """x cut along an axis into pieces of the given sizes: one node, several results."""
    dim %= x.ndim
    ends = list(itertools.accumulate(sizes))
    lead = (slice(None),) * dim
    shapes = [(*x.shape[:dim], n, *x.shape[dim + 1 :]) for n in sizes]
    dtype = x.dtype

    def gradient(gs, needs):
        like = next(g for g in gs if g is not None)
        parts = [
            beside(np.zeros(s, dtype), like) if g is None else g for g, s in zip(gs, shapes, strict=True)
        ]
        return (namespace(like).concat(parts, axis=dim),)

    return tuple([x[(*lead, slice(e - n, e))] for n, e in zip(sizes, ends, strict=True)]), gradient


@derived(samples=each((real, 5, 2), 2) | each((real, 2, 3), [1, 2], 1) | each((real, 2, 3), 4, -1))
def split(x, split_size, dim=0):
    """Pieces of length `split_size` along an axis (the last may be shorter), or of the lengths given."""
    x = as_tensor(x)
    dim, n = _axis_to_cut(x, dim)
    if isinstance(split_size, int):
        if split_size < 1 and (n or split_size < 0):
            raise OptionError(f"pieces of length {split_size}.\nA piece has at least one element.")
        step = max(split_size, 1)
        split_size = [step] * (n // step) + [n % step] * (n % step > 0) or [0]
    if sum(split_size) != n or min(split_size, default=0) < 0:
        raise ShapeError(
            f"pieces of lengths {list(split_size)} make {sum(split_size)}, but axis {dim} has {n}.\n"
            f"Give lengths that add up to {n}."
        )
    return pieces(x, tuple(split_size), dim)


@derived(samples=each((real, 2, 3), [1, 2], 1))
def split_with_sizes(x, split_sizes, dim=0):
    """Pieces of the given lengths along an axis."""
    return split(x, list(split_sizes), dim)


def _axis_to_cut(x, dim):
    """The axis from the front, and its length."""
    if not x.ndim:
        raise ShapeError("a number without axes cannot be cut.\nGive it an axis: x.reshape(1).")
    dim = axis_of(dim, x.ndim)
    return dim, x.shape[dim]


def _refuse_number(pieces):
    if not 1 <= pieces < 2**31:
        raise OptionError(f"{pieces} pieces.\nAsk for at least one, and for no more than memory holds.")


@derived(samples=each((real, 5, 2), 3) | each((real, 2, 3), 2, -1))
def chunk(x, chunks, dim=0):
    """At most `chunks` pieces of equal length (the last may be shorter)."""
    _refuse_number(chunks)
    dim, n = _axis_to_cut(as_tensor(x), dim)
    return split(x, -(-n // chunks), dim) if n else pieces(x, (0,) * chunks, dim)


@derived(samples=each((real, 5, 2), 3) | each((real, 5, 2), (1, 3, 7)) | each((real, 2, 3), (2, 1), -1))
def tensor_split(x, indices_or_sections, dim=0):
    """So many pieces, the first ones longer by one where they are uneven; or a cut before each index."""
    x = as_tensor(x)
    dim, n = _axis_to_cut(x, dim)
    cuts = indices_or_sections
    cuts = cuts.tolist() if hasattr(cuts, "tolist") else cuts
    if isinstance(cuts, int):
        _refuse_number(cuts)
        return pieces(x, tuple(n // cuts + (i < n % cuts) for i in range(cuts)), dim)
    lead = (slice(None),) * dim
    return tuple(getitem(x, (*lead, slice(a, b))) for a, b in zip([0, *cuts], [*cuts, n], strict=True))


@derived(samples=each((real, 2, 4), 2) | each((real, 3), (1,)))
def hsplit(x, indices_or_sections):
    """`tensor_split` along the second axis, of a vector along its only one."""
    return _split_evenly(x, indices_or_sections, 1 if x.ndim > 1 else 0, 1)


@derived(samples=each((real, 4, 2), 2))
def vsplit(x, indices_or_sections):
    """`tensor_split` along the first axis."""
    return _split_evenly(x, indices_or_sections, 0, 2)


@derived(samples=each((real, 1, 2, 4), (1, 2)))
def dsplit(x, indices_or_sections):
    """`tensor_split` along the third axis."""
    return _split_evenly(x, indices_or_sections, 2, 3)


def _split_evenly(x, sections, dim, least):
    if x.ndim < least:
        raise ShapeError(f"a tensor of shape {x.shape}.\nGive at least {least} axes.")
    if isinstance(sections, int) and (sections < 1 or x.shape[dim] % sections):
        raise ShapeError(
            f"{sections} equal pieces of axis {dim}, which has {x.shape[dim]} elements.\n"
            f"Give a number that divides it, or use tensor_split."
        )
    return tensor_split(x, sections, dim)


@differentiable(
    public_name="unbind",
    view=True,
    samples=each((real, 3, 2), 0) | each((real, 2, 3), 1),
    latex=r"\operatorname{stack}(g_1, g_2, \ldots)",
    flops=nothing,
)
def slices(x, /, dim):
    """The slices of x along an axis: one node, several results."""
    shape, dtype = (*x.shape[:dim], 1, *x.shape[dim + 1 :]), x.dtype

    def gradient(gs, needs):
        like = next(g for g in gs if g is not None)
        parts = [beside(np.zeros(shape, dtype), like) if g is None else g.reshape(shape) for g in gs]
        return (namespace(like).concat(parts, axis=dim),)

    lead = (slice(None),) * dim
    return tuple([x[(*lead, i)] for i in range(x.shape[dim])]), gradient


@derived(samples=each((real, 3, 2)) | each((real, 2, 3), -1))
def unbind(x, dim=0):
    """The slices of x along an axis, one by one."""
    x = as_tensor(x)
    dim, n = _axis_to_cut(x, dim)
    return slices(x, dim) if n else ()


# ---------------------------------------------------------------- repeated


@derived(samples=each((real, 2, 3), 2, 2) | each((real, 3), 2, 1, 2) | each((real, 2), 0))
def repeat(x, *sizes):
    """x copied sizes[i] times along axis i, as tiles; sizes beyond its axes make new ones in front."""
    x, sizes = as_tensor(x), sizes_of(sizes)
    shape = (1,) * (len(sizes) - x.ndim) + tuple(x.shape)
    if len(shape) != len(sizes) or min(sizes, default=0) < 0:
        raise ShapeError(f"repeat of {sizes} along the axes of {shape}.\nGive a number for each axis.")
    spread = broadcast_to(
        view_as_shape(x, [m for n in shape for m in (1, n)]),
        [m for r, n in zip(sizes, shape, strict=True) for m in (r, n)],
    )
    tiles = view_as_shape(spread, [r * n for r, n in zip(sizes, shape, strict=True)])
    return tiles.clone() if root(tiles.array) is root(x.array) else tiles


@derived(samples=each((real, 2, 3), 2) | each((real, 3), (2, 1, 2)))
def tile(x, *dims):
    """x copied dims[i] times along axis i; where there are fewer dims than axes they are the last."""
    dims = sizes_of(dims)
    return repeat(x, (1,) * (x.ndim - len(dims)) + tuple(dims))


@derived(samples=each((real, 2, 3), 2, dim=1) | each((real, 2, 3), 2) | each((real, 3), (whole(0, 3), 3), 0))
def repeat_interleave(x, repeats, dim=None, *, output_size=None):
    """x with each slice along `dim` repeated in a row: `repeats` times, or each its own number of times.

    Without `dim`, each element. `output_size` is not needed.
    """
    if dim is None:
        x, dim = ravel(x), 0
    dim = axis_of(dim, x.ndim)
    repeats = as_tensor(repeats).numpy()
    if repeats.dtype.kind not in "iu" or (repeats < 0).any():
        raise OptionError(f"{repeats} repeats.\nGive whole numbers from 0 on.")
    if repeats.size == 1:
        spread = broadcast_to(
            unsqueeze(x, dim + 1), (*x.shape[: dim + 1], repeats.item(), *x.shape[dim + 1 :])
        )
        return flatten(spread, dim, dim + 1)
    if repeats.shape != x.shape[dim : dim + 1]:
        raise ShapeError(
            f"{repeats.shape} repeats of the {x.shape[dim]} slices along axis {dim}.\n"
            f"Give one number, or one for each slice."
        )
    return index_select(x, dim, np.repeat(np.arange(len(repeats)), repeats))


# ---------------------------------------------------------------- turned


@differentiable(
    public_name="flip",
    samples=each((real, 2, 3), 0) | each((real, 2, 3), (0, -1)) | each((real, 2, 3), ()),
    latex=r"\operatorname{flip}(g)",
    flops=nothing,
)
def reversed_along(x, /, dim):
    """x with the order along `dim` (one axis or several) reversed."""
    xp = namespace(x)
    return xp.copy(xp.flip(x, axis=dim)), (lambda g: xp.flip(g, axis=dim),)


@derived(samples=each((real, 2, 3), 0) | each((real, 2, 3), (0, 1)) | each((real, 2, 3), 0, 1))
def flip(x, *dims, dim=None):
    """x with the order along the given axes reversed."""
    chosen = sizes_of(dims) if dim is None else dim
    return reversed_along(x, axes_of(chosen, x.ndim) if chosen != () and x.ndim else ())


@derived(samples=each((real, 2, 3)))
def fliplr(x):
    """x with its columns in reverse order."""
    if x.ndim < 2:
        raise ShapeError(f"a tensor of shape {x.shape} has no columns.\nGive at least 2 axes.")
    return flip(x, 1)


@derived(samples=each((real, 3)))
def flipud(x):
    """x with its rows in reverse order."""
    if not x.ndim:
        raise ShapeError("a number has no rows.\nGive at least 1 axis.")
    return flip(x, 0)


@derived(samples=each((real, 2, 3), 1) | each((real, 2, 3), -1, 1) | each((real, 2, 3), (1, 5), (0, 1)))
def roll(x, shifts, dims=None):
    """x moved on by `shifts` places along its axes, what leaves at the end coming in at the start.

    Without `dims`, all elements as one line.
    """
    if dims is None or dims == ():
        return view_as_shape(roll(ravel(x), shifts, 0), x.shape)
    each_shift, each_dim = (v if isinstance(v, tuple | list) else (v,) for v in (shifts, dims))
    if len(each_shift) != len(each_dim):
        raise ShapeError(f"{len(each_shift)} shifts along {len(each_dim)} axes.\nGive one for each.")
    for shift, d in zip(each_shift, each_dim, strict=True):
        d = axis_of(d, x.ndim)
        n = x.shape[d] if x.ndim else 0
        if n and shift % n:
            x = joined(*pieces(x, (n - shift % n, shift % n), d)[::-1], dim=d)
    return x


@derived(samples=each((real, 2, 3)) | each((real, 2, 3), 2) | each((real, 2, 1, 3), -1, (2, 0)))
def rot90(x, k=1, dims=(0, 1)):
    """x turned k times by 90 degrees, from the first of two axes towards the second."""
    if len(dims) != 2 or x.ndim < 2 or (dims[0] - dims[1]) % x.ndim == 0:
        raise ShapeError(f"a turn from one axis to another by dims={dims}.\nName two different axes.")
    first, second = dims
    if k % 4 == 1:
        return transpose(flip(x, second), first, second)
    if k % 4 == 2:
        return flip(x, (first, second))
    return flip(transpose(x, first, second), second) if k % 4 == 3 else flip(x, ())


# ---------------------------------------------------------------- grids


@derived(samples=each((real, 2), (real, 3)) | each([(real, 2), (real, 3), (real,)], indexing="xy"))
def meshgrid(*tensors, indexing="ij"):
    """The coordinates of a grid: tensor i varies along axis i; with "xy" the first two axes are exchanged."""
    if indexing not in ("ij", "xy"):
        raise OptionError(f'indexing is "ij" or "xy", got {indexing!r}.\nChoose one of them.')
    listed = len(tensors) == 1 and isinstance(tensors[0], tuple | list)
    lines = [ravel(as_tensor(x)) for x in (tensors[0] if listed else tensors)]
    order = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        order[:2] = 1, 0
    shape = [lines[i].numel() for i in order]
    stood = lambda i, x: view_as_shape(x, [n if order[d] == i else 1 for d, n in enumerate(shape)])
    return tuple(broadcast_to(stood(i, x), shape) for i, x in enumerate(lines))


@derived(samples=each((real, 2), (real, 3)) | each((real, 2)))
def cartesian_prod(*tensors):
    """Every choice of one element of each vector, as rows."""
    if len(tensors) == 1:
        return as_tensor(tensors[0])
    return stack([ravel(grid) for grid in meshgrid(*tensors)], -1)


@derived(samples=each((real, 4)) | each((real, 3), 3, True) | each((real, 2), 3))
def combinations(x, r=2, with_replacement=False):
    """Every choice of r elements of a vector, in its order, as rows."""
    x = as_tensor(x)
    if x.ndim != 1 or r < 0:
        raise ShapeError(f"{r} elements out of shape {x.shape}.\nChoose out of a vector.")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(x.numel()), r)), dtype=np.int64)
    return getitem(x, places.reshape(-1, r) if r else np.zeros(0, np.int64))


concat = concatenate = cat  # PyTorch's other names
