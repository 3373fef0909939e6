"""Layer normalization."""

from __future__ import annotations

import math

import numpy as np


def layer_norm(x, weight, bias, normalized_shape, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes.

    With h the normalized x and u = g * weight: dx = (u - mean(u) - h mean(u h)) / sqrt(var + eps).
    """
    shape, size = x.shape, math.prod(normalized_shape)
    flat = x.reshape(-1, size)
    average = np.full(size, 1 / size, x.dtype)
    h = flat - (flat @ average)[:, None]
    inverse = 1 / np.sqrt(np.einsum("ij,ij->i", h, h) / size + eps)
    inverse = inverse.astype(x.dtype, copy=False)[:, None]
    h *= inverse
    y = h if weight is None else h * weight.reshape(size)
    if bias is not None:
        y = y + bias.reshape(size) if y is h else np.add(y, bias.reshape(size), out=y)

    def gradient(g, needs):
        g = g.reshape(-1, size)
        d_weight = np.einsum("ij,ij->j", g, h).reshape(weight.shape) if needs[1] else None
        d_bias = (np.ones(len(g), g.dtype) @ g).reshape(bias.shape) if needs[2] else None
        if not needs[0]:
            return None, d_weight, d_bias
        u = g if weight is None else g * weight.reshape(size)
        centre = (u @ average)[:, None]
        slope = (np.einsum("ij,ij->i", u, h) / size)[:, None]
        r = h * -slope
        r += u
        r -= centre
        r *= inverse
        return r.reshape(shape), d_weight, d_bias

    return y.reshape(shape), gradient
