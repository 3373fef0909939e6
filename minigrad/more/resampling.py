"""Resizing images, and moving elements between channels and positions; exported by `nn.functional`.

Every interpolation is linear and is applied axis by axis, as a product with a matrix whose row i holds the
weights of the old elements in the new element i.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.dtypes import float32, uint8
from ..core.errors import OptionError, ShapeError
from ..core.op import derived
from ..core.tensor import as_tensor
from ..ops.axes import as_floating
from ..ops.samplers import cases, real
from ..ops.selection import index_select
from .pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, along_axis
from .windows import per_axis

__family__ = "convolution"
__all__ = [
    "channel_shuffle", "interpolate", "pixel_shuffle", "pixel_unshuffle", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip

NEAREST = ("nearest", "nearest-exact")

SMOOTH = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}  # number of axes

AVERAGES = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


@derived(
    exact_in_half="gpu",
    samples=cases((real, 1, 2, 3), 5)
    | cases((real, 1, 1, 3, 2), None, 2.0, "nearest-exact")
    | cases((real, 2, 1, 3), 4, None, "linear")
    | cases((real, 1, 1, 3, 2), (4, 3), None, "bilinear", True)
    | cases((real, 1, 1, 3, 4), (2, 5), None, "bicubic", False)
    | cases((real, 1, 1, 3, 4), (2, 3), None, "bilinear", antialias=True)
    | cases((real, 1, 1, 2, 1, 2), None, (1.5, 2, 2), "trilinear")
    | cases((real, 1, 1, 5), 2, None, "area"),
)
def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resize (N, C, ...) to `size`, or by `scale_factor`; both may be one number or one for each axis.

    `mode`: "nearest" (as in early PyTorch) or "nearest-exact", "linear" for one axis, "bilinear" and
    "bicubic" (Keys 1981 with a = -0.75, or -0.5 with `antialias`) for two, "trilinear" for three, "area"
    (averages). If `align_corners` is True, the centres of the corner elements are aligned, otherwise the
    outer edges. `antialias` widens the weights when downsampling.
    """
    x = as_tensor(input)
    if mode in ("bilinear", "bicubic") and x.dtype == uint8:  # an image
        y = interpolate(
            x.to(float32), size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
        )
        return y.round().clamp(0, 255).to(uint8)
    if mode not in NEAREST:
        x = as_floating(x)
    n = x.ndim - 2
    if n not in AVERAGES or SMOOTH.get(mode, n) != n:
        raise ShapeError(
            f'interpolate got shape {x.shape} with mode "{mode}".\n'
            f"Pass (N, C, ...): 3 axes for linear, 4 for bilinear and bicubic, 5 for trilinear."
        )
    _check_mode(mode, align_corners, antialias)
    sizes, scales = _target_size(x.shape[2:], size, scale_factor, recompute_scale_factor)
    if mode == "area":
        return AVERAGES[n](x, sizes)
    for axis, (length, count, scale) in enumerate(zip(x.shape[2:], sizes, scales, strict=True), 2):
        if mode in NEAREST:
            if mode == "nearest" and n == 2 and count in (length, 2 * length):
                scale = None  # as in PyTorch, for images only
            x = index_select(x, axis, _nearest(mode, length, count, scale))
        else:
            x = along_axis(x, axis, _weights(mode, length, count, scale, align_corners, antialias))
    return x


@derived(exact_in_half="gpu", samples=cases((real, 1, 1, 2, 2), scale_factor=2))
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Call `interpolate`, under its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@derived(exact_in_half=True, samples=cases((real, 1, 1, 2, 2), scale_factor=2))
def upsample_nearest(input, size=None, scale_factor=None):
    """Call `interpolate` with mode="nearest"."""
    return interpolate(input, size, scale_factor)


