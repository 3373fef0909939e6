"""Products of the small matrices of an attention head, by a tile that is written in LLVM IR.

BLAS copies the matrix into an order of its own each time, which pays where many rows are multiplied. Here a
tile of the result is kept in vector registers while its rows and columns are read where they are (Goto and
van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication", section 4). The compiler keeps no tile
in registers of its own accord.

What it saves, with AVX2 on one thread (`python -m tools.compare`): with the products by BLAS, a tile of
`cpu.attention` at a time, a step of `tiny` takes 1.17 to 1.21 times as long, of `nano` 1.11, of `phrasebook`
1.03 and of `base` as long. After a change here delete `__pycache__` of this folder (`mathematics` says why).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import extending, types
from numba.core import cgutils

from .mathematics import inline, loop

intrinsic: Any = extending.intrinsic  # whose own type counts the typing context among the arguments

LANES = 16  # numbers of a vector
ROWS, VECTORS = (8, 2) if binding.get_host_cpu_features().get("avx512f") else (4, 1)  # of a tile
COLUMNS = LANES * VECTORS
FLOAT, ADDRESS = ir.FloatType(), ir.IntType(8 * np.intp().itemsize)
FLOATS, INTEGERS = ir.VectorType(FLOAT, LANES), ir.VectorType(ir.IntType(32), LANES)
CONTRACT = ("contract",)  # a product and a sum may be one instruction


@inline
def up(size, step):
    """The least multiple of `step` that is not below `size`."""
    return (size + step - 1) // step * step


def _at(b: Any, start: Any, stride: Any, index: Any, offset: int = 0) -> Any:
    """The address of a number: so many strides, and so many bytes, after the start."""
    return b.add(b.add(start, ADDRESS(offset)), b.mul(stride, index))


def _load(b: Any, address: Any, kind: Any) -> Any:
    return b.load(b.inttoptr(address, kind.as_pointer()), align=4)


def _in_all_lanes(b: Any, number: Any) -> Any:
    alone = b.insert_element(ir.Constant(FLOATS, ir.Undefined), number, ir.Constant(INTEGERS.element, 0))
    return b.shuffle_vector(alone, alone, ir.Constant(INTEGERS, [0] * LANES))


def _tile_of(vectors: int) -> Callable:
    """The function of a tile with so many vectors in a row."""
    places = list(product(range(ROWS), range(vectors)))

    @intrinsic
    def multiply_tile(typing_context, a, a_row, a_column, w, w_stride, out, out_stride, depth, add):
        """out[:ROWS, :LANES * vectors] = a[:ROWS] @ w at these addresses, plus itself if `add` is 1.

        Strides, of rows or columns, are in bytes.
        """

        def generate(context, b, signature, args):
            a, a_row, a_column, w, w_stride, out, out_stride, depth, add = args
            zero = ir.Constant(FLOATS, [0.0] * LANES)
            sums = {place: cgutils.alloca_once_value(b, zero) for place in places}
            results = {(i, j): _at(b, out, out_stride, ADDRESS(i), 4 * LANES * j) for i, j in places}
            with cgutils.for_range(b, depth) as step:
                row = [
                    _load(b, _at(b, w, w_stride, step.index, 4 * LANES * j), FLOATS) for j in range(vectors)
                ]
                for i in range(ROWS):
                    number = _load(b, b.add(_at(b, a, a_row, ADDRESS(i)), b.mul(a_column, step.index)), FLOAT)
                    factor = _in_all_lanes(b, number)
                    for j in range(vectors):
                        term = b.fmul(factor, row[j], CONTRACT)
                        b.store(b.fadd(term, b.load(sums[i, j]), CONTRACT), sums[i, j])
            with b.if_then(b.icmp_signed("!=", add, ADDRESS(0))):
                for place, address in results.items():
                    total = b.fadd(_load(b, address, FLOATS), b.load(sums[place]), CONTRACT)
                    b.store(total, sums[place])
            for place, address in results.items():
                b.store(b.load(sums[place]), b.inttoptr(address, FLOATS.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 9), generate

    return multiply_tile


tile, _narrow_tile = _tile_of(VECTORS), _tile_of(1)


@loop
def panel(a, a_row, a_column, w, w_stride, out, out_stride, columns, depth, add):
    """out[:ROWS, :columns] = a[:ROWS, :depth] @ w[:depth, :columns] at these addresses, strides in bytes.

    It is added if `add` is 1. The columns are a multiple of LANES.
    """
    wide = columns - columns % COLUMNS
    for j in range(0, wide, COLUMNS):
        tile(a, a_row, a_column, w + 4 * j, w_stride, out + 4 * j, out_stride, depth, add)
    for j in range(wide, columns, LANES):
        _narrow_tile(a, a_row, a_column, w + 4 * j, w_stride, out + 4 * j, out_stride, depth, add)
