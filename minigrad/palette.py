"""The colours of numbers on pages, in notebooks and in plots: orange if positive, blue if negative.

The larger a number's magnitude, the stronger its colour; 0 is white. So weights and probabilities range from
white to orange.
"""

from __future__ import annotations

POSITIVE = "#d9822b"
NEGATIVE = "#3b82c4"


def rgb(colour: str) -> tuple[int, ...]:
    """The red, green and blue of a colour such as "#d9822b", from 0 to 255."""
    return tuple(bytes.fromhex(colour.removeprefix("#")))
