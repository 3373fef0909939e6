"""The user's line: the nearest frame outside minigrad's files, for nodes, errors and warnings to name."""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from pathlib import Path
from types import CodeType


class _IsLibrary(dict[str, bool]):
    """Whether a file is one of minigrad's; a frame in another is the user's. Each file is looked at once."""

    folder = str(Path(__file__).parents[1]) + os.sep

    def __missing__(self, file: str) -> bool:
        self[file] = is_ours = file.startswith(self.folder)
        return is_ours


is_library = _IsLibrary()


def caller(above: int = 1) -> tuple[CodeType, int]:
    """The nearest place outside minigrad, as (code, instruction): cheap to take, resolved by `where`.

    `above`: how many frames up to begin, where those below are known to be the library's.
    """
    frame = sys._getframe(above)
    while is_library[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def where(source: tuple[CodeType, int]) -> str:
    """`file:line` of what `caller` took."""
    code, instruction = source
    line = next(itertools.islice(code.co_positions(), instruction // 2, None))[0]
    return f"{code.co_filename}:{line}"


def warn(message: str) -> None:
    """A UserWarning at the user's line, the nearest outside the library."""
    frame = sys._getframe(1)
    level = 2
    while is_library[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
