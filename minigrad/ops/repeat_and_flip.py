"""Repeating, tiling, flipping and rolling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.closures import root
from ..core.costs import zero_flops
from ..core.errors import DtypeError, OptionError, ShapeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from .axes import axes_of, axis_of
from .samplers import cases, integers, real
from .selection import index_select
from .shaping import broadcast_to, flatten, joined, sizes_of, split, transpose, unsqueeze, view_as_shape
from .views import ravel

__family__ = "shape"
__exact_in_half__ = True
__all__ = ["flip", "fliplr", "flipud", "repeat", "repeat_interleave", "roll", "rot90", "tile"]


# ---------------------------------------------------------------- repeated


@derived(samples=cases((real, 2, 3), 2, 2) | cases((real, 3), 2, 1, 2) | cases((real, 2), 0))
def repeat(x, *sizes):
    """x tiled sizes[i] times along axis i; additional sizes add axes in front."""
    x = as_tensor(x)
    sizes = sizes_of(sizes)
    shape = (1,) * (len(sizes) - x.ndim) + tuple(x.shape)
    if len(shape) != len(sizes) or min(sizes, default=0) < 0:
        raise ShapeError(f"repeat of {sizes} along the axes of {shape}.\nGive a number for each axis.")
    spread = broadcast_to(
        view_as_shape(x, [m for n in shape for m in (1, n)]),
        [m for r, n in zip(sizes, shape, strict=True) for m in (r, n)],
    )
    tiles = view_as_shape(spread, [r * n for r, n in zip(sizes, shape, strict=True)])
    return tiles.clone() if root(tiles.array) is root(x.array) else tiles


@derived(samples=cases((real, 2, 3), 2) | cases((real, 3), (2, 1, 2)))
def tile(x, *dims):
    """x copied dims[i] times along axis i; where there are fewer dims than axes they are the last."""
    dims = sizes_of(dims)
    return repeat(x, (1,) * (x.ndim - len(dims)) + tuple(dims))


@derived(
    samples=cases((real, 2, 3), 2, dim=1) | cases((real, 2, 3), 2) | cases((real, 3), (integers(0, 3), 3), 0)
)
def repeat_interleave(x, repeats, dim=None, *, output_size=None):
    """x with each slice along `dim` repeated in a row: `repeats` times, or each its own number of times.

    Without `dim`, each element. `output_size` is not needed.
    """
    if dim is None:
        x = ravel(x)
        dim = 0
    dim = axis_of(dim, x.ndim)
    repeats = as_tensor(repeats).numpy()
    total = int(repeats.sum()) * (x.shape[dim] if repeats.size == 1 else 1)
    if output_size not in (None, total):
        raise ShapeError(f"output_size is {output_size}, but the repeats make {total}.\nLeave it out.")
    if repeats.dtype.kind not in "iu" or (repeats < 0).any():
        raise OptionError(f"{repeats} repeats.\nGive integers from 0 on.")
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
    samples=cases((real, 2, 3), 0) | cases((real, 2, 3), (0, -1)) | cases((real, 2, 3), ()),
    latex=r"\operatorname{flip}(g)",
    flops=zero_flops,
)
def reversed_along(x, /, dims):
    """x with the order along these axes reversed."""
    xp = namespace(x)
    return xp.copy(xp.flip(x, axis=dims)), (lambda g: xp.flip(g, axis=dims),)


@derived(samples=cases((real, 2, 3), 0) | cases((real, 2, 3), (0, 1)) | cases((real, 2, 3), 0, 1))
def flip(x, *dims, dim=None):
    """x with the order along the given axes reversed."""
    if dims == () and dim is None:
        raise DtypeError(
            f"flip takes the axes to reverse, got none.\nx.flip(0), or all: x.flip(*range({x.ndim}))."
        )
    chosen = sizes_of(dims) if dim is None else dim
    return reversed_along(x, axes_of(chosen, x.ndim) if chosen != () and x.ndim else ())


@derived(samples=cases((real, 2, 3)))
def fliplr(x):
    """x with its columns in reverse order."""
    if x.ndim < 2:
        raise ShapeError(f"a tensor of shape {x.shape} has no columns.\nGive at least 2 axes.")
    return flip(x, 1)


@derived(samples=cases((real, 3)))
def flipud(x):
    """x with its rows in reverse order."""
    if not x.ndim:
        raise ShapeError("a number has no rows.\nGive at least 1 axis.")
    return flip(x, 0)


@derived(samples=cases((real, 2, 3), 1) | cases((real, 2, 3), -1, 1) | cases((real, 2, 3), (1, 5), (0, 1)))
def roll(x, shifts, dims: int | Sequence[int] | None = None):
    """x shifted cyclically by `shifts` along its axes.

    Without `dims`, over the flattened tensor.
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
            x = joined(*split(x, (n - shift % n, shift % n), d)[::-1], dim=d)
    return x


@derived(samples=cases((real, 2, 3)) | cases((real, 2, 3), 2) | cases((real, 2, 1, 3), -1, (2, 0)))
def rot90(x, k=1, dims: Sequence[int] = (0, 1)):
    """x rotated k times by 90 degrees, from the first of two axes towards the second."""
    if len(dims) != 2 or x.ndim < 2 or (dims[0] - dims[1]) % x.ndim == 0:
        raise ShapeError(f"a turn from one axis to another by dims={dims}.\nName two different axes.")
    first, second = dims
    if k % 4 == 1:
        return transpose(flip(x, second), first, second)
    if k % 4 == 2:
        return flip(x, (first, second))
    return flip(transpose(x, first, second), second) if k % 4 == 3 else flip(x, ())
