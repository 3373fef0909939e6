"""The user's line: the nearest frame outside minigrad, which nodes, errors and warnings refer to."""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from pathlib import Path
from types import CodeType


class _IsLibrary(dict[str, bool]):
    """Whether a file belongs to minigrad or to the user, cached by file name."""

    folder = str(Path(__file__).parents[1]) + os.sep

    def __missing__(self, file: str) -> bool:
        self[file] = is_ours = file.startswith(self.folder)
        return is_ours


is_library = _IsLibrary()


def caller(above: int = 1) -> tuple[CodeType, int]:
    """The nearest frame outside minigrad, as (code, instruction), which `where` converts to a line.

    `above` is how many of the innermost frames to skip.
    """
    frame = sys._getframe(above)
    while is_library[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def where(source: tuple[CodeType, int]) -> str:
    """`file:line` of a result of `caller`."""
    code, instruction = source
    line = next(itertools.islice(code.co_positions(), instruction // 2, None))[0]
    return f"{code.co_filename}:{line}"


def warn(message: str) -> None:
    """Issue a UserWarning at the user's line."""
    frame = sys._getframe(1)
    level = 2
    while is_library[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
