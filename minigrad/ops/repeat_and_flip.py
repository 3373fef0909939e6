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


# ---------------------------------------------------------------- repeating


@derived(samples=cases((real, 2, 3), 2, 2) | cases((real, 3), 2, 1, 2) | cases((real, 2), 0))
def repeat(x, *sizes):
    """Tile x sizes[i] times along axis i; additional sizes add axes in front."""
    x = as_tensor(x)
    sizes = sizes_of(sizes)
    shape = (1,) * (len(sizes) - x.ndim) + tuple(x.shape)
    if len(shape) != len(sizes) or min(sizes, default=0) < 0:
        raise ShapeError(f"repeat got {sizes} for the axes of {shape}.\nPass a number for each axis.")
    spread = broadcast_to(
        view_as_shape(x, [m for n in shape for m in (1, n)]),
        [m for r, n in zip(sizes, shape, strict=True) for m in (r, n)],
    )
    tiles = view_as_shape(spread, [r * n for r, n in zip(sizes, shape, strict=True)])
    return tiles.clone() if root(tiles.array) is root(x.array) else tiles


@derived(samples=cases((real, 2, 3), 2) | cases((real, 3), (2, 1, 2)))
def tile(x, *dims):
    """Tile x dims[i] times along axis i; if there are fewer dims than axes, they apply to the last axes."""
    dims = sizes_of(dims)
    return repeat(x, (1,) * (x.ndim - len(dims)) + tuple(dims))


@derived(
    samples=cases((real, 2, 3), 2, dim=1) | cases((real, 2, 3), 2) | cases((real, 3), (integers(0, 3), 3), 0)
)
def repeat_interleave(x, repeats, dim=None, *, output_size=None):
    """Repeat each slice along `dim` (without `dim`, each element of the flattened x) `repeats` times.

    `repeats` is a number, or one number for each slice. `output_size` is not needed.
    """
    if dim is None:
        x = ravel(x)
        dim = 0
    dim = axis_of(dim, x.ndim)
    repeats = as_tensor(repeats).numpy()
    total = int(repeats.sum()) * (x.shape[dim] if repeats.size == 1 else 1)
    if output_size not in (None, total):
        raise ShapeError(f"output_size is {output_size}, but the repeats add up to {total}.\nLeave it out.")
    if repeats.dtype.kind not in "iu" or (repeats < 0).any():
        raise OptionError(
            f"repeats must be non-negative integers, got {repeats}.\nPass the number of copies."
        )
    if repeats.size == 1:
        spread = broadcast_to(
            unsqueeze(x, dim + 1), (*x.shape[: dim + 1], repeats.item(), *x.shape[dim + 1 :])
        )
        return flatten(spread, dim, dim + 1)
    if repeats.shape != x.shape[dim : dim + 1]:
        raise ShapeError(
            f"repeats must have shape ({x.shape[dim]},) for axis {dim}, got {repeats.shape}.\n"
            f"Pass one number, or one for each slice."
        )
    return index_select(x, dim, np.repeat(np.arange(len(repeats)), repeats))


# ---------------------------------------------------------------- flipping and rolling


@differentiable(
    public_name="flip",
    samples=cases((real, 2, 3), 0) | cases((real, 2, 3), (0, -1)) | cases((real, 2, 3), ()),
    latex=r"\operatorname{flip}(g)",
    flops=zero_flops,
)
def reversed_along(x, /, dims):
    """Reverse the order of elements along the axes `dims`."""
    xp = namespace(x)
    return xp.copy(xp.flip(x, axis=dims)), (lambda g: xp.flip(g, axis=dims),)


@derived(samples=cases((real, 2, 3), 0) | cases((real, 2, 3), (0, 1)) | cases((real, 2, 3), 0, 1))
def flip(x, *dims, dim=None):
    """Reverse the order of elements along the given axes."""
    if dims == () and dim is None:
        raise DtypeError(
            f"flip needs the axes to reverse.\nUse x.flip(0), or for all axes x.flip(*range({x.ndim}))."
        )
    if dims != () and dim is not None:
        raise OptionError(f"flip got the axes {dims} and dim={dim}.\nPass them once.")
    chosen = sizes_of(dims) if dim is None else dim
    return reversed_along(x, axes_of(chosen, x.ndim) if chosen != () and x.ndim else ())


@derived(samples=cases((real, 2, 3)))
def fliplr(x):
    """Reverse the order of the columns (axis 1)."""
    if x.ndim < 2:
        raise ShapeError(f"fliplr needs at least 2 axes, got shape {x.shape}.\nUse x.flip(0).")
    return flip(x, 1)


@derived(samples=cases((real, 3)))
def flipud(x):
    """Reverse the order of the rows (axis 0)."""
    if not x.ndim:
        raise ShapeError("flipud needs at least 1 axis, got a 0-d tensor.\nPass a vector.")
    return flip(x, 0)


@derived(samples=cases((real, 2, 3), 1) | cases((real, 2, 3), -1, 1) | cases((real, 2, 3), (1, 5), (0, 1)))
def roll(x, shifts, dims: int | Sequence[int] | None = None):
    """Shift x cyclically by `shifts` along `dims`, or without `dims` over the flattened tensor."""
    if dims is None or dims == ():
        return view_as_shape(roll(ravel(x), shifts, 0), x.shape)
    each_shift, each_dim = (v if isinstance(v, tuple | list) else (v,) for v in (shifts, dims))
    if len(each_shift) != len(each_dim):
        raise ShapeError(f"roll got {len(each_shift)} shifts for {len(each_dim)} axes.\nPass one for each.")
    for shift, d in zip(each_shift, each_dim, strict=True):
        d = axis_of(d, x.ndim)
        n = x.shape[d] if x.ndim else 0
        if n and shift % n:
            x = joined(*split(x, (n - shift % n, shift % n), d)[::-1], dim=d)
    return x


@derived(samples=cases((real, 2, 3)) | cases((real, 2, 3), 2) | cases((real, 2, 1, 3), -1, (2, 0)))
def rot90(x, k=1, dims: Sequence[int] = (0, 1)):
    """Rotate x k times by 90 degrees, from the first of two axes towards the second."""
    if len(dims) != 2 or x.ndim < 2 or (dims[0] - dims[1]) % x.ndim == 0:
        raise ShapeError(f"rot90 needs two different axes, got dims={dims}.\nThe default is (0, 1).")
    first, second = dims
    if k % 4 == 1:
        return transpose(flip(x, second), first, second)
    if k % 4 == 2:
        return flip(x, (first, second))
    return flip(transpose(x, first, second), second) if k % 4 == 3 else flip(x, ())
