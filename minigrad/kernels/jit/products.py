"""Products with a matrix that stays in the cache: a recurrent layer's, at every step.

BLAS copies the matrix into an order of its own each time, which pays where many rows are multiplied. Here a
tile of the result is kept in vector registers while its rows and columns are read where they are (Goto and
van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication", section 4). The compiler keeps no tile
in registers of its own accord, so the tile is written in LLVM IR.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..cpu import recurrent as cpu
from .mathematics import loop

LANES = 16  # numbers of a vector
ROWS, VECTORS = (8, 2) if binding.get_host_cpu_features().get("avx512f") else (4, 1)  # of a tile
COLUMNS = LANES * VECTORS
LARGEST = 1 << 17  # numbers of the matrix


def multiply(a: np.ndarray, w: np.ndarray, out: np.ndarray, add: bool = False) -> None:
    """out = a @ w of float32 arrays, or added to it; by BLAS if w is large, and where no tile is whole.

    The rows of w and out have no gaps.
    """
    assert a.shape[1] == w.shape[0]
    assert out.shape == (a.shape[0], w.shape[1])
    rows = a.shape[0] - a.shape[0] % ROWS if w.size <= LARGEST and not w.shape[1] % COLUMNS else 0
    assert not rows or w.strides[1] == out.strides[1] == 4
    if rows == a.shape[0]:
        _multiply(a, w, out, add)
        return
    if rows:
        _multiply(a[:rows], w, out[:rows], add)
    cpu.multiply(a[rows:], w, out[rows:], add)


@intrinsic
def _tile(typing_context, a, a_row, a_column, w, w_stride, out, out_stride, depth, add):
    """out[:ROWS, :COLUMNS] = a[:ROWS] @ w[:, :COLUMNS] at these addresses, plus itself if `add` is 1.

    Strides, of rows or columns, are in bytes.
    """

    def generate(context, builder, signature, args):
        a, a_row, a_column, w, w_stride, out, out_stride, depth, add = args
        number, integer = ir.FloatType(), ir.IntType(32)
        vector = ir.VectorType(number, LANES)
        nothing, zero = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0.0] * LANES)
        first = ir.Constant(ir.VectorType(integer, LANES), [0] * LANES)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(VECTORS)] for _ in range(ROWS)]

        def constant(n):
            return context.get_constant(types.intp, n)

        def address(start, stride, index, offset=0, kind=vector):
            place = builder.add(builder.add(start, builder.mul(stride, index)), constant(offset))
            return builder.inttoptr(place, kind.as_pointer())

        places = [
            [address(out, out_stride, constant(i), 4 * LANES * j) for j in range(VECTORS)]
            for i in range(ROWS)
        ]
        with builder.if_then(builder.icmp_signed("!=", add, constant(0))):
            for i, j in product(range(ROWS), range(VECTORS)):
                builder.store(builder.load(places[i][j], align=4), sums[i][j])
        with cgutils.for_range(builder, depth) as step:
            weights = [
                builder.load(address(w, w_stride, step.index, 4 * LANES * j), align=4) for j in range(VECTORS)
            ]
            for i in range(ROWS):
                start = builder.add(a, builder.mul(a_row, constant(i)))
                factor = builder.load(address(start, a_column, step.index, kind=number), align=4)
                factor = builder.insert_element(nothing, factor, ir.Constant(integer, 0))
                factor = builder.shuffle_vector(factor, nothing, first)
                for j in range(VECTORS):
                    term = builder.fmul(factor, weights[j], flags=("contract",))
                    total = builder.fadd(term, builder.load(sums[i][j]), flags=("contract",))
                    builder.store(total, sums[i][j])
        for i, j in product(range(ROWS), range(VECTORS)):
            builder.store(builder.load(sums[i][j]), places[i][j], align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 9), generate


@loop
def _multiply(a, w, out, add):
    """Tile by tile: the columns of the matrix that a tile reads stay in the cache for all rows."""
    row, column, depth = a.strides[0], a.strides[1], a.shape[1]
    w_stride, out_stride = w.strides[0], out.strides[0]
    for j in range(0, out.shape[1], COLUMNS):
        for i in range(0, out.shape[0], ROWS):
            start, end = a.ctypes.data + i * row, out.ctypes.data + i * out_stride + 4 * j
            _tile(  # type: ignore[call-arg]
                start, row, column, w.ctypes.data + 4 * j, w_stride, end, out_stride, depth, int(add)
            )
