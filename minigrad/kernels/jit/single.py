"""What the loops take: float32 arrays whose elements lie one behind another."""

from __future__ import annotations

from typing import Any

import numpy as np

SINGLE = np.dtype(np.float32)


def is_single(*arrays: Any) -> bool:
    """Whether all arrays (None aside) are float32."""
    for array in arrays:  # a loop: `all` of a generator takes three times as long
        if array is not None and array.dtype is not SINGLE and array.dtype != SINGLE:
            return False
    return True


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array itself, or a copy with its elements in order."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def rows_of(array: np.ndarray) -> np.ndarray:
    """The array as a matrix, a row for each place of the leading axes."""
    return array.reshape(-1, array.shape[-1]) if array.size else array.reshape(0, array.shape[-1])
