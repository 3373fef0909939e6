"""Layer normalization, with and without a mean: a row at a time, while it is in the cache."""

from __future__ import annotations

import math

import numpy as np

from .. import cpu
from .arrays import contiguous, is_float32
from .mathematics import F, loop

ROWS = 64  # added up in float32, before that sum is added to one in float64


def layer_norm(x, weight, bias, normalized_shape, eps):
    if not is_float32(x, weight, bias) or not x.size:
        return cpu.layer_norm(x, weight, bias, normalized_shape, eps)
    shape, size = x.shape, math.prod(normalized_shape)
    rows = contiguous(x).reshape(-1, size)
    scale = np.ones(size, F) if weight is None else contiguous(weight).reshape(size)
    shift = np.zeros(size, F) if bias is None else contiguous(bias).reshape(size)
    y, mean, inverse = np.empty_like(rows), np.empty(len(rows), F), np.empty(len(rows), F)
    _layer_norm(rows, scale, shift, F(eps), y, mean, inverse)

    def gradient(g, needs):
        flat = contiguous(g).reshape(rows.shape)
        dx = np.empty_like(rows)
        d_scale, d_shift = np.zeros(size, np.float64), np.zeros(size, np.float64)
        _layer_norm_backward(rows, scale, mean, inverse, flat, dx, d_scale, d_shift)
        return (
            dx.reshape(shape) if needs[0] else None,
            d_scale.astype(F).reshape(weight.shape) if needs[1] else None,
            d_shift.astype(F).reshape(bias.shape) if needs[2] else None,
        )

    return y.reshape(shape), gradient


@loop
def _layer_norm(x, scale, shift, eps, y, mean, inverse):
    """h = (x - mean) / sqrt(var + eps), y = h * scale + shift."""
    size = x.shape[1]
    for i in range(x.shape[0]):
        total = F(0)
        for j in range(size):
            total += x[i, j]
        centre = total / F(size)
        square = F(0)
        for j in range(size):
            square += (x[i, j] - centre) * (x[i, j] - centre)
        mean[i], inverse[i] = centre, F(1) / np.sqrt(square / F(size) + eps)
        for j in range(size):
            y[i, j] = (x[i, j] - centre) * inverse[i] * scale[j] + shift[j]


@loop
def _layer_norm_backward(x, scale, mean, inverse, g, dx, d_scale, d_shift):
    """With u = g * scale: dx = (u - mean(u) - h mean(u h)) / sqrt(var + eps)."""
    size = x.shape[1]
    scales, shifts = np.zeros(size, F), np.zeros(size, F)
    for i in range(x.shape[0]):
        m, s = mean[i], inverse[i]
        total = dot = F(0)
        for j in range(size):
            h = (x[i, j] - m) * s
            u = g[i, j] * scale[j]
            total += u
            dot += u * h
            scales[j] += g[i, j] * h
            shifts[j] += g[i, j]
        total /= F(size)
        dot /= F(size)
        for j in range(size):
            dx[i, j] = s * (g[i, j] * scale[j] - total - (x[i, j] - m) * s * dot)
        if (i + 1) % ROWS == 0 or i + 1 == x.shape[0]:
            d_scale += scales
            d_shift += shifts
            scales[:] = F(0)
            shifts[:] = F(0)


def rms_norm(x, weight, normalized_shape, eps):
    if not is_float32(x, weight) or not x.size:
        return cpu.rms_norm(x, weight, normalized_shape, eps)
    shape, size = x.shape, math.prod(normalized_shape)
    rows = contiguous(x).reshape(-1, size)
    scale = np.ones(size, F) if weight is None else contiguous(weight).reshape(size)
    y, inverse = np.empty_like(rows), np.empty(len(rows), F)
    _rms_norm(rows, scale, F(eps), y, inverse)

    def gradient(g, needs):
        flat = contiguous(g).reshape(rows.shape)
        dx, d_scale = np.empty_like(rows), np.zeros(size, np.float64)
        _rms_norm_backward(rows, scale, inverse, flat, dx, d_scale)
        d_weight = d_scale.astype(F).reshape(weight.shape) if needs[1] else None
        return dx.reshape(shape) if needs[0] else None, d_weight

    return y.reshape(shape), gradient


@loop
def _rms_norm(x, scale, eps, y, inverse):
    """x / sqrt(mean(x**2) + eps) * scale."""
    size = x.shape[1]
    for i in range(x.shape[0]):
        square = F(0)
        for j in range(size):
            square += x[i, j] * x[i, j]
        inverse[i] = F(1) / np.sqrt(square / F(size) + eps)
        for j in range(size):
            y[i, j] = x[i, j] * inverse[i] * scale[j]


@loop
def _rms_norm_backward(x, scale, inverse, g, dx, d_scale):
    """With h the normalized x and u = g * scale: dx = (u - h mean(u h)) / sqrt(mean(x**2) + eps)."""
    size = x.shape[1]
    scales = np.zeros(size, F)
    for i in range(x.shape[0]):
        s, dot = inverse[i], F(0)
        for j in range(size):
            h = x[i, j] * s
            dot += g[i, j] * scale[j] * h
            scales[j] += g[i, j] * h
        dot /= F(size)
        for j in range(size):
            dx[i, j] = s * (g[i, j] * scale[j] - x[i, j] * s * dot)
        if (i + 1) % ROWS == 0 or i + 1 == x.shape[0]:
            d_scale += scales
            scales[:] = F(0)
