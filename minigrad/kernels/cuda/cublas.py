"""Matrix products on a GPU, through cuBLAS.

They need nvmath-python's bindings; without them CuPy's matmul is used, which cannot be captured. Supported
are float32 (or TF32, which has 10 bits of mantissa: see `set_float32_matmul_precision`), float64, and float16
and bfloat16 with sums in float32. Transposed and sliced views are not copied, and a bias is added in the same
kernel (`cublaslt`).

cuBLAS stores matrices by columns, NumPy and CuPy by rows. A matrix stored by rows is its transpose stored by
columns, so C = A B here is Cᵀ = Bᵀ Aᵀ in cuBLAS.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...core.devices import array_module
from ...core.dtypes import HALF, bfloat16, float16, float32, float64
from ...core.kernels import kernel
from ...core.precision import float32_matmul
from ...ops import linalg as ops
from .cublaslt import Sizes, library, product_with_epilogue

NORMAL, TRANSPOSED = 0, 1  # cublasOperation_t
KINDS = {float32: 0, float64: 1, float16: 2, bfloat16: 14}  # cudaDataType
IN_FLOAT32, IN_FLOAT64, IN_TF32 = 68, 70, 77  # cublasComputeType_t
DEFAULT = -1  # cublasGemmAlgo_t
WORKSPACE = 32 << 20  # bytes; preallocated, since nothing may be allocated in a capture


@kernel(ops.matmul, "cupy")
def matmul(x, y):
    """The matrix product; with C = A B: dA = G Bᵀ, dB = Aᵀ G. A vector is a matrix of one row or column."""
    if bool in (x.dtype, y.dtype) or not (x.ndim and y.ndim):
        return None  # the op's own rule raises
    xp = array_module(x)
    a = x[None] if x.ndim == 1 else x
    b = y[:, None] if y.ndim == 1 else y
    left_out = tuple(axis for axis, operand in ((-2, x), (-1, y)) if operand.ndim == 1)
    try:
        value = product(a, b)
    except ValueError:
        return None  # likewise, for shapes that do not match

    def left(g):
        r = product(xp.expand_dims(g, left_out), b.swapaxes(-1, -2))
        return r[..., 0, :] if x.ndim == 1 else r

    def right(g):
        g = xp.expand_dims(g, left_out)
        if a.ndim > 2 and b.ndim == 2:  # all rows of the batch at once, rather than a sum over the batch
            r = product(a.reshape(-1, a.shape[-1]).swapaxes(0, 1), g.reshape(-1, g.shape[-1]))
        else:
            r = product(a.swapaxes(-1, -2), g)
        return r[..., 0] if y.ndim == 1 else r

    return xp.squeeze(value, left_out), (left, right)


def product(a: Any, b: Any) -> Any:
    """a @ b for matrices or batches of them; 16-bit products are summed in float32."""
    if a.dtype == b.dtype and _supports(a, b):
        return _product(a, b)
    if a.dtype == bfloat16 and max(a.ndim, b.ndim) > 2:  # CuPy does not multiply batches of bfloat16
        return (a.astype(float32) @ b.astype(float32)).astype(bfloat16)
    return a @ b


def affine(x: Any, weight: Any, bias: Any) -> Any:
    """x Wᵀ + b for the rows of x, rounded once."""
    if x.dtype == weight.dtype and (bias is None or bias.dtype == x.dtype) and _supports(x, weight):
        return _product(x, weight.T, bias)
    wide = float32 if x.dtype in HALF else x.dtype
    y = x.astype(wide, copy=False) @ weight.astype(wide, copy=False).T
    if bias is not None:
        y += bias.astype(wide, copy=False)
    return y.astype(x.dtype, copy=False)


def product_and_row_sums(a: Any, b: Any) -> tuple[Any, Any] | None:
    """a @ b and the sums of the rows of a, for 16-bit matrices, in one kernel; None if it is unsupported."""
    if a.dtype not in HALF or a.dtype != b.dtype or not _supports(a, b):
        return None
    sums = array_module(a).empty(len(a), a.dtype)
    value = _product(a, b, row_sums=sums)
    return None if value is None else (value, sums)


@kernel(ops.linear, "cupy")
def linear(x, weight, bias):
    return linear_with(sum_of_rows, x, weight, bias)


def sum_of_rows(g: Any) -> Any:
    """The sum over the rows of a matrix; 16-bit numbers are summed in float32."""
    return g.sum(axis=0, dtype=float32 if g.dtype in HALF else g.dtype).astype(g.dtype, copy=False)


def linear_with(sum_rows: Callable[[Any], Any], x: Any, weight: Any, bias: Any) -> Any:
    """x Wᵀ + b: dx = g W, dW = gᵀ x, db = the sum of g over all rows, by `sum_rows`."""
    rows = x.reshape(-1, x.shape[-1])
    y = affine(rows, weight, bias)

    def gradient(g, needs):
        flat = g.reshape(-1, g.shape[-1])
        both = product_and_row_sums(flat.T, rows) if needs[1] and needs[2] else None
        d_weight, d_bias = both or (
            product(flat.T, rows) if needs[1] else None,
            sum_rows(flat) if needs[2] else None,
        )
        return product(flat, weight).reshape(x.shape) if needs[0] else None, d_weight, d_bias

    return y.reshape(x.shape[:-1] + y.shape[1:]), gradient


# ---------------------------------------------------------------- through cuBLAS


class Layout(NamedTuple):
    """A matrix, or a batch of them, as cuBLAS reads it (by columns, so transposed)."""

    array: Any  # the array, or a contiguous copy
    operation: int
    leading: int  # the leading dimension: elements between rows or, if transposed, between columns
    batch_stride: int  # elements between matrices of a batch


def layout(x: Any, batch: tuple[int, ...]) -> Layout:
    """The layout of a matrix, or of a batch of them broadcast to `batch`; x is copied if it has none."""
    rows, columns = x.shape[-2:]
    *lead, down, right = [step // x.itemsize for step in x.strides]
    lead = [0] * (len(batch) - len(lead)) + [
        0 if n == 1 else step for n, step in zip(x.shape[:-2], lead, strict=True)
    ]
    apart = _one_stride(lead, batch)
    if apart is not None:
        if (right == 1 or columns == 1) and (down >= max(columns, 1) or rows == 1):
            return Layout(x, NORMAL, max(down, columns) if rows > 1 else columns, apart)
        if (down == 1 or rows == 1) and (right >= rows or columns == 1):
            return Layout(x, TRANSPOSED, max(right, rows) if columns > 1 else rows, apart)
    xp = array_module(x)
    return layout(xp.array(xp.broadcast_to(x, (*batch, rows, columns)), order="C"), batch)


def _one_stride(strides: list[int], batch: tuple[int, ...]) -> int | None:
    """The stride between the matrices of a batch; None if there is no single one."""
    axes = [(step, n) for step, n in zip(strides, batch, strict=True) if n > 1]
    for (outer, _), (inner, n) in pairwise(axes):
        if outer != inner * n:
            return None
    return axes[-1][0] if axes else 0


def _supports(a: Any, b: Any) -> bool:
    """Whether cuBLAS is installed and supports these arrays."""
    return a.dtype in KINDS and bool(a.size) and bool(b.size) and handle_in_use(array_module(a)) is not None


def _product(a: Any, b: Any, onto: Any = None, row_sums: Any = None) -> Any:
    """a @ b, or a @ b + onto, with `onto` a vector that is added to every row.

    With `row_sums`, a vector, write the sums of the rows of a to it; return None if that is not supported.
    """
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"shapes {a.shape} and {b.shape} do not match")
    if len(batch) and b.ndim == 2 and a.flags.c_contiguous:  # all rows of the batch in one product
        return _product(a.reshape(-1, a.shape[-1]), b, onto).reshape(*a.shape[:-1], b.shape[-1])
    xp = array_module(a)
    m, k = a.shape[-2:]
    n = b.shape[-1]
    y = xp.empty((*batch, m, n), a.dtype)
    # cuBLAS reads the matrices transposed, so a and b are swapped
    left = layout(b, batch)
    right = layout(a, batch)
    kind = KINDS[a.dtype]
    compute = _computing(a.dtype)
    zero, one = _FACTORS[compute == IN_FLOAT64]
    beta = zero if onto is None else one  # cuBLAS computes a b + beta y
    cublas = handle_in_use(xp)
    number = math.prod(batch)
    assert cublas is not None
    vector = onto if row_sums is None else row_sums
    if vector is not None:
        turned = (left.operation, right.operation)
        leading = (left.leading, right.leading)
        described = Sizes(n, m, k, turned, leading, kind, compute, "BIAS" if row_sums is None else "BGRADB")
        addresses = left.array.data.ptr, right.array.data.ptr, vector.data.ptr, y.data.ptr
        at_once = number == 1 and compute != IN_FLOAT64 and vector.flags.c_contiguous
        if at_once and product_with_epilogue(cublas, described, addresses, one, zero):
            return y
        if row_sums is not None:
            return None
        y[...] = onto
    sizes = cublas.handle, left.operation, right.operation, n, m, k, one
    first = left.array.data.ptr, kind, left.leading
    second = right.array.data.ptr, kind, right.leading
    result = y.data.ptr, kind, n
    if number == 1:
        cublas.bindings.gemm_ex(*sizes, *first, *second, beta, *result, compute, DEFAULT)
    else:
        apart = left.batch_stride, right.batch_stride, m * n, number
        cublas.bindings.gemm_strided_batched_ex(
            *sizes, *first, apart[0], *second, apart[1], beta, *result, *apart[2:], compute, DEFAULT
        )
    return y


_NUMBERS = np.array([0, 1], np.float32), np.array([0, 1], np.float64)
_FACTORS = [
    (x.ctypes.data, x.ctypes.data + x.itemsize) for x in _NUMBERS
]  # the addresses of 0 and 1 in the host's memory


def _computing(dtype: Any) -> int:
    if dtype == float64:
        return IN_FLOAT64
    return IN_TF32 if dtype == float32 and float32_matmul.precision == "high" else IN_FLOAT32


class Handle:
    """A cuBLAS handle for a stream of a GPU, with a workspace.

    Each stream has its own, since streams run concurrently. Threads may share it, since it never changes. It
    is never freed, since graphs captured on the stream use its workspace.
    """

    def __init__(self, bindings: Any, xp: Any, device: int, stream: int) -> None:
        self.bindings = bindings
        self.handle = bindings.create()
        self.stream = stream
        self.lt = library(xp, device)
        self.workspace = xp.empty(WORKSPACE, np.uint8)
        bindings.set_stream(self.handle, stream)
        # after set_stream, which resets the workspace
        bindings.set_workspace(self.handle, self.workspace.data.ptr, WORKSPACE)


def handle_in_use(xp: Any) -> Handle | None:
    """The handle for the GPU and stream in use; None if nvmath-python or cuBLAS is not installed.

    Creating one allocates memory, so it must be called on a stream before a capture begins on it.
    """
    return _handle(xp, xp.cuda.runtime.getDevice(), xp.cuda.get_current_stream().ptr)


@cache
def _handle(xp: Any, device: int, stream: int) -> Handle | None:
    try:
        return Handle(importlib.import_module("nvmath.bindings.cublas"), xp, device, stream)
    except (ImportError, RuntimeError):  # RuntimeError: cuBLAS itself is missing
        return None
