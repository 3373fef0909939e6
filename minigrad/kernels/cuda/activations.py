"""Softmax and its logarithm, GELU, dropout."""

from __future__ import annotations

import math

from ...devices import array_module
from ...random import drop_threshold
from ..half import in_single
from .draws import keep_mask
from .special import erf


@in_single
def softmax(x, dim):
    """exp(x - m) / sum, with m the largest; dx = y (g - sum(g y))."""
    rows = x.reshape(x.shape or (1,))
    y = array_module(x).exp(rows - largest(rows, dim))
    y /= y.sum(axis=dim, keepdims=True)

    def gradient(g, needs):
        g = g.reshape(y.shape)
        return ((y * (g - (g * y).sum(axis=dim, keepdims=True))).reshape(x.shape),)

    return y.reshape(x.shape), gradient


@in_single
def log_softmax(x, dim):
    """x - m - log(sum(exp(x - m))); dx = g - softmax(x) sum(g)."""
    xp, rows = array_module(x), x.reshape(x.shape or (1,))
    y = rows - largest(rows, dim)
    y -= xp.log(xp.exp(y).sum(axis=dim, keepdims=True))

    def gradient(g, needs):
        g = g.reshape(y.shape)
        return ((g - xp.exp(y) * g.sum(axis=dim, keepdims=True)).reshape(x.shape),)

    return y.reshape(x.shape), gradient


def largest(x, dim):
    """The largest along axes, which stay; of none at all -inf, which CuPy's `max` refuses."""
    if x.size:
        return x.max(axis=dim, keepdims=True)
    xp = array_module(x)
    return xp.full_like(x.sum(axis=dim, keepdims=True), -xp.inf)


_C, _A = math.sqrt(2 / math.pi), 0.044715


@in_single
def gelu(x, approximate="none"):
    """x Phi(x), or with approximate="tanh" 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))."""
    xp = array_module(x)
    if approximate == "tanh":
        t = xp.tanh(_C * (x + _A * x * x * x))
        slope = lambda: 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _C * (1 + 3 * _A * x * x)
        return 0.5 * x * (1 + t), lambda g, needs: (g * slope(),)
    below = 0.5 * (1 + erf(x / math.sqrt(2)))
    density = lambda: xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return x * below, lambda g, needs: (g * (below + x * density()),)


def dropout(x, p, key):
    """x * keep / (1 - p), with the elements to keep drawn from `key`; the gradient passes the same way."""
    kept = 1 - drop_threshold(p) / 65536
    scaled = keep_mask(array_module(x), key, x.shape, p).astype(x.dtype)
    scaled *= 1 / kept if kept else 0
    return x * scaled, (lambda g: g * scaled,)
