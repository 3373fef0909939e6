"""16-bit dtypes: computed in float32, and rounded once at the end.

float16 ends at 65504, and NumPy multiplies its matrices without BLAS. bfloat16 has 8 bits of mantissa.
Neither is fit for a running sum, nor for a formula of several steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .devices import is_array
from .dtypes import HALF, bfloat16, float16, is_floating
from .sums import unbroadcast


def half_of(xs: Iterable[Any]) -> np.dtype | None:
    """The 16-bit dtype of the first array or tensor that has one, or None."""
    for x in xs:
        dtype = getattr(x, "dtype", None)
        if dtype is float16 or dtype is bfloat16:
            return dtype
    return None


def compute_in_float32(
    rule: Callable, dtype: np.dtype, arrays: Any, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """A rule's value and gradients, computed in float32 and rounded to `dtype`.

    A gradient is summed over broadcast axes before it is rounded.
    """
    narrow = lambda a: _narrowed(a, dtype)
    result = rule(*map(_widened, arrays), **settings)
    if type(result) is not tuple or len(result) != 2:
        return result  # which the caller refuses
    value, gradients = result
    if settings.get("dtype") is None:  # else it is what the rule gave it
        value = tuple(map(narrow, value)) if type(value) is tuple else narrow(value)
    if gradients is None:
        return value, None
    shapes = [a.shape if is_array(a) else None for a in arrays]

    def fitted(part: Any, shape: Any) -> Any:
        return narrow(part if part is None or shape is None else unbroadcast(part, shape))

    if type(gradients) is tuple:
        if len(gradients) != len(shapes):
            return value, gradients  # which the caller refuses
        return value, tuple(
            f and (lambda g, f=f, shape=shape: fitted(f(_widened(g)), shape))
            for f, shape in zip(gradients, shapes, strict=True)
        )
    widen_all = lambda g: list(map(_widened, g)) if type(g) is list else _widened(g)
    return value, lambda g, needs: tuple(map(fitted, gradients(widen_all(g), needs), shapes))


def _widened(a: Any) -> Any:
    """A 16-bit array or NumPy number in float32; anything else as it is."""
    return a.astype(np.float32) if getattr(a, "dtype", None) in HALF else a


def _narrowed(a: Any, dtype: np.dtype) -> Any:
    """A floating array or NumPy number in a 16-bit dtype; anything else as it is."""
    return a.astype(dtype) if (is_array(a) or isinstance(a, np.generic)) and is_floating(a.dtype) else a
