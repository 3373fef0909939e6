"""Products with 8-bit matrices: a block of rows is converted to float at a time."""

from __future__ import annotations

from math import prod

import numpy as np

from ...core.kernels import kernel
from ...core.sums import column_sums
from ...ops import quantized

BLOCK = 256  # rows of the matrix


@kernel(quantized.quantized_linear, "numpy")
def quantized_linear(x, weight, scale, bias):
    """Multiply block by block, so that only one block of the matrix is converted to float at a time."""
    rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
    products = np.empty((len(rows), len(weight)), x.dtype)
    for start in range(0, len(weight), BLOCK):
        block = weight[start : start + BLOCK].astype(x.dtype)
        np.matmul(rows, block.T, out=products[:, start : start + BLOCK])
    return result_of(x, rows, products, weight, scale, bias)


def result_of(x, rows, products, weight, scale, bias):
    """Return the value and the gradient function, given the products with the matrix of integers."""
    y = products * scale.astype(x.dtype)
    if bias is not None:
        y += bias

    def gradient(g, needs):
        flat = g.reshape(len(rows), g.shape[-1])
        dx = None
        if needs[0]:
            scaled = flat * scale
            dx = np.zeros(rows.shape, x.dtype)
            for start in range(0, len(weight), BLOCK):
                block = weight[start : start + BLOCK].astype(x.dtype)
                dx += scaled[:, start : start + BLOCK] @ block
            dx = dx.reshape(x.shape)
        ds = (flat * products).sum(0) if needs[2] else None
        return dx, None, ds, column_sums(flat) if needs[3] else None

    return y.reshape(*x.shape[:-1], len(weight)), gradient
