"""A linear layer: products by cuBLAS, and our own sum over rows for the gradient of the bias, where cuBLASLt
does not compute it.

CuPy's sum over the first axis of a (16384, 768) array takes 360 us on an H200, this one a twentieth of that.
"""

from __future__ import annotations

from ....core.devices import array_module
from ....core.kernels import kernel as register
from ....ops import linalg as ops
from ..cublas import linear_with, sum_of_rows
from .launching import accumulator, contiguous, kernel, over_columns, sum_of_parts, supports


@register(ops.linear, "cuda")
def linear(x, weight, bias):
    return linear_with(sum_rows, x, weight, bias)


def sum_rows(g):
    """The sum over the rows of a matrix."""
    if not supports(g):
        return sum_of_rows(g)
    g = contiguous(g)
    rows, size = g.shape
    grid, block = over_columns(rows, size)
    parts = array_module(g).empty((grid[1], size), accumulator(g.dtype))
    kernel(g, "linear", "column_sums")(grid, block, (g, parts, rows, size))
    return sum_of_parts(parts, g[0])
