"""Half precision: numbers end at 65504, and NumPy multiplies its matrices without BLAS."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...devices import is_array

HALF = np.dtype(np.float16)


def in_single(kernel: Callable) -> Callable:
    """`kernel`, which computes what is float16 in float32: its squares and sums do not overflow."""

    @wraps(kernel)
    def computed(x: np.ndarray, *others: Any, **settings: Any) -> Any:
        if x.dtype != HALF:
            return kernel(x, *others, **settings)
        value, gradients = kernel(*[_as(np.float32, a) for a in (x, *others)], **settings)
        back = lambda g, needs: tuple(_as(np.float16, d) for d in gradients(_as(np.float32, g), needs))
        return _as(np.float16, value), back

    return computed


def _as(dtype: Any, a: Any) -> Any:
    """A floating array in another precision; masks, whole numbers and None as they are."""
    return a.astype(dtype) if (is_array(a) or isinstance(a, np.generic)) and a.dtype.kind == "f" else a
