"""16-bit dtypes: computed in float32, and rounded once at the end.

float16 ends at 65504, and NumPy multiplies its matrices without BLAS. bfloat16 has 8 bits of mantissa.
Neither is fit for a running sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..devices import is_array, is_floating


def compute_in_float32(
    rule: Callable, dtype: np.dtype, arrays: Any, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """A rule's value and gradients, computed in float32 and rounded to `dtype`."""
    widen, narrow = (lambda a: _cast(a, np.float32)), (lambda a: _cast(a, dtype))
    value, gradients = rule(*map(widen, arrays), **settings)
    if settings.get("dtype") is not None:  # which is what the rule gave it
        return value, tuple(f and (lambda g, f=f: narrow(f(g))) for f in gradients or ()) or None
    value = tuple(map(narrow, value)) if type(value) is tuple else narrow(value)
    if type(gradients) is tuple:
        return value, tuple(f and (lambda g, f=f: narrow(f(widen(g)))) for f in gradients)
    if gradients is None:
        return value, None
    widen_all = lambda g: list(map(widen, g)) if type(g) is list else widen(g)
    return value, lambda g, needs: tuple(map(narrow, gradients(widen_all(g), needs)))


def _cast(a: Any, dtype: Any) -> Any:
    """A floating array or NumPy number in another precision; anything else as it is."""
    return a.astype(dtype) if (is_array(a) or isinstance(a, np.generic)) and is_floating(a.dtype) else a
