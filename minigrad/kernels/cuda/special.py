"""CuPy's error functions, but in the dtype of x (CuPy returns float32 for float16)."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _in_dtype(name: str) -> Any:
    def function(x: Any) -> Any:
        return getattr(import_module("cupyx.scipy.special"), name)(x).astype(x.dtype, copy=False)

    function.__name__ = function.__qualname__ = name
    return function


erf, erfc, erfcx, erfinv, ndtri = map(_in_dtype, ("erf", "erfc", "erfcx", "erfinv", "ndtri"))
