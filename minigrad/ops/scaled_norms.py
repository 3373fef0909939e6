"""Norms and mean squares of arrays, without overflow or underflow of the squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import float64
from ..core.sums import stable_sum


def scaled_norm(x: Any, p: float, axes: tuple[int, ...]) -> Any:
    """sum(|x|**p)**(1/p) over some axes, which are kept, for a finite p other than 0.

    A sum that overflows or underflows is recomputed with x divided by a power of two near its dominant
    element, which changes no digits. On a GPU, where looking at the sums would synchronize, all sums are
    computed in float64.
    """
    if not isinstance(x, np.ndarray):
        return _power_sum(x.astype(float64), p, axes)[1].astype(x.dtype)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        sums, lengths = _power_sum(x, p, axes)
        info = np.finfo(x.dtype)
        lost = ~((sums > info.tiny / info.eps) & (sums < np.inf))
        if not lost.any():
            return lengths
        size = np.abs(x)
        extreme = np.max if p > 0 else np.min
        most = extreme(size, axis=axes, keepdims=True) if size.size else sums
        lost &= (most > 0) & (most < np.inf)
        if not lost.any():
            return lengths
        _, exponents = np.frexp(np.where(lost, most, 1))
        _, scaled = _power_sum(np.where(lost, np.ldexp(size, -exponents), 0), p, axes)
        return np.where(lost, np.ldexp(scaled, exponents), lengths)


def mean_square(x: Any, divisor: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    """sum(x**2) / divisor over some axes, also where the sum alone is too large for the dtype."""
    with np.errstate(over="ignore"):  # such sums are computed again
        value = stable_sum(x * x, axes, True) / divisor
    if isinstance(x, np.ndarray) and np.isinf(value).any():
        value = np.where(np.isinf(value), (scaled_norm(x, 2, axes) / divisor**0.5) ** 2, value)
    return value if keepdim else value.reshape(tuple(n for i, n in enumerate(x.shape) if i not in axes))


def _power_sum(x: Any, p: float, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return sum(|x|**p) and its p-th root."""
    if p == 2:
        sums = stable_sum(x * x, axes, True)
        return sums, sums**0.5
    sums = stable_sum(abs(x) ** p, axes, True)
    return sums, sums ** (1 / p)
