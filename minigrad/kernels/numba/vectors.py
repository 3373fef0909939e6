"""Explicit vector instructions on LANES numbers, for loops that the compiler does not vectorize.

An intrinsic emits LLVM IR when a loop that calls it is compiled. Each operator of a `Vector` emits an
instruction, so formulas look like formulas. After a change here, delete `__pycache__` of this folder (see
`mathematics`).

Measured with AVX2 on one thread (`python -m tools.compare`): with attention's softmax, copies and transposes
as plain loops, a step of `tiny` takes 1.09 to 1.13 times as long, and one of `nano` 1.06 to 1.12.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .mathematics import EXP, EXP_LOWEST, LN2, LOG2E, ROUND, inline, intrinsic

LANES = 16  # numbers in a vector
FLOAT = ir.FloatType()
FLOATS = ir.VectorType(FLOAT, LANES)
INTEGERS = ir.VectorType(ir.IntType(32), LANES)
LOWEST = -3.4028234663852886e38  # the lowest finite float32


def number(n: int) -> Any:
    """An integer constant as wide as an address."""
    return ir.Constant(ir.IntType(8 * np.intp().itemsize), n)


@inline
def up(size, step):
    """`size` rounded up to a multiple of `step`."""
    return (size + step - 1) // step * step


class Vector:
    """LANES float32 numbers. A product and a sum may be fused into one instruction."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    @classmethod
    def of(cls, builder: Any, scalar: Any) -> Vector:
        """Broadcast a scalar to all lanes."""
        first = ir.Constant(INTEGERS.element, 0)
        alone = builder.insert_element(ir.Constant(FLOATS, ir.Undefined), scalar, first)
        return cls(builder, builder.shuffle_vector(alone, alone, ir.Constant(INTEGERS, [0] * LANES)))

    def like(self, x: Any) -> Vector:
        """x itself if it is a vector; a Python number broadcast to all lanes."""
        return x if isinstance(x, Vector) else Vector(self.builder, ir.Constant(FLOATS, [float(x)] * LANES))

    def __add__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.fadd(self.value, self.like(other).value, ("contract",)))

    def __sub__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.fsub(self.value, self.like(other).value, ("contract",)))

    def __mul__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.fmul(self.value, self.like(other).value, ("contract",)))

    def __rtruediv__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.fdiv(self.like(other).value, self.value, ("contract",)))

    def where(self, comparison: str, other: Any, then: Any, otherwise: Any) -> Vector:
        """`then` in the lanes where the comparison with `other` holds, `otherwise` in the others."""
        holds = self.builder.fcmp_ordered(comparison, self.value, self.like(other).value)
        chosen = self.builder.select(holds, self.like(then).value, self.like(otherwise).value)
        return Vector(self.builder, chosen)

    def exp_below(self) -> Vector:
        """`mathematics.exp_below`: e^x = 2**n e^r for x <= 0."""
        b = self.builder
        shifted = self.where(">", EXP_LOWEST, self, EXP_LOWEST) * LOG2E + ROUND
        r = self - (shifted - ROUND) * LN2
        p = self.like(EXP[0])
        for coefficient in EXP[1:]:
            p = p * r + coefficient
        power = b.shl(b.bitcast(shifted.value, INTEGERS), ir.Constant(INTEGERS, [23] * LANES))
        result = (p * (r * r) + (r + 1)) * Vector(b, b.bitcast(power, FLOATS))
        return self.where("<", EXP_LOWEST, 0, result)


class Column:
    """Vectors in memory, `stride` bytes apart, starting at an address."""

    def __init__(self, builder: Any, address: Any, stride: Any) -> None:
        self.builder = builder
        self.address = address
        self.stride = stride

    def _pointer(self, index: Any) -> Any:
        address = self.builder.add(self.address, self.builder.mul(self.stride, index))
        return self.builder.inttoptr(address, FLOATS.as_pointer())

    def load(self, index: Any) -> Vector:
        return Vector(self.builder, self.builder.load(self._pointer(index), align=4))

    def store(self, vector: Vector, index: Any) -> None:
        self.builder.store(vector.value, self._pointer(index), align=4)


class Variable:
    """A vector that a loop changes; it stays in a register."""

    def __init__(self, builder: Any, start: float) -> None:
        self.builder = builder
        self.slot = cgutils.alloca_once(builder, FLOATS)
        builder.store(ir.Constant(FLOATS, [float(start)] * LANES), self.slot)

    def get(self) -> Vector:
        return Vector(self.builder, self.builder.load(self.slot))

    def set(self, vector: Vector) -> None:
        self.builder.store(vector.value, self.slot)


# ---------------------------------------------------------------- softmax of columns


@intrinsic
def softmax_columns(typing_context, s, stride, rows, factors):
    """s becomes E = exp(s - m), with m the largest of its column; factors = 1 / sum(E), or 0 if m is -inf."""

    def generate(context, b, signature, args):
        s, stride, rows, factors = args
        column = Column(b, s, stride)
        m = Variable(b, LOWEST)
        total = Variable(b, 0)
        with cgutils.for_range(b, rows) as step:
            x = column.load(step.index)
            m.set(x.where(">", m.get(), x, m.get()))
        with cgutils.for_range(b, rows) as step:
            e = (column.load(step.index) - m.get()).exp_below()
            column.store(e, step.index)
            total.set(total.get() + e)
        factor = total.get().where("==", 0, 0, 1 / total.get())
        Column(b, factors, number(0)).store(factor, number(0))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


@intrinsic
def softmax_columns_backward(typing_context, e, d, stride, rows, factors, scale):
    """With W = factors e and dW = d: e becomes scale dS = scale W (dW - sum(dW W))."""

    def generate(context, b, signature, args):
        e, d, stride, rows, factors, scale = args
        column = Column(b, e, stride)
        gradients = Column(b, d, stride)
        total = Variable(b, 0)
        factor = Column(b, factors, number(0)).load(number(0))
        with cgutils.for_range(b, rows) as step:
            total.set(gradients.load(step.index) * column.load(step.index) + total.get())
        total.set(total.get() * factor)
        factor = factor * Vector.of(b, scale)
        with cgutils.for_range(b, rows) as step:
            difference = (gradients.load(step.index) - total.get()) * factor
            column.store(column.load(step.index) * difference, step.index)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5, types.float32), generate


# ---------------------------------------------------------------- copies


@intrinsic
def scale_vector(typing_context, source, target, scale):
    """target[:LANES] = source[:LANES] * scale, both given as addresses."""

    def generate(context, b, signature, args):
        source, target = (Column(b, address, number(0)) for address in args[:2])
        target.store(source.load(number(0)) * Vector.of(b, args[2]), number(0))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.float32), generate


@intrinsic
def transpose_tile(typing_context, x, x_stride, out, out_stride, scale):
    """out = scale xᵀ for LANES rows and columns: swap off-diagonal blocks, then those within each block."""

    def generate(context, b, signature, args):
        x, x_stride, out, out_stride, scale = args
        rows = [Column(b, x, x_stride).load(number(i)).value for i in range(LANES)]
        size = LANES // 2
        while size:
            left = [j if not j & size else LANES + j - size for j in range(LANES)]
            right = [j + size if not j & size else LANES + j for j in range(LANES)]
            rows = [
                b.shuffle_vector(
                    rows[i & ~size], rows[i | size], ir.Constant(INTEGERS, right if i & size else left)
                )
                for i in range(LANES)
            ]
            size //= 2
        for i, row in enumerate(rows):
            Column(b, out, out_stride).store(Vector(b, row) * Vector.of(b, scale), number(i))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4, types.float32), generate
