"""The product of two matrices, with the bits of OpenBLAS in most cases on processors with AVX-512.

Each number of the result is a sum over k in order, each term added by one fused multiply-add, of at most
TERMS terms; the sums of several blocks are added. What is left to choose is the order in which the numbers
are computed. Here it is that of Goto and van de Geijn 2008 ("Anatomy of High-Performance Matrix
Multiplication"), but only the right factor is packed, which is enough for matrices of a few thousand rows.
No addition may be reordered.
"""

from __future__ import annotations

import numpy as np
from numba import float32, types, void

from ..compiler import compiled
from .mathematics import OPTIONS, F, inline, loop
from .products import COLUMNS, ROWS, tile
from .vectors import LANES, scale_vector, transpose_tile, up

TERMS = 448  # terms of a sum: OpenBLAS's GEMM_Q, sums being divided at multiples of UNROLL
UNROLL = 16
WIDE, TALL = 1024, 128  # columns that are packed at a time, rows that stay in the cache meanwhile


@inline
def _terms(left):
    """How many terms the next sum has, as in OpenBLAS's level-3 driver."""
    if left >= 2 * TERMS:
        return TERMS
    return left if left <= TERMS else up(left // 2, UNROLL)


@loop
def _pack(w, packed):
    """Lay the columns of w out as tiles read them, COLUMNS at a time."""
    depth, width = w.shape
    row, column = w.strides
    for first in range(0, width, COLUMNS):
        target = packed[first // COLUMNS]
        for j in range(first, first + COLUMNS, LANES):
            whole, to = j + LANES <= width, target.ctypes.data + 4 * (j - first)
            done = 0
            if whole and column == 4:
                for k in range(depth):
                    scale_vector(w.ctypes.data + k * row + 4 * j, to + 4 * COLUMNS * k, F(1))
                done = depth
            elif whole and row == 4:
                done = depth - depth % LANES
                for k in range(0, done, LANES):
                    source = w.ctypes.data + 4 * k + j * column
                    transpose_tile(source, column, to + 4 * COLUMNS * k, 4 * COLUMNS, F(1))
            for k in range(done, depth):
                for i in range(LANES):
                    target[k, j - first + i] = w[k, j + i] if j + i < width else F(0)


@loop
def _put(corner, out, add):
    """Write, or add, what is not beyond the edges."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = out[i, j] + corner[i, j] if add else corner[i, j]


READ, WRITTEN = types.Array(float32, 2, "A", readonly=True), types.Array(float32, 2, "A")


@compiled(void(READ, READ, WRITTEN), **OPTIONS)
def gemm(a, w, out):
    """out = a @ w: matrices in any order, but the numbers of a row of `out` side by side."""
    rows, depth, columns = a.shape[0], a.shape[1], w.shape[1]
    most = min(depth, TERMS + UNROLL)
    packed = np.empty((up(min(WIDE, columns), COLUMNS) // COLUMNS, most, COLUMNS), F)
    last_rows, corner = np.zeros((ROWS, most), F), np.empty((ROWS, COLUMNS), F)
    whole = rows - rows % ROWS
    start = 0
    while start < depth:
        end = start + _terms(depth - start)
        for i in range(whole, rows):
            for k in range(start, end):
                last_rows[i - whole, k - start] = a[i, k]
        for left in range(0, columns, WIDE):
            right = min(left + WIDE, columns)
            _pack(w[start:end, left:right], packed)
            for top in range(0, rows, TALL):
                for j in range(left, right, COLUMNS):
                    factor = packed[(j - left) // COLUMNS].ctypes.data
                    for i in range(top, min(top + TALL, rows), ROWS):
                        first, row, column = a[i:, start:].ctypes.data, a.strides[0], a.strides[1]
                        if i == whole:
                            first, row, column = last_rows.ctypes.data, last_rows.strides[0], 4
                        place, stride, add = out[i:, j:].ctypes.data, out.strides[0], int(start > 0)
                        is_edge = i == whole or j + COLUMNS > columns
                        if is_edge:
                            place, stride, add = corner.ctypes.data, 4 * COLUMNS, 0
                        tile(first, row, column, factor, 4 * COLUMNS, place, stride, end - start, add)
                        if is_edge:
                            _put(corner, out[i : i + ROWS, j : j + COLUMNS], start > 0)
        start = end
