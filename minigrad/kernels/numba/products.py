"""Products of small matrices, as in an attention head.

BLAS packs the matrix into its own layout on each call, which pays only if many rows are multiplied. Here a
tile of the result stays in vector registers, and the operands are read in place (Goto and van de Geijn 2008,
"Anatomy of High-Performance Matrix Multiplication", section 4). The compiler does not keep a tile in
registers, so the tile is written in LLVM IR. After a change here, delete `__pycache__` of this folder (see
`mathematics`).

Measured as in `vectors`: with BLAS products, one tile of the NumPy kernel at a time, a step of `tiny` takes
1.17 to 1.21 times as long, of `nano` 1.11, of `phrasebook` 1.03.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from llvmlite import binding
from numba import types
from numba.core import cgutils

from .mathematics import intrinsic, loop
from .vectors import FLOAT, LANES, Column, Variable, Vector, number

ROWS, VECTORS = (8, 2) if binding.get_host_cpu_features().get("avx512f") else (4, 1)  # per tile
COLUMNS = LANES * VECTORS


def _make_tile_multiply(vectors: int) -> Callable:
    """Return an intrinsic that computes an output tile of ROWS rows, each `vectors` SIMD vectors wide."""

    @intrinsic
    def multiply_tile(typing_context, a, a_row, a_column, w, w_stride, out, out_stride, depth, add):
        """out[:ROWS, :LANES * vectors] = a[:ROWS] @ w, or += if `add` is 1.

        Arrays are passed as addresses, and strides in bytes.
        """

        def generate(context, b, signature, args):
            a, a_row, a_column, w, w_stride, out, out_stride, depth, add = args
            sums = [[Variable(b, 0) for _ in range(vectors)] for _ in range(ROWS)]
            weights = [Column(b, b.add(w, number(4 * LANES * j)), w_stride) for j in range(vectors)]
            results = [Column(b, b.add(out, number(4 * LANES * j)), out_stride) for j in range(vectors)]
            with cgutils.for_range(b, depth) as step:
                row = [column.load(step.index) for column in weights]
                for i in range(ROWS):
                    address = b.add(b.add(a, b.mul(a_row, number(i))), b.mul(a_column, step.index))
                    factor = Vector.of(b, b.load(b.inttoptr(address, FLOAT.as_pointer()), align=4))
                    for j in range(vectors):
                        sums[i][j].set(factor * row[j] + sums[i][j].get())
            with b.if_then(b.icmp_signed("!=", add, number(0))):
                for i, j in product(range(ROWS), range(vectors)):
                    sums[i][j].set(results[j].load(number(i)) + sums[i][j].get())
            for i, j in product(range(ROWS), range(vectors)):
                results[j].store(sums[i][j].get(), number(i))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 9), generate

    return multiply_tile


tile, _narrow_tile = _make_tile_multiply(VECTORS), _make_tile_multiply(1)


@loop
def panel(a, a_row, a_column, w, w_stride, out, out_stride, columns, depth, add):
    """out[:ROWS, :columns] = a[:ROWS, :depth] @ w[:depth, :columns], or += if `add` is 1.

    Arrays are passed as addresses, and strides in bytes. `columns` must be a multiple of LANES.
    """
    wide = columns - columns % COLUMNS
    for j in range(0, wide, COLUMNS):
        tile(a, a_row, a_column, w + 4 * j, w_stride, out + 4 * j, out_stride, depth, add)
    for j in range(wide, columns, LANES):
        _narrow_tile(a, a_row, a_column, w + 4 * j, w_stride, out + 4 * j, out_stride, depth, add)
