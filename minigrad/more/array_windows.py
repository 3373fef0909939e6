"""Windows over the last axes, and convolution as matrix products of windows with a kernel ("im2col").

Element k of a window along an axis is at index position * stride + k * dilation of the padded axis.
`padding` is a pair (before, after) for each axis, the numbers of zeros to add; a negative `after` leaves out
elements at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from numpy import ndindex

from ..core.devices import array_module
from ..core.dtypes import HALF, float32
from ..ops.linalg import matmul_arrays


def _last(slices: Iterable[Any]) -> Any:
    """An index that applies these slices to the last axes."""
    return (..., *slices)


def sliding_windows(x, kernel, stride, padding, dilation):
    """(..., *size) -> (..., *positions, *kernel): a view of x, or of a zero-padded copy."""
    n = len(kernel)
    x = x[_last(slice(None, min(after, 0) or None) for _, after in padding)]
    if any(map(any, padding)):
        x = array_module(x).pad(
            x, [(0, 0)] * (x.ndim - n) + [(before, max(after, 0)) for before, after in padding]
        )
    spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    every = array_module(x).lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(-n, 0)))
    return every[_last(slice(None, None, step) for step in (*stride, *dilation))]


def overlap_add(g, size, stride, padding, dilation):
    """(..., *positions, *kernel) -> (..., *size): add up the elements of windows at their indices."""
    n = len(size)
    lead = g.shape[: -2 * n]
    positions = g.shape[-2 * n : -n]
    kernel = g.shape[-n:]
    padded = tuple(
        before + length + max(after, 0) for length, (before, after) in zip(size, padding, strict=True)
    )
    out = array_module(g).zeros((*lead, *padded), float32 if g.dtype in HALF else g.dtype)
    steps = list(zip(positions, stride, dilation, strict=True))
    for place in ndindex(kernel):
        to = [slice(k * d, k * d + s * (p - 1) + 1, s) for k, (p, s, d) in zip(place, steps, strict=True)]
        out[_last(to)] += g[_last(place)]
    out = out.astype(g.dtype, copy=False)
    if padded == tuple(size):
        return out
    inner = (slice(before, before + length) for length, (before, _) in zip(size, padding, strict=True))
    return array_module(g).ascontiguousarray(out[_last(inner)])


def _columns(x, kernel, stride, padding, dilation, groups):
    """The windows of x (N, C, *size) as (N, groups, C / groups, *kernel, *positions)."""
    n = len(kernel)
    cut = sliding_windows(x, kernel, stride, padding, dilation)
    cut = cut.reshape(len(x), groups, x.shape[1] // groups, *cut.shape[2:])
    return array_module(x).moveaxis(cut, tuple(range(-n, 0)), tuple(range(3, 3 + n)))


def convolution(x, w, stride, padding, dilation, groups):
    """y[n, o, i] = sum of x[n, c, i * stride + k * dilation] w[o, c, k] over c and k, a product per image."""
    columns = _columns(x, w.shape[2:], stride, padding, dilation, groups)
    positions = columns.shape[-(w.ndim - 2) :]
    rows = math.prod(w.shape[1:])
    matrix = w.reshape(1, groups, len(w) // groups, rows)
    y = matmul_arrays(matrix, columns.reshape(len(x), groups, rows, math.prod(positions)))
    return y.reshape(len(x), len(w), *positions)


def convolution_input(g, w, size, stride, padding, dilation, groups):
    """x[n, c, i * stride + k * dilation] = sum of g[n, o, i] w[o, c, k] over o, i and k."""
    n = len(size)
    positions = g.shape[2:]
    kernel = w.shape[2:]
    rows = math.prod(w.shape[1:])
    matrix = w.reshape(1, groups, len(w) // groups, rows).swapaxes(-1, -2)
    columns = matmul_arrays(matrix, g.reshape(len(g), groups, len(w) // groups, math.prod(positions)))
    columns = columns.reshape(len(g), groups * w.shape[1], *kernel, *positions)
    windows = array_module(g).moveaxis(columns, tuple(range(2, 2 + n)), tuple(range(-n, 0)))
    return overlap_add(windows, size, stride, padding, dilation)


def convolution_weight(x, g, kernel, stride, padding, dilation, groups):
    """w[o, c, k] = sum of g[n, o, i] x[n, c, i * stride + k * dilation] over n and i, as one product."""
    channels = x.shape[1] // groups
    places = len(x) * math.prod(g.shape[2:])
    moveaxis = array_module(x).moveaxis
    columns = moveaxis(_columns(x, kernel, stride, padding, dilation, groups), 0, 2 + len(kernel))
    columns = columns.reshape(groups, channels * math.prod(kernel), places)
    matrix = moveaxis(g, 0, 1).reshape(groups, g.shape[1] // groups, places)
    return matmul_arrays(matrix, columns.swapaxes(-1, -2)).reshape(g.shape[1], channels, *kernel)
