"""What the loops take: contiguous float32 arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types

from .mathematics import inline, intrinsic

FLOAT32 = np.dtype(np.float32)


def is_float32(*arrays: Any) -> bool:
    """Whether all arrays (None aside) are float32."""
    for array in arrays:  # a loop: `all` of a generator takes three times as long
        if array is not None and array.dtype is not FLOAT32 and array.dtype != FLOAT32:
            return False
    return True


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array, or a contiguous copy."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


@intrinsic
def pointer(typing_context, address):
    """An address as a pointer to float32 numbers, in loops."""

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.uintp), generate


def rows_of(array: np.ndarray) -> np.ndarray:
    """The array as a matrix: its last axis, and all others as one."""
    return array.reshape(-1, array.shape[-1]) if array.size else array.reshape(0, array.shape[-1])


@inline
def row_of(x, b, h, t):
    """x[b, h, t], of which the compiler knows that it has no gaps."""
    first = x.ctypes.data + b * x.strides[0] + h * x.strides[1] + t * x.strides[2]
    return carray(pointer(first), (x.shape[3],))
