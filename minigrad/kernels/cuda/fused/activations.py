"""Softmax and log-softmax over the last axis, GELU with and without a bias, dropout."""

from __future__ import annotations

import math

import numpy as np

from ....core.devices import array_module
from ....core.kernels import kernel as register
from ....ops import activations as ops
from .launching import (
    accumulator,
    contiguous,
    draw,
    kernel,
    mask_argument,
    over_columns,
    over_elements,
    over_rows,
    sum_of_parts,
    supports,
)


@register(ops.softmax, "cuda")
def softmax(x, dim, dtype=None):
    if dtype is not None or not _is_last_axis(x, dim):
        return None
    return _softmax(contiguous(x), mask_argument(None), 1, 1)


def masked_softmax(x, mask):
    """softmax over the last axis where `mask` is True; zeros for a row without any True."""
    x, xp = contiguous(x), array_module(x)
    queries, keys = x.shape[-2:]
    heads = x.shape[-3] if x.ndim > 2 else 1
    allowed = xp.broadcast_to(mask, x.shape).reshape(-1, heads, queries, keys)
    return _softmax(x, mask_argument(allowed), heads, queries)


def _softmax(x, mask, heads, queries):
    y = array_module(x).empty_like(x)
    rows = x.size // x.shape[-1]
    size = x.shape[-1]
    arguments = (x, mask, y, rows, size, heads, queries)
    kernel(x, "softmax", "softmax")(*over_rows(rows, size), arguments)
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


def gelu_with_bias(x, bias, approximate="none"):
    """gelu(x + bias), with a bias vector as long as the last axis."""
    xp = array_module(x)
    by_tanh = np.bool_(approximate == "tanh")
    x = contiguous(x)
    bias = contiguous(bias)
    rows = x.size // bias.size
    size = bias.size
    y = xp.empty_like(x)
    kernel(x, "gelu", "gelu_bias")(*over_rows(rows, size), (x, bias, y, rows, size, by_tanh))

    def gradient(g, needs):
        grid, block = over_columns(rows, size)
        d_x = xp.empty_like(x)
        parts = xp.empty((grid[1], size), accumulator(x.dtype))
        arguments = (x, bias, contiguous(g), d_x, parts, rows, size, by_tanh)
        kernel(x, "gelu", "gelu_bias_backward")(grid, block, arguments)
        return d_x, sum_of_parts("gelu", parts, bias)

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
