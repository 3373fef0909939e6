"""Layer normalization and RMS normalization."""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np

from ...core.kernels import kernel
from ...core.sums import BLOCK, column_sums, ones
from ...ops import normalization as ops
from ...ops.scaled_norms import scaled_norm

LARGE_MEAN = 4  # in standard deviations: subtracting it loses 2 bits or more


@kernel(ops.layer_norm, "numpy")
def layer_norm(x, weight, bias, normalized_shape, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes.

    With h the normalized x and u = g * weight: dx = (u - mean(u) - h mean(u h)) / sqrt(var + eps). Backward
    recomputes h from x, which the graph often keeps anyway.
    """
    shape = x.shape
    size = math.prod(normalized_shape)
    rows = math.prod(shape[: len(shape) - len(normalized_shape)])
    flat = x.reshape(rows, size)
    average = _average(size, x.dtype)
    if rows == 1:  # NumPy is faster with scalars than with columns of one element
        flat = flat[0]

    mean = _mean(flat, average)
    y = flat - mean
    inverse = _inverse_root(y, eps)
    correction = None
    # mean**2 <= LARGE_MEAN**2 var, in numbers that do not overflow; False for NaN
    least = LARGE_MEAN * math.sqrt(max(eps, 0))
    apart = (
        math.hypot(mean, least) * inverse if rows == 1 else (np.hypot(mean, least) * inverse).max(initial=0)
    )
    if not apart <= LARGE_MEAN * 1.00001:  # the mean's rounding error shows
        correction = _mean(y, average)
        y -= correction
        inverse = _inverse_root(y, eps)
    y *= inverse
    if weight is not None:
        y *= weight.reshape(size)
    if bias is not None:
        y += bias.reshape(size)

    def gradient(g, needs):
        g = g.reshape(rows, size)
        add_up = column_sums if rows > BLOCK else ones(rows, g.dtype).__matmul__
        d_bias = add_up(g).reshape(bias.shape) if needs[2] else None
        if not (needs[0] or needs[1]):
            return None, None, d_bias
        h = x.reshape(rows, size) - mean
        if correction is not None:
            h -= correction
        h *= inverse
        d_weight = add_up(g * h).reshape(weight.shape) if needs[1] else None
        if not needs[0]:
            return None, d_weight, d_bias
        u = g if weight is None else g * weight.reshape(size)
        mean_u = (u @ _average(size, x.dtype))[:, None]
        h *= (np.vecdot(u, h) / -max(size, 1))[:, None]
        h += u
        h -= mean_u
        h *= inverse
        return h.reshape(shape), d_weight, d_bias

    return y.reshape(shape), gradient


@kernel(ops.rms_norm, "numpy")
def rms_norm(x, weight, normalized_shape, eps):
    """x / sqrt(mean(x**2) + eps) * weight over the last axes.

    With h the normalized x and u = g * weight: dx = (u - h mean(u h)) / sqrt(mean(x**2) + eps).
    """
    shape = x.shape
    size = math.prod(normalized_shape)
    rows = math.prod(shape[: len(shape) - len(normalized_shape)])
    flat = x.reshape(rows, size)
    inverse = _inverse_root(flat if rows != 1 else flat[0], eps)
    y = flat * inverse
    if weight is not None:
        y *= weight.reshape(size)

    def gradient(g, needs):
        g = g.reshape(rows, size)
        add_up = column_sums if rows > BLOCK else ones(rows, g.dtype).__matmul__
        h = flat * inverse
        d_weight = add_up(g * h).reshape(weight.shape) if needs[1] else None
        if not needs[0]:
            return None, d_weight
        u = g if weight is None else g * weight.reshape(size)
        h *= (np.vecdot(u, h) / -max(size, 1))[:, None]
        h += u
        h *= inverse
        return h.reshape(shape), d_weight

    return y.reshape(shape), gradient


def _mean(x, average):
    """The mean of each row, as a column; a number for a vector."""
    return (x @ average)[:, None] if x.ndim > 1 else float(x @ average)


def _inverse_root(x, eps):
    """1 / sqrt(mean(x**2) + eps) of each row, as a column; a number for a vector.

    Computed as sqrt(size) / sqrt(sum(x**2) + size eps), unless the squares overflow or underflow.
    """
    size = max(x.shape[-1], 1)
    with np.errstate(over="ignore"):  # recomputed below
        squares = x.dot(x) if x.ndim == 1 else np.vecdot(x, x)
    if x.ndim == 1 and _least_exact(x.dtype) < (square := float(squares) + size * eps) < math.inf:
        return math.sqrt(size / square)
    squares = np.asarray(squares)
    squares += size * eps
    least = _least_exact(x.dtype)
    is_exact = size * eps > least or squares.min(initial=1) > least
    np.sqrt(squares, out=squares)
    if not (is_exact and squares.max(initial=0) < math.inf):
        squares = np.hypot(scaled_norm(x, 2, (x.ndim - 1,))[..., 0], math.sqrt(size * eps)).astype(x.dtype)
    inverse = np.asarray(np.divide(math.sqrt(size), squares, dtype=x.dtype))
    return inverse[:, None] if x.ndim > 1 else inverse


@cache
def _least_exact(dtype):
    """Sums of squares above this are exact to rounding even if some squares underflow."""
    info = np.finfo(dtype)
    return float(info.tiny / info.eps)


@lru_cache(maxsize=64)
def _average(size, dtype):
    """The vector whose product with a row is the row's mean."""
    return np.full(size, 1 / max(size, 1), dtype)
