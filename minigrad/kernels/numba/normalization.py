"""Layer normalization and RMS normalization, a row at a time while it is in the cache."""

from __future__ import annotations

import math

import numpy as np

from ...core.kernels import kernel
from ...ops import normalization as ops
from .arrays import contiguous, is_float32
from .mathematics import F, accumulate, loop

ROWS = 64  # rows summed in float32 before the sum is added to one in float64
# A mean square out of this range may have overflowed or lost digits in float32: it is recomputed in float64.
LEAST, MOST = F(1e-26), F(1e36)


@kernel(ops.layer_norm, "numba")
def layer_norm(x, weight, bias, normalized_shape, eps):
    if not is_float32(x, weight, bias) or not x.size or math.prod(normalized_shape) == 1:
        # the gradient of rows with one element must be exactly 0
        return None
    shape = x.shape
    size = math.prod(normalized_shape)
    rows = contiguous(x).reshape(-1, size)
    scale = np.ones(size, F) if weight is None else contiguous(weight).reshape(size)
    shift = np.zeros(size, F) if bias is None else contiguous(bias).reshape(size)
    y = np.empty_like(rows)
    moments = np.empty((len(rows), 3), F)
    _layer_norm(rows, scale, shift, F(eps), y, moments)

    def gradient(g, needs):
        flat = contiguous(g).reshape(rows.shape)
        dx = np.empty_like(rows)
        d_scale = np.zeros(size, np.float64)
        d_shift = np.zeros(size, np.float64)
        _layer_norm_backward(rows, scale, moments, flat, dx, d_scale, d_shift)
        return (
            dx.reshape(shape) if needs[0] else None,
            d_scale.astype(F).reshape(weight.shape) if needs[1] else None,
            d_shift.astype(F).reshape(bias.shape) if needs[2] else None,
        )

    return y.reshape(shape), gradient


@loop
def _in_float64(row, eps):
    """The row's centre c, mean(x - c) and 1 / sqrt(var + eps), computed in float64."""
    total, rest, square = 0.0, 0.0, 0.0
    for j in range(row.size):
        total += row[j]
    centre = F(total / row.size)
    for j in range(row.size):
        rest += np.float64(row[j]) - centre
    rest /= row.size
    for j in range(row.size):
        d = np.float64(row[j]) - centre - rest
        square += d * d
    return centre, F(rest), F(1 / np.sqrt(square / row.size + eps))


@loop
def _layer_norm(x, scale, shift, eps, y, moments):
    """h = (x - mean) / sqrt(var + eps), y = h * scale + shift.

    A mean rounded to float32 is not exact enough if it is much larger than the deviations from it. So the
    mean is centre + rest (the corrected two-pass algorithm of Chan, Golub and LeVeque 1983, "Algorithms for
    computing the sample variance"), and h = (x - centre) * inverse + offset. `moments` stores centre, inverse
    and offset for each row.
    """
    size = x.shape[1]
    share = F(1) / F(x.shape[1])
    for i in range(x.shape[0]):
        total = F(0)
        for j in range(size):
            total = accumulate(total, x[i, j])
        centre = total * share
        rest = square = F(0)
        for j in range(size):
            d = x[i, j] - centre
            rest = accumulate(rest, d)
            square = accumulate(square, d * d)
        rest *= share
        variance = square * share - rest * rest
        inverse = F(1) / np.sqrt(variance + eps)
        if not (LEAST < variance + eps < MOST and rest * rest <= variance):
            centre, rest, inverse = _in_float64(x[i], eps)
        offset = -rest * inverse
        moments[i, 0] = centre
        moments[i, 1] = inverse
        moments[i, 2] = offset
        for j in range(size):
            y[i, j] = ((x[i, j] - centre) * inverse + offset) * scale[j] + shift[j]


@loop
def _layer_norm_backward(x, scale, moments, g, dx, d_scale, d_shift):
    """With u = g * scale: dx = (u - mean(u) - h mean(u h)) / sqrt(var + eps)."""
    size = x.shape[1]
    share = F(1) / F(x.shape[1])
    scales, shifts = np.zeros(size, F), np.zeros(size, F)
    for i in range(x.shape[0]):
        centre = moments[i, 0]
        s = moments[i, 1]
        offset = moments[i, 2]
        total = dot = F(0)
        for j in range(size):
            h = (x[i, j] - centre) * s + offset
            u = g[i, j] * scale[j]
            total = accumulate(total, u)
            dot = accumulate(dot, u * h)
            scales[j] += g[i, j] * h
            shifts[j] += g[i, j]
        total *= s * share
        dot *= s * share
        for j in range(size):
            h = (x[i, j] - centre) * s + offset
            dx[i, j] = g[i, j] * scale[j] * s - total - h * dot
        if (i + 1) % ROWS == 0 or i + 1 == x.shape[0]:
            d_scale += scales
            d_shift += shifts
            scales[:] = F(0)
            shifts[:] = F(0)


@kernel(ops.rms_norm, "numba")
def rms_norm(x, weight, normalized_shape, eps):
    if not is_float32(x, weight) or not x.size:
        return None
    shape = x.shape
    size = math.prod(normalized_shape)
    rows = contiguous(x).reshape(-1, size)
    scale = np.ones(size, F) if weight is None else contiguous(weight).reshape(size)
    y = np.empty_like(rows)
    inverse = np.empty(len(rows), F)
    _rms_norm(rows, scale, F(eps), y, inverse)

    def gradient(g, needs):
        flat = contiguous(g).reshape(rows.shape)
        dx = np.empty_like(rows)
        d_scale = np.zeros(size, np.float64)
        _rms_norm_backward(rows, scale, inverse, flat, dx, d_scale)
        d_weight = d_scale.astype(F).reshape(weight.shape) if needs[1] else None
        return dx.reshape(shape) if needs[0] else None, d_weight

    return y.reshape(shape), gradient


@loop
def _root_in_float64(row, eps):
    """1 / sqrt(mean(x**2) + eps)."""
    square = 0.0
    for j in range(row.size):
        square += np.float64(row[j]) * row[j]
    return F(1 / np.sqrt(square / row.size + eps))


@loop
def _rms_norm(x, scale, eps, y, inverse):
    """x / sqrt(mean(x**2) + eps) * scale."""
    size = x.shape[1]
    share = F(1) / F(x.shape[1])
    for i in range(x.shape[0]):
        square = F(0)
        for j in range(size):
            square = accumulate(square, x[i, j] * x[i, j])
        square = square * share + eps
        s = F(1) / np.sqrt(square) if LEAST < square < MOST else _root_in_float64(x[i], eps)
        inverse[i] = s
        for j in range(size):
            y[i, j] = x[i, j] * s * scale[j]


@loop
def _rms_norm_backward(x, scale, inverse, g, dx, d_scale):
    """With h the normalized x and u = g * scale: dx = (u - h mean(u h)) / sqrt(mean(x**2) + eps)."""
    size = x.shape[1]
    share = F(1) / F(x.shape[1])
    scales = np.zeros(size, F)
    for i in range(x.shape[0]):
        s = inverse[i]
        dot = F(0)
        for j in range(size):
            h = x[i, j] * s
            dot = accumulate(dot, g[i, j] * scale[j] * h)
            scales[j] += g[i, j] * h
        dot *= s * share
        for j in range(size):
            dx[i, j] = g[i, j] * scale[j] * s - x[i, j] * s * dot
        if (i + 1) % ROWS == 0 or i + 1 == x.shape[0]:
            d_scale += scales
            scales[:] = F(0)
