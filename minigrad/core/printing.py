"""How a tensor prints: PyTorch's layout, four digits, columns aligned, long axes summarized.

Integral values print as `1.`, others with four digits. Where values are very large, very small or differ by
more than a factor of 1,000, all print in scientific notation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dtypes import is_floating
from .errors import OptionError

PREFIX = "tensor("
DEFAULT_DTYPES = {np.dtype("float32"), np.dtype("int64"), np.dtype("bool")}  # not printed


@dataclass
class Options:
    """What `set_printoptions` sets."""

    precision: int = 4  # digits after the point
    threshold: float = 1000  # tensors with more elements are summarized
    edgeitems: int = 3  # elements at either end of each summarized axis
    linewidth: int = 80
    sci_mode: bool | None = None  # scientific notation: never, always, or (None) if magnitudes differ much


PROFILES = {
    "default": Options(),
    "short": Options(precision=2, edgeitems=2),
    "full": Options(threshold=math.inf),
}
options = Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print, in every thread (torch.set_printoptions).

    `profile` is "default", "short" or "full" (nothing is left out); the other settings are applied to it.
    `sci_mode` is scientific notation: True, False, or None for only if magnitudes differ much.
    """
    if profile is not None and profile not in PROFILES:
        raise OptionError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}.\nPass one.")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            shown = " ".join(repr(value).split())
            raise OptionError(f"{name} must be a number >= 0, got {shown:.80}.\nPass one, or leave it out.")
    new = vars(PROFILES[profile]) if profile is not None else {}
    vars(options).update(new | given, sci_mode=sci_mode)


def text(array: np.ndarray, *origins: str) -> str:
    """The repr `tensor([1., 2.], dtype=float64, requires_grad=True)`; `origins` come after the dtype."""
    numbers = _numbers(array)
    default = array.dtype in DEFAULT_DTYPES and (array.size or array.dtype == np.float32)
    notes = [note for note in ("" if default else f"dtype={array.dtype}", *origins) if note]
    line = len(PREFIX) + len(numbers) - numbers.rfind("\n") - 1
    for note in notes:
        gap = " " if line + len(note) + 3 <= options.linewidth else "\n" + " " * len(PREFIX)
        numbers += "," + gap + note
        line = line + len(note) + 2 if gap == " " else len(PREFIX) + len(note)
    return f"{PREFIX}{numbers})"


def _numbers(array: np.ndarray) -> str:
    """The numbers in brackets."""
    if not array.size:
        return "[]" if array.shape == (0,) else f"[], size={array.shape}"
    with np.errstate(all="ignore"):
        write = writer(_shown(array))
    if not array.ndim:
        return write(array[()]).strip()
    return np.array2string(
        array,
        separator=", ",
        prefix=PREFIX,
        threshold=options.threshold,  # type: ignore[arg-type]
        edgeitems=options.edgeitems,
        max_line_width=options.linewidth,
        formatter={"all": write},
    )


def _shown(array: np.ndarray) -> np.ndarray:
    """The elements that will be printed, which determine the format."""
    if array.size > options.threshold:
        for axis, n in enumerate(array.shape):
            if n > 2 * options.edgeitems:
                ends = np.r_[0 : options.edgeitems, n - options.edgeitems : n]
                array = array.take(ends, axis=axis)
    return array.ravel()


def writer(shown: np.ndarray) -> Callable[[Any], str]:
    """A function that formats a number, padded to the width of the widest of `shown`."""
    one = _float_format(shown) if is_floating(shown.dtype) else str
    width = max(len(one(x)) for x in shown)
    return lambda x: one(x).rjust(width)


def _float_format(shown: np.ndarray) -> Callable[[Any], str]:
    sizes = np.abs(shown[np.isfinite(shown) & (shown != 0)].astype(np.float64))
    wide = sizes.size and (sizes.max() / sizes.min() > 1000 or sizes.max() > 1e8 or sizes.min() < 1e-4)
    if options.sci_mode or (wide and options.sci_mode is None):
        return f"{{:.{options.precision}e}}".format
    if (sizes != np.ceil(sizes)).any():
        return f"{{:.{options.precision}f}}".format
    return lambda x: f"{x:.0f}." if np.isfinite(x) else f"{x}"
