"""Matrix products of a plan by `kernels.jit.gemm`, where that has BLAS's numbers bit for bit in less time.

Both are tried on random matrices of the same shapes and strides: in which order a product adds does not
depend on the numbers. (It does depend on whether both factors are the same memory: of xᵀ x BLAS computes one
half, in another order.) Which is faster is measured once for products of about the same size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from ..kernels.blas import blas_threads
from .calls import Call

SMALLEST, LARGEST = 1 << 15, 1 << 27  # multiplications: BLAS is as fast at larger products
LARGEST_OF_THREADS = 1 << 20  # where BLAS has several threads, to which it gives larger products
TRIES = 5  # of which the fastest counts
CLEARLY = 0.97  # of BLAS's time

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape, strides
measured: dict[Any, bool] = {}  # by about how large the matrices are: whether ours is faster


def faster_products(calls: list[Call]) -> list[Call]:
    """The calls, with products of matrices by our loop where it is faster."""
    from ..kernels.jit.gemm import gemm  # compiles it, the first time

    largest = LARGEST if blas_threads() == 1 else LARGEST_OF_THREADS
    return [_faster(call, gemm, largest) for call in calls]


def _faster(call: Call, gemm: Callable[..., None], largest: int) -> Call:
    if call.function is not np.dot and call.function is not np.matmul:
        return call
    (a, w), out = call.args[:2], call.settings.get("out", call.args[-1])  # a call of a plan always has one
    out = out[0] if type(out) is tuple else out
    if not all(map(_is_matrix, (a, w, out))) or out.strides[1] != 4:
        return call
    if any(np.may_share_memory(x, y) for x, y in ((a, w), (a, out), (w, out))):
        return call
    if not SMALLEST <= a.size * w.shape[1] <= largest:
        return call
    is_better = _is_better(gemm, (a.shape, a.strides), (w.shape, w.strides), (out.shape, out.strides))
    return Call(gemm, (a, w, out), {}, "gemm") if is_better else call


def _is_matrix(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype == np.float32 and min(x.strides) > 0


@cache
def _is_better(gemm: Callable[..., None], a: Layout, w: Layout, out: Layout) -> bool:
    """Whether ours has BLAS's bits, and is faster."""
    rng = np.random.default_rng(0)
    x, y, blas, ours = (_draw(rng, *layout) for layout in (a, w, out, out))
    np.matmul(x, y, out=blas)
    gemm(x, y, ours)
    if blas.tobytes() != ours.tobytes():
        return False
    key = tuple((*(n.bit_length() for n in shape), strides[1] == 4) for shape, strides in (a, w))
    if key not in measured:
        both = partial(np.matmul, x, y, out=blas), partial(gemm, x, y, ours)
        theirs, own = (min(times) for times in zip(*[map(_seconds, both) for _ in range(TRIES)], strict=True))
        measured[key] = own < CLEARLY * theirs
    return measured[key]


def _draw(rng: np.random.Generator, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Random numbers in a matrix that lies in memory as this one does."""
    size = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 4
    return np.ndarray(shape, np.float32, rng.standard_normal(size // 4, np.float32), 0, strides)


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
