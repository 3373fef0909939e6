"""Errors for code that cannot be captured. They name the line of the user's code."""

from __future__ import annotations

import copy
import sys
import traceback
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

from ..core.devices import backends
from ..core.errors import CaptureError
from ..core.frames import is_library, where

WAITS = "It waits for the GPU, which runs nothing during a capture."
HINTS = {
    "GradScaler": f"{WAITS} Use bfloat16, which needs no scaler.",
    "cuBLAS": "CuPy's matrix products cannot be captured, but minigrad's can: pip install nvmath-python.",
    "": f"{WAITS} Do it after the step, with what the step returns.",
}

STANDARD = str(Path(copy.__file__).parent)


class UploadError(Exception):
    """Raised if CuPy uploads an array or a list while a stream is being captured."""


def raise_uncapturable(what: str, instead: str | None = None) -> NoReturn:
    """Raise a CaptureError with the line of the user's code that called `what`."""
    raise CaptureError(f"{what}, at {where(_users_place())}, cannot be captured.\n{instead or _hint(what)}")


def is_capture_error(error: BaseException) -> bool:
    """Return whether an error was raised because a stream was being captured."""
    return isinstance(error, UploadError) or "captur" in str(error).lower()


def raise_capture_error(error: BaseException, caller: CodeType) -> NoReturn:
    """Raise a CaptureError for an error of CuPy's during a capture.

    `caller` is the code object of the function that called the user's step.
    """
    if isinstance(error, UploadError):
        what = "a copy of a NumPy array or a list to the GPU"
        hint = "Pass it as an argument, or create the Tensor before the step."
    else:
        what = str(error).partition("\n")[0].rstrip(".")
        hint = _hint(what)
    line = _users_line(error, caller)
    raise CaptureError(f"{what}, at {line}, cannot be captured.\n{hint}") from error


def _hint(what: str) -> str:
    return next(hint for word, hint in HINTS.items() if word in what)


def _users_place() -> tuple[CodeType, int]:
    """Return the innermost frame outside minigrad and array libraries; see `frames.where`."""
    frame = sys._getframe(1)
    while _is_a_librarys(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _users_line(error: BaseException, caller: CodeType) -> str:
    """Return `file:line` of the innermost frame of the step outside minigrad and array libraries."""
    frames: list[Any] = list(traceback.walk_tb(error.__traceback__))
    start = max(i for i, (frame, _) in enumerate(frames) if frame.f_code is caller)
    users = [
        (frame, line) for frame, line in frames[start + 1 :] if not _is_a_librarys(frame.f_code.co_filename)
    ]
    if not users:
        return "a line that caught the error and continued"
    frame, line = users[-1]
    return f"{frame.f_code.co_filename}:{line}"


@cache
def _is_a_librarys(file: str) -> bool:
    libraries = [backend.library for backend in backends.values() if backend.library is not None]
    folders = {Path(str(library.__file__)).parent for library in libraries}
    standard = file.startswith(STANDARD) and "site-packages" not in file  # such as copy.deepcopy
    is_known = is_library[file] or standard or file.endswith((".pyx", ".pxi"))
    return is_known or not folders.isdisjoint(Path(file).parents)
