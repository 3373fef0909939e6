"""Softmax and log-softmax over the last axis, GELU, dropout."""

from __future__ import annotations

import math

import numpy as np

from ....core.devices import array_module
from ....core.kernels import kernel as register
from ....ops import activations as ops
from .launching import contiguous, draw, kernel, over_elements, over_rows, supports


@register(ops.softmax, "cuda")
def softmax(x, dim, dtype=None):
    if dtype is not None or not _is_last_axis(x, dim):
        return None
    x = contiguous(x)
    y = array_module(x).empty_like(x)
    rows = x.size // x.shape[-1]
    size = x.shape[-1]
    kernel(x, "softmax", "softmax")(*over_rows(rows, size), (x, y, rows, size))
    return y, _backward("softmax_backward", y)


@register(ops.log_softmax, "cuda")
def log_softmax(x, dim, dtype=None):
    if dtype is not None or not _is_last_axis(x, dim):
        return None
    x = contiguous(x)
    y = array_module(x).empty_like(x)
    rows = x.size // x.shape[-1]
    size = x.shape[-1]
    kernel(x, "softmax", "log_softmax")(*over_rows(rows, size), (x, y, rows, size))
    return y, _backward("log_softmax_backward", y)


def _is_last_axis(x, dim):
    """Whether `dim` is the last axis of an array that the kernels support."""
    return x.ndim and dim in (-1, x.ndim - 1) and supports(x)


def _backward(name, y):
    rows = y.size // y.shape[-1]
    size = y.shape[-1]

    def gradient(g, needs):
        d_x = array_module(y).empty_like(y)
        kernel(y, "softmax", name)(*over_rows(rows, size), (y, contiguous(g), d_x, rows, size))
        return (d_x,)

    return gradient


@register(ops.gelu, "cuda")
def gelu(x, approximate="none"):
    if not supports(x):
        return None
    by_tanh = np.bool_(approximate == "tanh")
    x = contiguous(x)
    y = array_module(x).empty_like(x)
    shape = over_elements(-(-x.size // 4))
    kernel(x, "gelu", "gelu")(*shape, (x, y, x.size, by_tanh))

    def gradient(g, needs):
        d_x = array_module(x).empty_like(x)
        arguments = (x, contiguous(g), d_x, x.size, by_tanh)
        kernel(x, "gelu", "gelu_backward")(*shape, arguments)
        return (d_x,)

    return y, gradient


@register(ops.dropout, "cuda")
def dropout(x, p, key):
    if not supports(x):
        return None
    drops = draw(key, x.shape, p)
    return _dropout(x, drops), (lambda g: _dropout(g, drops),)


def _dropout(x, drops):
    x = contiguous(x)
    y = array_module(x).empty_like(x)
    function = kernel(x, "dropout", "dropout", BITS=int(drops["bits"][0]))
    function((math.ceil(x.size / 4096),), (256,), (x, y, x.size, drops))
    return y
