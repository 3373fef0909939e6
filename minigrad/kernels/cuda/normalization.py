"""Layer normalization, with and without a mean."""

from __future__ import annotations

import math

from ...devices import array_module
from ..half import in_single


@in_single
def layer_norm(x, weight, bias, normalized_shape, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes.

    With h the normalized x and u = g * weight: dx = (u - mean(u) - h mean(u h)) / sqrt(var + eps).
    """
    flat, size = _rows(x, normalized_shape)
    h = flat - flat.sum(axis=1, keepdims=True) / size
    inverse = 1 / array_module(x).sqrt((h * h).sum(axis=1, keepdims=True) / size + eps)
    h *= inverse
    y = h if weight is None else h * weight.reshape(-1)
    y = y if bias is None else y + bias.reshape(-1)

    def gradient(g, needs):
        g = g.reshape(h.shape)
        d_weight = (g * h).sum(axis=0).reshape(weight.shape) if needs[1] else None
        d_bias = g.sum(axis=0).reshape(bias.shape) if needs[2] else None
        if not needs[0]:
            return None, d_weight, d_bias
        u = g if weight is None else g * weight.reshape(-1)
        d_x = u - u.sum(axis=1, keepdims=True) / size - h * ((u * h).sum(axis=1, keepdims=True) / size)
        return (d_x * inverse).reshape(x.shape), d_weight, d_bias

    return (y.copy() if y is h else y).reshape(x.shape), gradient


@in_single
def rms_norm(x, weight, normalized_shape, eps):
    """x / sqrt(mean(x**2) + eps) * weight over the last axes.

    With h the normalized x and u = g * weight: dx = (u - h mean(u h)) / sqrt(mean(x**2) + eps).
    """
    flat, size = _rows(x, normalized_shape)
    inverse = 1 / array_module(x).sqrt((flat * flat).sum(axis=1, keepdims=True) / size + eps)
    h = flat * inverse
    y = h.copy() if weight is None else h * weight.reshape(-1)

    def gradient(g, needs):
        g = g.reshape(h.shape)
        d_weight = (g * h).sum(axis=0).reshape(weight.shape) if needs[1] else None
        if not needs[0]:
            return None, d_weight
        u = g if weight is None else g * weight.reshape(-1)
        d_x = (u - h * ((u * h).sum(axis=1, keepdims=True) / size)) * inverse
        return d_x.reshape(x.shape), d_weight

    return y.reshape(x.shape), gradient


def _rows(x, normalized_shape):
    """x with a row for each group that is normalized by itself, and the size of a group."""
    size = math.prod(normalized_shape)
    rows = math.prod(x.shape[: x.ndim - len(normalized_shape)])
    return x.reshape(rows, size), max(size, 1)