@derived(exact_in_half="gpu", samples=cases((real, 1, 1, 2, 2), (3, 4)))
def upsample_bilinear(input, size=None, scale_factor=None):
    """Call `interpolate` with mode="bilinear" and align_corners=True."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def _check_mode(mode, align_corners, antialias):
    if mode not in SMOOTH and mode not in (*NEAREST, "area"):
        known = ", ".join(map(repr, (*NEAREST, *SMOOTH, "area")))
        raise OptionError(f"mode must be one of {known}, got {mode!r}.\nChoose one of them.")
    if align_corners is not None and mode not in SMOOTH:
        raise OptionError(f'mode "{mode}" has no corners to align.\nLeave align_corners out.')
    if antialias and (mode not in ("bilinear", "bicubic") or align_corners):
        raise OptionError("antialias needs mode bilinear or bicubic without align_corners.\nLeave it out.")


def _target_size(old, size, scale_factor, recompute):
    """The new size, and for each axis the given scale, or None if it follows from the sizes."""
    n = len(old)
    if (size is None) == (scale_factor is None):
        raise OptionError("interpolate takes either size or scale_factor.\nPass one of them.")
    if size is not None:
        return per_axis("size", size, n), (None,) * n
    factors = tuple(scale_factor) if isinstance(scale_factor, tuple | list) else (scale_factor,) * n
    if len(factors) != n or min(factors) <= 0:
        raise OptionError(
            f"scale_factor must be {n} positive numbers or one, got {scale_factor!r}.\nPass either."
        )
    sizes = tuple(math.floor(length * factor) for length, factor in zip(old, factors, strict=True))
    return per_axis("size", sizes, n), (None,) * n if recompute else factors


def _nearest(mode, length, count, scale):
    """The index of the old element for each new one, computed in float32 like PyTorch."""
    step = np.float32(length / count if scale is None else 1 / scale)
    middle = np.float32(0.5 if mode == "nearest-exact" else 0)
    places = np.floor((np.arange(count, dtype=np.float32) + middle) * step).astype(np.int64)
    return np.minimum(places, length - 1)


def _weights(mode, length, count, scale, align_corners, antialias):
    """The matrix (count, length) of weights."""
    cubic = mode == "bicubic"
    if align_corners:
        step = (length - 1) / (count - 1) if count > 1 else 0.0
        places = np.arange(count) * step
    else:
        step = length / count if scale is None else 1 / scale
        places = (np.arange(count) + 0.5) * step - 0.5
    if antialias:
        return _wide_weights(places, length, max(step, 1.0), _cubic(-0.5) if cubic else _triangle)
    if not cubic:
        places = places.clip(0, length - 1) if count != length else np.arange(length)
    curve, reach = (_cubic(-0.75), 2) if cubic else (_triangle, 1)
    first = np.floor(places).astype(np.int64)
    matrix = np.zeros((count, length))
    for offset in range(1 - reach, reach + 1):
        place = first + offset
        np.add.at(matrix, (np.arange(count), place.clip(0, length - 1)), curve(places - place))
    return matrix


def _wide_weights(places, length, width, curve):
    """Weights from a curve stretched by `width`, cut off at the ends and normalized to sum to 1."""
    weights = curve((np.arange(length) - places[:, None]) / width)
    return weights / weights.sum(1, keepdims=True)


def _triangle(t):
    return np.maximum(1 - np.abs(t), 0)


def _cubic(a):
    """Keys' cubic kernel: smooth, 1 at 0, 0 at all other integers and beyond 2."""

    def curve(t):
        t = np.abs(t)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0.0))

    return curve


# ---------------------------------------------------------------- channels and positions


@derived(exact_in_half=True, samples=cases((real, 4, 1, 2), 2) | cases((real, 2, 9, 1, 1), 3))
def pixel_shuffle(input, upscale_factor):
    """Rearrange channels to pixels: (..., C r², H, W) -> (..., C, H r, W r) (Shi et al. 2016)."""
    x = as_tensor(input)
    r = upscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle by {r} got shape {x.shape}.\nPass (..., C * {r * r}, H, W).")
    *lead, channels, h, w = x.shape
    n = len(lead)
    x = x.reshape(*lead, channels // (r * r), r, r, h, w).permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*lead, channels // (r * r), h * r, w * r)


@derived(exact_in_half=True, samples=cases((real, 1, 2, 4), 2) | cases((real, 2, 1, 3, 3), 3))
def pixel_unshuffle(input, downscale_factor):
    """Rearrange pixels to channels: (..., C, H r, W r) -> (..., C r², H, W)."""
    x = as_tensor(input)
    r = downscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-2] % r or x.shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle by {r} got shape {x.shape}.\nPass (..., C, H * {r}, W * {r}).")
    *lead, channels, h, w = x.shape
    n = len(lead)
    x = x.reshape(*lead, channels, h // r, r, w // r, r).permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return x.reshape(*lead, channels * r * r, h // r, w // r)


@derived(exact_in_half=True, samples=cases((real, 1, 4, 2), 2) | cases((real, 2, 6, 1, 1), 3))
def channel_shuffle(input, groups):
    """Interleave the groups of channels (axis 1): channel j of group i moves to index j * groups + i."""
    x = as_tensor(input)
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle by {groups} groups got shape {x.shape}.\nPass (N, C * {groups}, ...)."
        )
    dealt = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]).transpose(1, 2)
    return dealt.reshape(x.shape)
