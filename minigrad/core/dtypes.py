"""Dtypes and type promotion.

A dtype is NumPy's (`mg.float32 == np.dtype("float32") == "float32"`). Promotion is PyTorch's: an integer
never turns a float into float64, and a Python number or a 0-d tensor never widens a tensor of the same kind.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .errors import ArgumentError, DtypeError

bool_ = np.dtype("bool")
uint8 = np.dtype("uint8")
int8 = np.dtype("int8")
int16 = np.dtype("int16")
int32 = np.dtype("int32")
int64 = np.dtype("int64")
float16 = np.dtype("float16")
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float32 = np.dtype("float32")
float64 = np.dtype("float64")

DTYPES = frozenset([bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64])
HALF = frozenset([float16, bfloat16])
default_float = float32

_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2}  # bool < integer < floating; "V" is bfloat16's


def as_dtype(dtype: Any) -> np.dtype:
    """`mg.float32`, `"float32"`, `np.float32` or a Python type as a NumPy dtype; `float` is float32."""
    if dtype is float:
        return default_float
    if not isinstance(dtype, str | type | np.dtype):  # NumPy would accept a tensor, which has a dtype
        raise ArgumentError(
            f"dtype must be a dtype or its name, got {type(dtype).__name__}.\nPass mg.float32, ..."
        )
    try:
        result = (
            bfloat16 if isinstance(dtype, str) and dtype == "bfloat16" else np.dtype(dtype).newbyteorder("=")
        )  # in this machine's byte order
    except TypeError:
        result = None
    if result not in DTYPES:
        numbers = "" if result is None or result.kind in "iufbcV" else ", which holds no numbers"
        raise DtypeError(
            f"unknown dtype {dtype!r}{numbers}.\n"
            f"Use one of bool, uint8, int8 to int64, float16, bfloat16, float32, float64."
        )
    assert result is not None
    return np.dtype(result.type)  # NumPy's singleton, which can be compared with `is`


def is_dtype(name: str) -> bool:
    """Whether a string is the name of a dtype."""
    try:
        return as_dtype(name) in DTYPES
    except DtypeError:
        return False


def check_convertible(array: Any, dtype: np.dtype, wraps: bool = True) -> None:
    """Raise a DtypeError if an array cannot be converted to an integer dtype without loss.

    Floats must be finite and within the dtype's range, and integers, too, unless they may wrap around
    (`wraps`).
    """
    if array.dtype.kind not in "biufV":
        raise DtypeError(f"{array.dtype} cannot be converted to {dtype}.\nPass real numbers.")
    whole = array.dtype.kind in "iub"
    if dtype.kind not in "iu" or not (is_floating(array.dtype) or (whole and not wraps)):
        return
    limits = np.iinfo(dtype)
    if whole:
        lowest = limits.min or -limits.max  # -1 is 255 in uint8, as in PyTorch
        wrong = (array < lowest) | (array > limits.max)
    else:
        array = array.astype(float32) if array.dtype in HALF else array  # their range is smaller than int64's
        wrong = ~((array > float(limits.min) - 1) & (array < float(limits.max) + 1))
        if dtype == int64:
            wrong &= array != float(limits.min)  # float64 has no number just below the minimum
    if wrong.any():
        places = wrong.reshape(wrong.shape or 1).nonzero()
        place = tuple(int(axis[0]) for axis in places)[: array.ndim]
        raise DtypeError(
            f"{array[place]} at index {list(place)} cannot be converted to {dtype}.\n"
            f"Replace it first (x.nan_to_num(), x.clamp(...)), or choose another dtype."
        )


def finfo(dtype: np.dtype) -> Any:
    """The limits of a floating dtype (np.finfo, which does not know bfloat16)."""
    return ml_dtypes.finfo(dtype)


def is_floating(dtype: np.dtype) -> bool:
    return dtype.kind in "fV"  # NumPy gives bfloat16 the kind "V"


def plain_number(x: Any) -> Any:
    """A NumPy scalar or 0-d array as a Python number, which never widens a dtype; anything else unchanged."""
    return x.item() if isinstance(x, np.generic | np.ndarray) and not x.ndim else x


def _promote(a: np.dtype | None, b: np.dtype | None) -> np.dtype | None:
    """The dtype of two operands of the same rank (both arrays, both 0-d, or both numbers)."""
    if a is None or b is None:
        return a if b is None else b
    if _KINDS[a.kind] != _KINDS[b.kind]:
        return max(a, b, key=lambda dtype: _KINDS[dtype.kind])
    if a != b and {a, b} == HALF:
        return float32
    return np.promote_types(a, b)


def _override(high: np.dtype | None, low: np.dtype | None) -> np.dtype | None:
    """The dtype of `high`, unless `low` is of a higher kind (an integer tensor and a float scalar)."""
    if high is None or low is None:
        return low if high is None else high
    return low if _KINDS[low.kind] > _KINDS[high.kind] else high


def result_type(*operands: Any) -> np.dtype:
    """The common dtype by PyTorch's promotion: arrays take precedence over 0-d arrays, those over numbers."""
    arrays: np.dtype | None = None
    scalars: np.dtype | None = None
    numbers: np.dtype | None = None
    for x in operands:
        if isinstance(x, bool):
            numbers = _promote(numbers, bool_)
        elif isinstance(x, int):
            numbers = _promote(numbers, int64)
        elif isinstance(x, float):
            numbers = _promote(numbers, default_float)
        elif x.ndim == 0:
            scalars = _promote(scalars, x.dtype)
        else:
            arrays = _promote(arrays, x.dtype)
    result = _override(_override(arrays, scalars), numbers)
    assert result is not None
    return result
