"""Half precision: computed in float32, and rounded at the end.

float16 ends at 65504, and NumPy multiplies its matrices without BLAS; bfloat16 has 8 bits of mantissa, too
few to add up in. Neither is to hold a running sum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..devices import HALF, is_array, is_floating


def in_single(kernel: Callable) -> Callable:
    """`kernel`, computing in float32 what is float16 or bfloat16: its squares and sums do not overflow."""

    @wraps(kernel)
    def computed(x: np.ndarray, *others: Any, **settings: Any) -> Any:
        if x.dtype.itemsize != 2 or x.dtype not in HALF:
            return kernel(x, *others, **settings)
        return rounded(kernel, x.dtype, (x, *others), settings)

    return computed


def rounded(rule: Callable, dtype: np.dtype, arrays: Any, settings: dict[str, Any]) -> tuple[Any, Any]:
    """A rule's value and gradients, computed in float32 and rounded to `dtype`."""
    single, narrow = (lambda a: _as(np.float32, a)), (lambda a: _as(dtype, a))
    value, gradients = rule(*map(single, arrays), **settings)
    value = tuple(map(narrow, value)) if type(value) is tuple else narrow(value)
    if type(gradients) is tuple:
        return value, tuple(f and (lambda g, f=f: narrow(f(single(g)))) for f in gradients)
    if gradients is None:
        return value, None
    wide = lambda g: list(map(single, g)) if type(g) is list else single(g)
    return value, lambda g, needs: tuple(map(narrow, gradients(wide(g), needs)))


def _as(dtype: Any, a: Any) -> Any:
    """A floating array in another precision; masks, whole numbers and None as they are."""
    return a.astype(dtype) if (is_array(a) or isinstance(a, np.generic)) and is_floating(a.dtype) else a
