"""Array libraries, devices, dtypes and their promotion.

A dtype is NumPy's own (`mg.float32 == np.dtype("float32") == "float32"`). What differs from NumPy is how
two dtypes meet: as in PyTorch, an integer never turns a float into float64, and a Python number or a 0-d
tensor never widens a tensor of the same kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import DtypeError, OptionError

bool_ = np.dtype("bool")
uint8 = np.dtype("uint8")
int8 = np.dtype("int8")
int16 = np.dtype("int16")
int32 = np.dtype("int32")
int64 = np.dtype("int64")
float16 = np.dtype("float16")
float32 = np.dtype("float32")
float64 = np.dtype("float64")

DTYPES = frozenset([bool_, uint8, int8, int16, int32, int64, float16, float32, float64])
default_float = float32

_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2}  # bool < integer < floating


def check_device(device: str | None) -> str:
    """The device's name, or an OptionError that says which there are."""
    if device in (None, "cpu"):
        return "cpu"
    raise OptionError(
        f"unknown device {device!r}: this version computes on 'cpu'.\nLeave device out, or pass device='cpu'."
    )


def as_dtype(dtype: Any) -> np.dtype:
    """`mg.float32`, `"float32"`, `np.float32` or a Python type as a NumPy dtype; `float` is float32."""
    if dtype is float:
        return default_float
    try:
        result = np.dtype(dtype).newbyteorder("=")  # in this machine's byte order
    except TypeError:
        result = None
    if result not in DTYPES:
        raise DtypeError(
            f"unknown dtype {dtype!r}.\nUse one of bool, uint8, int8 to int64, float16, float32, float64."
        )
    return np.dtype(result.type)  # NumPy's one object for it


def refuse_unconvertible(array: Any, dtype: np.dtype) -> None:
    """A DtypeError where floats become integers and one of them is NaN, infinite or too large."""
    if dtype.kind not in "iu" or array.dtype.kind != "f":
        return
    limits = np.iinfo(dtype)
    wrong = ~((array > float(limits.min) - 1) & (array < float(limits.max) + 1))
    if dtype == int64:
        wrong &= array != float(limits.min)  # float64 has no number just below it
    if wrong.any():
        place = tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(wrong)))[: array.ndim]
        raise DtypeError(
            f"{array[place]} at index {list(place)} is no {dtype}.\n"
            f"Replace it first (x.nan_to_num(), x.clamp(...)), or choose another dtype."
        )


def is_floating(dtype: np.dtype) -> bool:
    return dtype.kind == "f"


def plain_number(x: Any) -> Any:
    """A NumPy number as Python's, which does not widen what it meets; anything else as it is."""
    return x.item() if isinstance(x, np.generic) else x


def _meet(a: np.dtype | None, b: np.dtype | None) -> np.dtype | None:
    """Two dtypes of equal standing."""
    if a is None or b is None:
        return a if b is None else b
    if _KINDS[a.kind] != _KINDS[b.kind]:
        return max(a, b, key=lambda dtype: _KINDS[dtype.kind])
    return np.promote_types(a, b)


def _override(high: np.dtype | None, low: np.dtype | None) -> np.dtype | None:
    """`high` decides, unless `low` is of a higher kind (an integer tensor and a float scalar)."""
    if high is None or low is None:
        return low if high is None else high
    return low if _KINDS[low.kind] > _KINDS[high.kind] else high


def result_type(*operands: Any) -> np.dtype:
    """PyTorch's promotion of arrays and Python numbers: arrays decide, then 0-d arrays, then numbers."""
    arrays: np.dtype | None = None
    scalars: np.dtype | None = None
    numbers: np.dtype | None = None
    for x in operands:
        if isinstance(x, bool):
            numbers = _meet(numbers, bool_)
        elif isinstance(x, int):
            numbers = _meet(numbers, int64)
        elif isinstance(x, float):
            numbers = _meet(numbers, default_float)
        elif x.ndim == 0:
            scalars = _meet(scalars, x.dtype)
        else:
            arrays = _meet(arrays, x.dtype)
    result = _override(_override(arrays, scalars), numbers)
    assert result is not None
    return result
