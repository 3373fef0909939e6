"""The error function and its family: CuPy's own, but in the dtype of x (of float16 it makes float32)."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _own(name: str) -> Any:
    def function(x: Any) -> Any:
        return getattr(import_module("cupyx.scipy.special"), name)(x).astype(x.dtype, copy=False)

    function.__name__ = function.__qualname__ = name
    return function


erf, erfc, erfcx, erfinv, ndtri = map(_own, ("erf", "erfc", "erfcx", "erfinv", "ndtri"))
