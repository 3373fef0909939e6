"""The random numbers of a key (see `core.random`): NumPy generators, dropout masks, bounds."""

from __future__ import annotations

import numpy as np

from ..core.dtypes import finfo, is_floating, plain_number
from ..core.errors import OptionError
from ..core.random import Key


def generator(key: Key) -> np.random.Generator:
    """A NumPy generator that starts at the key; two calls with one key give the same numbers."""
    return np.random.Generator(_philox(key, 0))


def _philox(key: Key, block: int) -> np.random.Philox:
    words = np.array((key.seed, key.stream), np.uint64)  # a list with 2**63 would become floats
    return np.random.Philox(key=words, counter=np.array((block, key.call, key.step, 0), np.uint64))


def keep_mask(key: Key, shape: tuple[int, ...], p: float) -> np.ndarray:
    """A boolean array of `shape`, False with probability p (see `drop_threshold` for its rounding).

    Element i of the whole batch is decided by the i-th group of 16 (or 32) bits of the key's sequence, so
    rows [a, b) of a batch, drawn with `row=a`, agree with the whole batch drawn at once.
    """
    bits, threshold = drop_threshold(p)
    size = int(np.prod(shape))
    first = key.row * (size // shape[0] if shape and shape[0] else 0)
    block, skip = divmod(first, 256 // bits)  # a Philox block is 4 words of 64 bits
    words = _philox(key, block).random_raw(-(-(skip + size) * bits // 64))
    groups = words.view(f"u{bits // 8}")[skip : skip + size]
    return (groups >= threshold).reshape(shape)


def drop_threshold(p: float) -> tuple[int, int]:
    """Return (16, n) or (32, n): the bits drawn for an element, and how many of their values drop it.

    16 bits are enough if they round p by at most 1% of the smaller of p and 1 - p.
    """
    few = round(p * 2**16)
    if abs(few / 2**16 - p) <= 0.01 * min(p, 1 - p):
        return 16, few
    return 32, round(p * 2**32)


def keep_scale(p: float) -> float:
    """The factor that dropout applies to the elements it keeps: 1 / (1 - p), or 0 if p is 1."""
    return 1 / (1 - p) if p < 1 else 0.0


def bounds(low: float, high: float, dtype: np.dtype) -> tuple[float, float]:
    """The smallest and the largest number of a floating dtype in [low, high), with the bounds rounded to it.

    A number drawn in a wider dtype may be rounded up to `high`, so draws are clipped to these. If the range
    has no number but `low`, both are `low`.
    """
    first, end = dtype.type(low), dtype.type(high)
    return float(first), max(float(np.nextafter(end, dtype.type(-np.inf))), float(first))


def check_bounds(name: str, low: float, last: float, dtype: np.dtype) -> None:
    """Raise an OptionError if a dtype's range does not contain `low` to `last`."""
    least, largest = 0.0, 1.0
    if dtype.kind != "b":
        limits = finfo(dtype) if is_floating(dtype) else np.iinfo(dtype)
        least = plain_number(limits.min)
        largest = plain_number(limits.max)
    if not least <= low <= last <= largest:
        raise OptionError(
            f"{name} from {low} to {last}, but {dtype} ranges from {least} to {largest}.\n"
            f"Use smaller bounds, or draw in a wider dtype and convert."
        )
