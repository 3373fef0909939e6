"""What the loops take: float32 arrays whose elements lie one behind another."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_single(*arrays: Any) -> bool:
    """Whether all arrays (None aside) are float32."""
    return all(a is None or a.dtype == np.float32 for a in arrays)


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array itself, or a copy with its elements in order."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def rows_of(array: np.ndarray) -> np.ndarray:
    """The array as a matrix, a row for each place of the leading axes."""
    return array.reshape(-1, array.shape[-1]) if array.size else array.reshape(0, array.shape[-1])
