"""Softmax and its logarithm over the last axis, relu and GELU."""

from __future__ import annotations

import math

import numpy as np

from ...core.kernels import kernel
from ...ops import activations as ops
from .arrays import contiguous, is_float32, rows_of
from .mathematics import F, accumulate, exp_below, inline, largest, logistic, loop, normal


@kernel(ops.softmax, "numba")
def softmax(x, dim, dtype=None):
    return _by_rows(x, dim, dtype, _softmax, _softmax_backward)


@kernel(ops.log_softmax, "numba")
def log_softmax(x, dim, dtype=None):
    return _by_rows(x, dim, dtype, _log_softmax, _log_softmax_backward)


def _by_rows(x, dim, dtype, forward, backward):
    """Apply `forward` to the rows of x; None if `dim` is not the last axis."""
    if dtype is not None or not is_float32(x) or not x.ndim or dim not in (-1, x.ndim - 1):
        return None
    x = contiguous(x)
    y = np.empty_like(x)
    forward(rows_of(x), rows_of(y))

    def gradient(g, needs):
        r = np.empty_like(y)
        backward(rows_of(y), rows_of(contiguous(g)), rows_of(r))
        return (r,)

    return y, gradient


@loop
def _softmax(x, y):
    """exp(x - m) / sum, with m the largest."""
    for i in range(x.shape[0]):
        m = largest(x[i])
        total = F(0)
        for j in range(x.shape[1]):
            y[i, j] = exp_below(x[i, j] - m)
            total = accumulate(total, y[i, j])
        scale = F(1) / total
        for j in range(x.shape[1]):
            y[i, j] *= scale


@loop
def _softmax_backward(y, g, r):
    """dx = y (g - sum(g y))."""
    for i in range(y.shape[0]):
        total = F(0)
        for j in range(y.shape[1]):
            total = accumulate(total, g[i, j] * y[i, j])
        for j in range(y.shape[1]):
            r[i, j] = y[i, j] * (g[i, j] - total)


@loop
def _log_softmax(x, y):
    """x - m - log(sum(exp(x - m)))."""
    for i in range(x.shape[0]):
        m = largest(x[i])
        total = F(0)
        for j in range(x.shape[1]):
            total = accumulate(total, exp_below(x[i, j] - m))
        shift = np.log(total)
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] - m - shift


@loop
def _log_softmax_backward(y, g, r):
    """dx = g - softmax(x) sum(g)."""
    for i in range(y.shape[0]):
        total = F(0)
        for j in range(y.shape[1]):
            total = accumulate(total, g[i, j])
        for j in range(y.shape[1]):
            r[i, j] = g[i, j] - exp_below(y[i, j]) * total


@kernel(ops.relu, "numba")
def relu(x):
    if not is_float32(x):
        return None
    x = contiguous(x)
    y = np.empty_like(x)
    _relu(x.reshape(-1), y.reshape(-1))

    def gradient(g):
        r = np.empty_like(y)
        _relu_backward(y.reshape(-1), contiguous(g).reshape(-1), r.reshape(-1))
        return r

    return y, (gradient,)


@loop
def _relu(x, y):
    """max(x, 0); NaN stays NaN."""
    for i in range(x.size):
        y[i] = F(0) if x[i] <= F(0) else x[i]


@loop
def _relu_backward(y, g, r):
    for i in range(y.size):
        r[i] = g[i] if y[i] != F(0) else F(0)


@kernel(ops.gelu, "numba")
def gelu(x, approximate="none"):
    if not is_float32(x):
        return None
    forward, backward = (_tanh, _tanh_backward) if approximate == "tanh" else (_exact, _exact_backward)
    x = contiguous(x)
    y = np.empty_like(x)
    forward(x.reshape(-1), y.reshape(-1))

    def gradient(g, needs):
        r = np.empty_like(x)
        backward(x.reshape(-1), contiguous(g).reshape(-1), r.reshape(-1))
        return (r,)

    return y, gradient


_C = F(2 * math.sqrt(2 / math.pi))
_A = F(2 * math.sqrt(2 / math.pi) * 0.044715)


_FAR = F(1e4)  # limit of x**2: beyond it s is 0 or 1, and a larger x**2 may overflow


@loop
def _tanh(x, y):
    """x s with s = 1 / (1 + e^-2u) = (1 + tanh(u)) / 2, u = sqrt(2/pi) (x + 0.044715 x**3)."""
    for i in range(x.size):
        v = x[i]
        y[i] = v * logistic(v * (_C + _A * v * v))


@inline
def _tanh_slope(v):
    """s + x s (1 - s) 2u', with u' = sqrt(2/pi) (1 + 3 * 0.044715 x**2)."""
    square = min(v * v, _FAR)
    s = logistic(v * (_C + _A * square))
    return s + v * s * (F(1) - s) * (_C + F(3) * _A * square)


@loop
def _tanh_backward(x, g, r):
    for i in range(x.size):
        r[i] = g[i] * _tanh_slope(x[i])


@loop
def _exact(x, y):
    """x Phi(x)."""
    for i in range(x.size):
        integral, _ = normal(x[i])
        y[i] = x[i] * integral


@inline
def _exact_slope(v):
    """Phi(x) + x phi(x)."""
    integral, density = normal(v)
    return integral + v * density


@loop
def _exact_backward(x, g, r):
    for i in range(x.size):
        r[i] = g[i] * _exact_slope(x[i])
