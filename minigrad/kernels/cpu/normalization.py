"""Layer normalization, with and without a mean."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


def layer_norm(x, weight, bias, normalized_shape, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes.

    With h the normalized x and u = g * weight: dx = (u - mean(u) - h mean(u h)) / sqrt(var + eps). x is kept,
    which others may keep too, and h computed from it again.
    """
    shape, size = x.shape, math.prod(normalized_shape)
    flat = x.reshape(_rows(shape, normalized_shape), size)
    y, mean, inverse = _normalized_row(flat[0], eps) if len(flat) == 1 else _normalized(flat, eps)
    if weight is not None:
        y *= weight.reshape(size)
    if bias is not None:
        y += bias.reshape(size)

    def gradient(g, needs):
        g = g.reshape(flat.shape)
        d_bias = (np.ones(len(g), g.dtype) @ g).reshape(bias.shape) if needs[2] else None
        if not (needs[0] or needs[1]):
            return None, None, d_bias
        h = flat - mean
        h *= inverse
        d_weight = np.einsum("ij,ij->j", g, h).reshape(weight.shape) if needs[1] else None
        if not needs[0]:
            return None, d_weight, d_bias
        u = g if weight is None else g * weight.reshape(size)
        centre = (u @ _average(size, g.dtype))[:, None]
        h *= (np.einsum("ij,ij->i", u, h) / -max(size, 1))[:, None]
        h += u
        h -= centre
        h *= inverse
        return h.reshape(shape), d_weight, d_bias

    return y.reshape(shape), gradient


def rms_norm(x, weight, normalized_shape, eps):
    """x / sqrt(mean(x**2) + eps) * weight over the last axes.

    With h the normalized x and u = g * weight: dx = (u - h mean(u h)) / sqrt(mean(x**2) + eps).
    """
    shape, size = x.shape, math.prod(normalized_shape)
    flat = x.reshape(_rows(shape, normalized_shape), size)
    inverse = _inverse_root(np.vecdot(flat, flat), size, eps)
    y = flat * inverse
    if weight is not None:
        y *= weight.reshape(size)

    def gradient(g, needs):
        g = g.reshape(flat.shape)
        h = flat * inverse
        d_weight = np.einsum("ij,ij->j", g, h).reshape(weight.shape) if needs[1] else None
        if not needs[0]:
            return None, d_weight
        u = g if weight is None else g * weight.reshape(size)
        h *= (np.einsum("ij,ij->i", u, h) / -max(size, 1))[:, None]
        h += u
        h *= inverse
        return h.reshape(shape), d_weight

    return y.reshape(shape), gradient


def _normalized(flat, eps):
    """Rows of mean 0 and variance 1; their means and 1 / sqrt(var + eps) as columns."""
    size = flat.shape[1]
    mean = (flat @ _average(size, flat.dtype))[:, None]
    y = flat - mean
    inverse = _inverse_root(np.vecdot(y, y), size, eps)
    y *= inverse
    return y, mean, inverse


def _normalized_row(row, eps):
    """The same of one row, by numbers: columns of one cost NumPy more than the arithmetic."""
    size = len(row)
    mean = row @ _average(size, row.dtype)
    y = row - mean
    inverse = (y @ y / max(size, 1) + eps) ** -0.5
    y *= inverse
    return y, mean, inverse


def _inverse_root(squares, size, eps):
    """1 / sqrt(squares / size + eps) = sqrt(size) / sqrt(squares + size eps), in place, as a column."""
    squares += max(size, 1) * eps
    np.sqrt(squares, out=squares)
    return np.divide(math.sqrt(max(size, 1)), squares, out=squares)[:, None]


@lru_cache(maxsize=64)
def _average(size, dtype):
    """The vector whose product with a row is the row's mean."""
    return np.full(size, 1 / max(size, 1), dtype)


def _rows(shape, normalized_shape):
    """How many rows are normalized, each by itself."""
    return math.prod(shape[: len(shape) - len(normalized_shape)])
