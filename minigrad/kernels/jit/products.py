"""Products of a few rows with a weight matrix that stays in the cache: a recurrent layer's, at every step.

BLAS copies the matrix into an order of its own each time, which pays where many rows are multiplied. Here a
tile of the result is kept in vector registers while its rows and columns are read where they are (Goto and van
de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication", section 4). The compiler keeps no tile in
registers of its own accord, so the tile is written in its own language.
"""

from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .mathematics import loop

LANES, ROWS = 16, 4  # numbers of a vector, rows of a tile
VECTORS = 4 if binding.get_host_cpu_features().get("avx512f") else 1  # of a row of a tile: all fit registers
COLUMNS = LANES * VECTORS
MOST_ROWS, LARGEST = 64, 1 << 17  # of what is multiplied here; the matrix's numbers


def multiply(a: np.ndarray, w: np.ndarray, out: np.ndarray) -> np.ndarray:
    """out = a @ w of contiguous float32 arrays; by BLAS unless rows are few and tiles are whole."""
    few = a.shape[0] <= MOST_ROWS and w.size <= LARGEST
    if not few or a.shape[0] % ROWS or w.shape[1] % COLUMNS:
        return np.matmul(a, w, out=out)
    _multiply(a, w, out)
    return out


@intrinsic
def _tile(typing_context, a, a_stride, w, w_stride, out, out_stride, depth):
    """out[:ROWS, :COLUMNS] = a[:ROWS] @ w[:, :COLUMNS] at these addresses; strides are in bytes."""

    def generate(context, builder, signature, args):
        a, a_stride, w, w_stride, out, out_stride, depth = args
        number, integer = ir.FloatType(), ir.IntType(32)
        vector = ir.VectorType(number, LANES)
        nothing, zero = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0.0] * LANES)
        first = ir.Constant(ir.VectorType(integer, LANES), [0] * LANES)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(VECTORS)] for _ in range(ROWS)]

        def address(start, stride, index, offset, kind):
            place = builder.add(
                builder.add(start, builder.mul(stride, index)), context.get_constant(types.intp, offset)
            )
            return builder.inttoptr(place, kind.as_pointer())

        with cgutils.for_range(builder, depth) as step:
            weights = [
                builder.load(address(w, w_stride, step.index, 4 * LANES * j, vector), align=4)
                for j in range(VECTORS)
            ]
            for i in range(ROWS):
                row = context.get_constant(types.intp, i)
                start = builder.add(a, builder.mul(a_stride, row))
                four = context.get_constant(types.intp, 4)
                factor = builder.load(address(start, four, step.index, 0, number), align=4)
                factor = builder.insert_element(nothing, factor, ir.Constant(integer, 0))
                factor = builder.shuffle_vector(factor, nothing, first)
                for j in range(VECTORS):
                    product = builder.fmul(factor, weights[j], flags=("contract",))
                    total = builder.fadd(product, builder.load(sums[i][j]), flags=("contract",))
                    builder.store(total, sums[i][j])
        for i in range(ROWS):
            row = context.get_constant(types.intp, i)
            for j in range(VECTORS):
                place = address(out, out_stride, row, 4 * LANES * j, vector)
                builder.store(builder.load(sums[i][j]), place, align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 7), generate


@loop
def _multiply(a, w, out):
    """Tile by tile: the columns of the matrix that a tile reads stay in the cache for all rows."""
    for j in range(0, out.shape[1], COLUMNS):
        for i in range(0, out.shape[0], ROWS):
            _tile(
                a[i].ctypes.data, a.strides[0], w.ctypes.data + 4 * j, w.strides[0],
                out[i].ctypes.data + 4 * j, out.strides[0], a.shape[1],
            )  # fmt: skip
