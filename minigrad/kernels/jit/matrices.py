"""Products of matrices by our own loop, where NumPy's BLAS does not use the processor's vector instructions.

OpenBLAS 0.3.31 takes an AMD processor of family 26 (Zen 5) for an older one without AVX-512: half as fast.
One thread of ours is then as fast as two of its, and its sums do not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from .. import cpu
from ..blas import blas_libraries, blas_threads
from .arrays import FLOAT32, is_float32
from .products import VECTORS

# of a product that is ours: of fewer rows, columns or multiplications, BLAS is as fast
FEWEST_ROWS, FEWEST_COLUMNS, SMALLEST = 12, 24, 1 << 15
KNOWS_AVX512 = {"SkylakeX", "Cooperlake", "Sapphirerapids"}  # of OpenBLAS's architectures


def blas_is_slower() -> bool:
    """Whether OpenBLAS's threads together are at most as fast as one of ours, by what they are made for."""
    architecture = next(iter(blas_libraries()), {}).get("architecture")
    return VECTORS == 2 and architecture not in {None, *KNOWS_AVX512} and blas_threads() <= 2


if is_used := blas_is_slower():
    from .gemm import gemm  # compiles it, the first time


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b of two matrices."""
    rows, columns = len(a), b.shape[1]
    is_large = rows >= FEWEST_ROWS and columns >= FEWEST_COLUMNS and a.size * columns >= SMALLEST
    fits = a.shape[1] == len(b) and is_float32(a, b) and _has_steps(a) and _has_steps(b)
    if not (is_used and is_large and fits):
        return cpu.times(a, b)  # which refuses matrices of other sizes
    out = np.empty((rows, columns), FLOAT32)
    gemm(a, b, out)
    return out


def _has_steps(x: np.ndarray) -> bool:
    return min(x.strides) > 0 and x.flags.aligned


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.ndim == b.ndim == 2:
        return times(a, b)
    if b.ndim == 2 and a.ndim > 2 and a.size and a.flags.c_contiguous:  # all rows of the batch at once
        return times(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return cpu.matmul(a, b)


def linear(x, weight, bias, times=times):
    return cpu.linear(x, weight, bias, times)
