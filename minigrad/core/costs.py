"""The cost of an op: the floating-point operations (FLOPs) of its forward pass.

An addition, multiplication, comparison or elementary function counts as 1; moving data counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Flops:
    """A FLOP count: as a readable formula, and as a function of (input shapes, result shape, settings)."""

    formula: str
    count: Callable[[Sequence[Any], Any, dict[str, Any]], int]


def per_element(n: int) -> Flops:
    """`n` for each element of the result."""
    return Flops(_times(n, "elements of the result"), lambda inputs, result, settings: n * math.prod(result))


def per_input(n: int) -> Flops:
    """`n` for each element of the first input."""
    return Flops(
        _times(n, "elements of the input"), lambda inputs, result, settings: n * math.prod(inputs[0])
    )


def _times(n: int, what: str) -> str:
    return what if n == 1 else f"{n} × {what}"


zero_flops = Flops("0", lambda inputs, result, settings: 0)
one_each = per_element(1)
