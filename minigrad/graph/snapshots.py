"""Functions that take snapshots of arrays: statistics, and the elements of small arrays."""

from __future__ import annotations

import math

import numpy as np

from ..core.devices import on_cpu
from ..core.dtypes import is_floating
from .data import Snapshot, Statistics

WHOLE = 256  # snapshots keep all elements of arrays with at most this many
CORNER = 6  # how many rows and columns of larger arrays they keep
SAMPLED = 8, 10  # the most rows and columns of a sample
SQUARABLE = 1e12  # magnitudes between 1 / SQUARABLE and SQUARABLE have squares that fit into float32
CHUNK = 1 << 16  # the number of elements in a chunk, whose temporaries stay in the cache


def snapshot(array: np.ndarray, whole: int = WHOLE) -> Snapshot:
    """Return a snapshot of `array` that does not refer to its memory."""
    kept = array.size <= whole
    array = on_cpu(array)
    numbers = np.array(array if kept else corner(array))
    numbers.flags.writeable = False
    return Snapshot(
        tuple(array.shape), str(array.dtype), array.nbytes, statistics(array), numbers, kept, sample(array)
    )


def corner(array: np.ndarray) -> np.ndarray:
    """Return the first CORNER rows and columns of the first matrix."""
    while array.ndim > 2:
        array = array[0]
    return array[tuple(slice(CORNER) for _ in array.shape)]


def sample(array: np.ndarray) -> np.ndarray:
    """Return evenly spaced elements of an array as a small matrix.

    The rows of an array with more than two axes are indexed by all axes but the last.
    """
    if not array.ndim or not array.size:
        return np.array(array.reshape(1, -1))
    lengths = math.prod(array.shape[:-1]), array.shape[-1]
    rows, columns = (
        np.linspace(0, n - 1, min(n, most)).round().astype(int)
        for n, most in zip(lengths, SAMPLED, strict=True)
    )
    leading = np.unravel_index(rows, array.shape[:-1]) if array.ndim > 1 else ()
    return np.array(array[(*(index[:, None] for index in leading), columns)]).reshape(len(rows), -1)


def statistics(array: np.ndarray) -> Statistics | None:
    """Return the statistics of the finite elements, in float64; None for an empty array."""
    if not array.size:
        return None
    flat = array.reshape(-1) if array.flags.c_contiguous else array.ravel(order="K")
    if not is_floating(flat.dtype):
        flat = flat.astype(np.float64)
    low, high = float(flat.min()), float(flat.max())
    nan = inf = 0
    if not (math.isfinite(low) and math.isfinite(high)):
        nan, inf = int(np.isnan(flat).sum()), int(np.isinf(flat).sum())
        flat = flat[np.isfinite(flat)]
        if not flat.size:
            return Statistics(math.nan, math.nan, math.nan, math.nan, math.nan, nan, inf)
        low, high = float(flat.min()), float(flat.max())
    scale = max(abs(low), abs(high))
    if scale and not 1 / SQUARABLE < scale < SQUARABLE:  # squares would be 0 or infinity
        flat = flat / scale
    else:
        scale = 1.0
    mean = float(flat.mean(dtype=np.float64)) if flat.size <= CHUNK else _mean(flat)
    variance = _sum_of_squares(flat, mean) / flat.size
    norm = math.sqrt(flat.size * (variance + mean * mean))
    return Statistics(low, scale * mean, high, scale * math.sqrt(variance), scale * norm, nan, inf)


def _mean(flat: np.ndarray) -> float:
    """Return the mean. Chunks are summed in the array's dtype (at least float32), their sums in float64."""
    dtype = np.result_type(flat.dtype, np.float32)
    chunks = range(0, flat.size, CHUNK)
    return math.fsum(float(flat[i : i + CHUNK].sum(dtype=dtype)) for i in chunks) / flat.size


def _sum_of_squares(flat: np.ndarray, mean: float) -> float:
    """Return the sum of squared deviations, in float64 for small arrays, in chunks for large ones."""
    if flat.size <= CHUNK:
        deviation = flat.astype(np.float64) - mean
        return float(deviation @ deviation)
    dtype = np.result_type(flat.dtype, np.float32)
    center = dtype.type(mean)
    total = 0.0
    for i in range(0, flat.size, CHUNK):
        deviation = flat[i : i + CHUNK] - center
        total += float(np.dot(deviation, deviation))
    return total
