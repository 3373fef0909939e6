"""Layer normalization and RMS normalization."""

from __future__ import annotations

import math

from ....core.devices import array_module
from ....core.dtypes import HALF
from ....core.kernels import kernel as register
from ....ops import normalization as ops
from .launching import (
    accumulator,
    contiguous,
    kernel,
    over_columns,
    over_rows,
    sum_of_parts,
    supports,
)


@register(ops.layer_norm, "cuda")
def layer_norm(x, weight, bias, normalized_shape, eps):
    if not _supports(x, weight, bias):
        return None
    xp = array_module(x)
    acc = accumulator(x.dtype)
    x = contiguous(x)
    weight = contiguous(weight)
    bias = contiguous(bias)
    size = math.prod(normalized_shape)
    rows = x.size // size
    y = xp.empty_like(x)
    mean = xp.empty(2 * rows, acc)
    inverse = xp.empty(rows, acc)
    arguments = (x, weight, bias, y, mean, inverse, rows, size, acc.type(eps))
    _kernel("layer_norm", x, weight, bias)(*over_rows(rows, size), arguments)

    def gradient(g, needs):
        g = contiguous(g)
        d_x = None
        if needs[0]:
            d_x = xp.empty_like(x)
            arguments = (x, weight, g, mean, inverse, d_x, rows, size)
            _kernel("layer_norm_backward", x, weight)(*over_rows(rows, size), arguments)
        return d_x, *_parameter_gradients(x, g, mean, inverse, (weight, bias), needs[1:], rows, size)

    return y, gradient


@register(ops.rms_norm, "cuda")
def rms_norm(x, weight, normalized_shape, eps):
    if not _supports(x, weight):
        return None
    xp = array_module(x)
    acc = accumulator(x.dtype)
    x, weight = contiguous(x), contiguous(weight)
    size = math.prod(normalized_shape)
    rows = x.size // size
    y = xp.empty_like(x)
    inverse = xp.empty(rows, acc)
    arguments = (x, weight, y, inverse, rows, size, acc.type(eps))
    _kernel("rms_norm", x, weight)(*over_rows(rows, size), arguments)

    def gradient(g, needs):
        g = contiguous(g)
        d_x = None
        if needs[0]:
            d_x = xp.empty_like(x)
            arguments = (x, weight, g, inverse, d_x, rows, size)
            _kernel("rms_norm_backward", x, weight)(*over_rows(rows, size), arguments)
        return d_x, *_parameter_gradients(x, g, None, inverse, (weight,), needs[1:], rows, size)

    return y, gradient


def _supports(x, *parameters):
    """Whether the kernels take these arrays: parameters have the dtype of x, or float32 with x of 16 bits."""
    present = [p for p in parameters if p is not None]
    return supports(x, *present) or (x.dtype in HALF and supports(x) and supports(*present))


def _kernel(name, x, *parameters):
    mixed = any(p is not None and p.dtype != x.dtype for p in parameters)  # then they are float32
    return kernel(x, "normalization", name, **({"PARAMETER": "float"} if mixed else {}))


def _parameter_gradients(x, g, mean, inverse, parameters, needs, rows, size):
    """Gradients of weight and bias, or of weight alone; None if not needed."""
    if not any(needs):
        return [None] * len(needs)
    grid, block = over_columns(rows, size)
    parts = [
        array_module(x).empty((grid[1], size), inverse.dtype) if needed else None
        for needed in (*needs, False)[:2]
    ]
    _kernel("norm_parameters", x, *parameters)(grid, block, (x, g, mean, inverse, *parts, rows, size))
    return [
        None if part is None else sum_of_parts(part, parameter)
        for part, parameter in zip(parts, parameters, strict=False)
    ]
