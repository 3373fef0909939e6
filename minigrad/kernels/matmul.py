"""a @ b on either device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.devices import is_array
from ..core.dtypes import HALF
from ..core.errors import DtypeError
from .selection import kernels


def matmul(a: Any, b: Any) -> Any:
    """a @ b of arrays or Tensors; on the CPU 16 bits are added up in float32 and rounded once."""
    if a.dtype == bool or b.dtype == bool:  # NumPy's is their logical or
        raise DtypeError("a matrix product of booleans.\nConvert them: .to('int64') counts, .to('float32').")
    is_on_cpu = isinstance(a, np.ndarray)
    if is_on_cpu and a.dtype in HALF:
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
    return kernels(a).matmul(a, b) if is_array(a) else a @ b
