"""Operations that a plan keeps whole: one call of their rule, and one of the gradients that it gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .calls import Box, DrawnKey


class Whole(Box):
    """The gradient functions that an op kept whole gave in its latest call, and the arrays that they need."""

    def __init__(self) -> None:
        super().__init__(None)
        self.arrays: tuple[np.ndarray, ...] = ()
        self.fixed: tuple[np.ndarray, ...] = ()


def run_whole(whole: Whole, op: Any, arrays: list, settings: dict[str, Any], outs: list) -> None:
    settings = {name: x.current() if isinstance(x, DrawnKey) else x for name, x in settings.items()}
    value, whole.value = op.run(arrays, settings)
    copy_to(outs, value if type(value) is tuple else (value,))


def pull_whole(whole: Whole, g: Any, wanted: list[bool], outs: list) -> None:
    copy_to(outs, pulled(whole.value, g, wanted))


def copy_to(outs: Sequence[np.ndarray], values: Sequence[Any]) -> None:
    for out, x in zip(outs, values, strict=True):
        out[...] = x


def pulled(functions: Any, g: Any, wanted: list[bool]) -> list[Any]:
    """The gradients of the inputs for which they are wanted, by one function for each or for all."""
    if type(functions) is tuple:
        return [f(g) for f, needed in zip(functions, wanted, strict=True) if needed]
    return [x for x, needed in zip(functions(g, wanted), wanted, strict=False) if needed and x is not None]
