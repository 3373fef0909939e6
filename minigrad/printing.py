"""How a tensor prints: PyTorch's layout, four digits, columns aligned, long axes summarized.

Integral values print as `1.`, others with four digits. Where values are very large, very small or differ by
more than a factor of 1,000, all print in scientific notation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .devices import is_floating

PREFIX = "tensor("
THRESHOLD = 1000  # more elements than this are summarized
EDGE = 3  # elements at either end of each summarized axis
WIDTH = 80
DEFAULT_DTYPES = {np.dtype("float32"), np.dtype("int64"), np.dtype("bool")}  # these are not printed


def text(array: np.ndarray, *origins: str) -> str:
    """`tensor([1., 2.], dtype=float64, requires_grad=True)`; `origins` are what follows the dtype."""
    numbers = _numbers(array)
    default = array.dtype in DEFAULT_DTYPES and (array.size or array.dtype == np.float32)
    notes = [note for note in ("" if default else f"dtype={array.dtype}", *origins) if note]
    line = len(PREFIX) + len(numbers) - numbers.rfind("\n") - 1
    for note in notes:
        gap = " " if line + len(note) + 3 <= WIDTH else "\n" + " " * len(PREFIX)
        numbers += "," + gap + note
        line = line + len(note) + 2 if gap == " " else len(PREFIX) + len(note)
    return f"{PREFIX}{numbers})"


def _numbers(array: np.ndarray) -> str:
    """The numbers, between brackets."""
    if not array.size:
        return "[]" if array.shape == (0,) else f"[], size={array.shape}"
    with np.errstate(all="ignore"):
        write = _writer(_shown(array))
    if not array.ndim:
        return write(array[()]).strip()
    return np.array2string(
        array,
        separator=", ",
        prefix=PREFIX,
        threshold=THRESHOLD,
        edgeitems=EDGE,
        max_line_width=WIDTH,
        formatter={"all": write},
    )


def _shown(array: np.ndarray) -> np.ndarray:
    """The elements that will be printed, which decide the format of all."""
    if array.size > THRESHOLD:
        for axis, n in enumerate(array.shape):
            if n > 2 * EDGE:
                ends = np.r_[0:EDGE, n - EDGE : n]
                array = array.take(ends, axis=axis)
    return array.ravel()


def _writer(shown: np.ndarray) -> Callable[[Any], str]:
    """A function that writes one number as wide as the widest."""
    one = _float_format(shown) if is_floating(shown.dtype) else str
    width = max(len(one(x)) for x in shown)
    return lambda x: one(x).rjust(width)


def _float_format(shown: np.ndarray) -> Callable[[Any], str]:
    sizes = np.abs(shown[np.isfinite(shown) & (shown != 0)].astype(np.float64))
    if sizes.size and (sizes.max() / sizes.min() > 1000 or sizes.max() > 1e8 or sizes.min() < 1e-4):
        return "{:.4e}".format
    if (sizes != np.ceil(sizes)).any():
        return "{:.4f}".format
    return lambda x: f"{x:.0f}." if np.isfinite(x) else f"{x}"
