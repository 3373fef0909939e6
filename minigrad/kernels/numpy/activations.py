"""Softmax and its logarithm, relu, GELU, dropout."""

from __future__ import annotations

import math

import numpy as np

from ...core.kernels import kernel
from ...core.sums import stable_sum
from ...ops import activations as ops
from ...ops import draws
from ...ops.special_functions import erfc

BLOCK = 1 << 16  # elements: a block and its temporaries stay in the second-level cache


def sum_along(x, axis):
    """x.sum(axis, keepdims=True), also for 0-d arrays."""
    return stable_sum(x, (axis % x.ndim,), keepdims=True) if x.ndim else x


@kernel(ops.softmax, "numpy")
def softmax(x, dim, dtype=None):
    """exp(x - m) / sum, with m the largest; dx = y (g - sum(g y))."""
    if dtype is not None:
        return None
    y = np.asarray(x - x.max(axis=dim, keepdims=True, initial=-np.inf))
    np.exp(y, out=y)
    y /= sum_along(y, dim)

    def gradient(g, needs):
        r = g * y
        r -= y * sum_along(r, dim)
        return (r,)

    return y, gradient


@kernel(ops.log_softmax, "numpy")
def log_softmax(x, dim, dtype=None):
    """x - m - log(sum(exp(x - m))); dx = g - softmax(x) sum(g)."""
    if dtype is not None:
        return None
    y = np.asarray(x - x.max(axis=dim, keepdims=True, initial=-np.inf))
    y -= np.log(sum_along(np.exp(y), dim))

    def gradient(g, needs):
        r = np.exp(y)
        r *= -sum_along(g, dim)
        r += g
        return (r,)

    return y, gradient


@kernel(ops.relu, "numpy")
def relu(x):
    """max(x, 0). Backward needs only the result, and selects without branches.

    On a random mask half of all branches are mispredicted. So the mask becomes integers as wide as g's
    elements, with all bits set or none, and is combined with g by a bitwise AND.
    """
    if x.dtype.kind != "f":
        return None
    y = np.maximum(x, 0)

    def gradient(g):
        word = np.dtype(f"i{g.dtype.itemsize}")
        bits = np.asarray((-(y != 0).view(np.int8)).astype(word))
        bits &= g.view(word)
        return bits.view(g.dtype)

    return y, (gradient,)


@kernel(ops.gelu, "numpy")
def gelu(x, approximate="none"):
    """x Phi(x), or with approximate="tanh" x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x**3)."""
    x = np.asarray(x, order="C")
    forward, backward = (
        (_gelu_tanh, _gelu_tanh_backward) if approximate == "tanh" else (_gelu, _gelu_backward)
    )
    y = np.empty(x.shape, x.dtype)
    _in_blocks(forward, x, out=y)

    def gradient(g, needs):
        r = np.empty(x.shape, x.dtype)
        _in_blocks(backward, x, np.asarray(g, order="C"), out=r)
        return (r,)

    return y, gradient


def _in_blocks(function, *arrays, out):
    """Call function(*blocks, out=block) for each block of the flattened arrays."""
    if out.ndim and out.size <= BLOCK:
        function(*arrays, out=out)
        return
    flat = [a.reshape(-1) for a in (*arrays, out)]
    for start in range(0, out.size, BLOCK):
        *ins, block = (a[start : start + BLOCK] for a in flat)
        function(*ins, out=block)


_C = math.sqrt(2 / math.pi)
_A = 0.044715
_FAR = 10  # beyond it the slope is 0 or 1, and e**-2u may overflow


def _gelu_tanh(x, out):
    with np.errstate(over="ignore"):  # e**-2u may be inf: the result is then -0
        np.multiply(x, x, out=out)
        out *= -2 * _C * _A
        out -= 2 * _C
        out *= x  # -2u = -2 sqrt(2/pi) (x + a x**3)
        np.exp(out, out=out)
    out += 1
    np.divide(x, out, out=out)


def _gelu_tanh_backward(x, g, out):
    is_far = not (x.min(initial=0) >= -_FAR and x.max(initial=0) <= _FAR)
    infinite = np.isinf(x) if is_far else None
    x = np.clip(x, -_FAR, _FAR) if is_far else x
    square = x * x
    e = square * (-2 * _C * _A)
    e -= 2 * _C
    e *= x
    np.exp(e, out=e)  # e**-2u
    np.add(e, 1, out=out)
    np.divide(1, out, out=out)  # s = sigmoid(2u)
    e *= out  # 1 - s
    square *= 6 * _C * _A
    square += 2 * _C
    square *= x  # x d(2u)/dx
    square *= e
    square += 1
    out *= square  # s + s (1 - s) x (2u)'
    out *= g
    if is_far:
        out[infinite] = np.nan  # PyTorch gives NaN too


def _phi(x):
    return 0.5 * erfc(x * (-1 / math.sqrt(2)))


def _gelu(x, out):
    np.multiply(x, _phi(x), out=out)


def _gelu_backward(x, g, out):
    np.multiply(x, x, out=out)
    out *= -0.5
    np.exp(out, out=out)
    out *= 1 / math.sqrt(2 * math.pi)  # the density
    out *= x
    out += _phi(x)
    out *= g


@kernel(ops.dropout, "numpy")
def dropout(x, p, key):
    """x * keep / (1 - p), with the mask `keep` drawn from `key`; the gradient is scaled in the same way."""
    scaled = scaled_keep(key, x.shape, p, x.dtype)
    return x * scaled, (lambda g: g * scaled,)


def scaled_keep(key, shape, p, dtype):
    """keep / (1 - p): 0 for dropped elements."""
    scaled = draws.keep_mask(key, shape, p).astype(dtype)
    scaled *= draws.keep_scale(p)
    return scaled
