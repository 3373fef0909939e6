"""a @ b on either device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices import gpu


def matmul(a: Any, b: Any) -> Any:
    """a @ b of arrays or Tensors; bfloat16 adds up in float32, and is rounded once."""
    if isinstance(a, gpu.arrays):
        from .cuda.products import matmul as on_gpu

        return on_gpu(a, b)
    if type(a) is np.ndarray and a.dtype.kind == "V":
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
    return a @ b
