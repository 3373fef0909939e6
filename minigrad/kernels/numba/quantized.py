"""Products of a few rows with 8-bit matrices, which are converted in registers.

Generation has one row for each text, and is limited by how fast weights are read: with a quarter of
float32's bytes, it takes about half of the time.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...core.kernels import kernel
from ...ops import quantized
from ..numpy.quantized import result_of
from .arrays import is_float32
from .mathematics import F, accumulate, loop

MOST = 8  # rows; for more, a block is converted once, and multiplied by BLAS


@kernel(quantized.quantized_linear, "numba")
def quantized_linear(x, weight, scale, bias):
    count = prod(x.shape[:-1])
    fits = is_float32(x) and weight.dtype == np.int8 and weight.flags.c_contiguous
    if not fits or not 0 < count <= MOST:
        return None
    rows = np.ascontiguousarray(x.reshape(count, x.shape[-1]))
    products = np.empty((count, len(weight)), F)
    _multiply(rows, weight, products)
    return result_of(x, rows, products, weight, scale, bias)


@loop
def _multiply(rows, weight, out):
    """out = rows @ weight.T"""
    for i in range(weight.shape[0]):
        for k in range(rows.shape[0]):
            total = F(0)
            for j in range(weight.shape[1]):
                total = accumulate(total, rows[k, j] * F(weight[i, j]))
            out[k, i] = total
