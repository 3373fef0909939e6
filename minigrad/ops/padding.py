"""Padding: constant, reflect, replicate and circular."""

from __future__ import annotations

import numpy as np

from ..core.errors import OptionError, ShapeError
from ..core.op import derived
from ..core.tensor import as_tensor
from .creation import full
from .indexing import getitem
from .samplers import cases, real
from .scattering import replaced, scattered

__family__ = "shape"
__exact_in_half__ = True
__all__ = ["constant_pad_nd"]


@derived(
    samples=cases((real, 2, 3), (1, 2)) | cases((real, 2, 3), (1, -1, 0, 2), 3.0) | cases((real, 2), [-1, 0])
)
def constant_pad_nd(x, pad, value=0):
    """Pad x with `value`; pad = (before, after) of the last axis, then of the one before it, and so on.

    Negative padding crops.
    """
    pairs = _pairs(pad, x.ndim)
    crop = tuple(
        slice(max(-before, 0), n - max(-after, 0)) for n, (before, after) in zip(x.shape, pairs, strict=True)
    )
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, pairs, strict=True))
    if min(shape, default=0) < 0:
        raise ShapeError(f"pad={tuple(pad)} crops more of shape {x.shape} than there is.\nCrop less.")
    inner = getitem(x, crop) if min(pad, default=0) < 0 else x
    starts = [max(before, 0) for before, _ in pairs]
    place = tuple(slice(start, start + n) for start, n in zip(starts, inner.shape, strict=True))
    if value == 0:
        return scattered(inner, shape, place)
    return replaced(full(shape, value, inner.dtype, inner.device), inner, place)


def _pairs(pad, ndim):
    """(before, after) of each axis, from PyTorch's flat list that begins with the last axis."""
    if len(pad) % 2 or len(pad) > 2 * ndim:
        raise ShapeError(
            f"pad={tuple(pad)} does not fit a tensor with {ndim} axes.\n"
            f"Pass (before, after) of the last axis, then of the one before it, and so on."
        )
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


MODES = ("constant", "reflect", "replicate", "circular")


def _sources(mode, n, before, after):
    """For each position of a padded axis, the index of its element in the axis of length n."""
    if mode == "circular":  # cropped elements do not wrap around
        first = max(-before, 0)
        last = n - max(-after, 0)
        return first + np.arange(-max(before, 0), last - first + max(after, 0)) % max(last - first, 1)
    places = np.arange(-before, n + after)
    if mode == "replicate":
        return places.clip(0, n - 1)
    return (n - 1) - np.abs((n - 1) - places % max(2 * n - 2, 1))


@derived(
    samples=cases((real, 2, 3), (1, 2), value=1.0)
    | cases((real, 1, 2, 4), (2, 1), mode="reflect")
    | cases((real, 1, 1, 2, 3), (1, 2, 0, 3), mode="replicate")
    | cases((real, 2, 3), (2, -1), mode="circular")
)
def pad(x, pad, mode="constant", value=None):
    """Pad x; pad = (before, after) of the last axis, then of the one before it, and so on.

    `mode` "constant" adds `value` (0), "reflect" mirrors at the edges without repeating them, "replicate"
    repeats the edges, and "circular" continues at the opposite end. Negative padding crops.
    """
    x = as_tensor(x)
    if mode == "constant":
        return constant_pad_nd(x, pad, 0 if value is None else value)
    if mode not in MODES:
        raise OptionError(f"mode must be one of {', '.join(MODES)}, got {mode!r}.\nChoose one of them.")
    if value is not None:
        raise OptionError(f'mode "{mode}" takes no value.\nLeave it out, or pass mode="constant".')
    pairs = _pairs(pad, x.ndim)
    padded = len(pad) // 2
    index: list = [Ellipsis]
    for d in range(x.ndim - padded, x.ndim):
        before, after = pairs[d]
        n = x.shape[d]
        _check_pad_width(mode, d, n, before, after)
        places = _sources(mode, n, before, after)
        index.append(places.reshape(-1, *(1,) * (x.ndim - 1 - d)))
    return getitem(x, tuple(index))


def _check_pad_width(mode, axis, n, before, after):
    most = {"reflect": n - 1, "circular": n}.get(mode)
    if most is not None and max(before, after) > most:
        raise ShapeError(
            f'"{mode}" adds at most {most} elements to axis {axis}, which has {n}; got ({before}, {after}).\n'
            f"Pad less, or in steps."
        )
    if n == 0 or n + before + after < 0:
        raise ShapeError(f"axis {axis} has {n} elements, too few for ({before}, {after}).\nPad less.")
