"""What cannot be captured, said with the user's line."""

from __future__ import annotations

import copy
import inspect
import sys
import threading
import traceback
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, NoReturn

import numpy as np

from ..devices import gpu
from ..errors import CaptureError
from ..nn.module import Module
from ..optim import Optimizer
from ..optim.lr_scheduler import LRScheduler
from ..versions import is_library, where

AFTER = "A replay runs no Python. Do it after the step, with what the step returns."
IN_LIBRARY = (
    "It decides by numbers, and a replay runs no Python. Use something else, or leave the step as it is."
)
WAITS = "It waits for the GPU, which runs nothing while a step is recorded."
HINTS = {
    "GradScaler": f"{WAITS} Use bfloat16, which needs no scaler.",
    "cuBLAS": "CuPy's matrix products cannot be captured, minigrad's own can: pip install nvmath-python.",
    "": f"{WAITS} Do it after the step, with what the step returns.",
}


LIBRARY = Path(__file__).parents[1]
PASSING = ("capture", "checks", "explain", "ops/arguments", "ops/call", "ops/methods", "ops/op", "tensor")
LONGEST = 100  # of a module's text
STANDARD = str(Path(copy.__file__).parent)
RECORDER = Path(__file__).with_name("graph.py"), "record"  # the function that calls the user's step


class UploadError(Exception):
    """CuPy tried to upload an array or a list while a stream was being captured."""


class _Refused(threading.local):
    error: CaptureError | None = None  # the first of a recording, also where the step has caught it
    is_raised = False


refused = _Refused()


def raise_uncapturable(
    what: str, instead: str | None = None, kind: type[CaptureError] = CaptureError
) -> NoReturn:
    """A CaptureError that names the user's line."""
    refused.is_raised = True
    raise refuse(what, instead, kind)


class ChangedError(CaptureError):
    """A step does something else than in the call before; from now on it may be the same."""


def raise_changed(what: str) -> NoReturn:
    raise ChangedError(
        f"{what}: not what the call before did, and so it cannot be captured.\n"
        f"A replay runs no Python, and repeats its numbers: pass what changes as an argument, as an array."
    )


def refuse(what: str, instead: str | None = None, kind: type[CaptureError] = CaptureError) -> CaptureError:
    """The error, for a recording that goes on for now: it fails with it at its end."""
    place = where(users_place())
    if instead == AFTER and (asker := librarys_function()):
        what, instead = f"{what} in {asker}", IN_LIBRARY
    error = kind(f"{what}, at {place}, cannot be captured.\n{instead or _hint(what)}")
    refused.error = refused.error or error
    return error


def said_of(step_fn: Any) -> str:
    """The step that was given to `mg.capture`, by its line where it is a function."""
    step = inspect.unwrap(step_fn) if isinstance(step_fn, FunctionType | MethodType) else step_fn
    code = getattr(step, "__code__", None)
    if isinstance(code, CodeType):
        return f"the step at {code.co_filename}:{code.co_firstlineno}"
    return f"the step ({type(step).__name__})"


def users_place() -> tuple[CodeType, int]:
    """The nearest place that is in no library of arrays: see `versions.where`."""
    frame = sys._getframe(1)
    while _is_a_librarys(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def librarys_function() -> str:
    """What of the library looks at a tensor on the user's behalf, or "" where the user does so by its method.

    That is the innermost module or optimizer, or else the function that the user has called.
    """
    frame, frames = sys._getframe(1), []
    while _is_a_librarys(frame.f_code.co_filename) and frame.f_back is not None:
        if Path(frame.f_code.co_filename).is_relative_to(LIBRARY):
            frames.append(frame)
        frame = frame.f_back
    for frame in frames:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Module):
            text = repr(owner)
            return text if len(text) <= LONGEST else type(owner).__name__
        if isinstance(owner, Optimizer | LRScheduler):
            return type(owner).__name__
    files = [
        Path(frame.f_code.co_filename).relative_to(LIBRARY).with_suffix("").as_posix() for frame in frames
    ]
    names = [f.f_code.co_name for f, file in zip(frames, files, strict=True) if not file.startswith(PASSING)]
    return next((name for name in reversed(names) if name.isidentifier() and not name.startswith("_")), "")


def is_of_the_capture(error: BaseException) -> bool:
    """Whether it was raised because a stream was captured."""
    return isinstance(error, UploadError) or "captur" in str(error).lower()


def explain(error: BaseException) -> NoReturn:
    """Turn what CuPy raised because a stream was captured into a CaptureError."""
    if isinstance(error, UploadError):
        what = "a copy of a NumPy array or a list to the GPU"
        hint = "Pass it as an argument, or make it a Tensor before."
    else:
        what = str(error).partition("\n")[0].rstrip(".")
        hint = _hint(what)
    raise CaptureError(f"{what}, at {_users_line(error)}, cannot be captured.\n{hint}") from error


def _hint(what: str) -> str:
    return next(hint for word, hint in HINTS.items() if word in what)


def _users_line(error: BaseException) -> str:
    """`file:line` of the innermost place in the step that is in no library of arrays."""
    frames = traceback.extract_tb(error.__traceback__)
    start = max(i for i, frame in enumerate(frames) if (Path(frame.filename), frame.name) == RECORDER)
    users = [frame for frame in frames[start + 1 :] if not _is_a_librarys(frame.filename)]
    return f"{users[-1].filename}:{users[-1].lineno}" if users else "a line that caught the error and went on"


@cache
def _is_a_librarys(file: str) -> bool:
    libraries = (np,) if gpu.library is None else (np, gpu.library)
    folders = {Path(str(library.__file__)).parent for library in libraries}
    standard = file.startswith(STANDARD) and "site-packages" not in file  # copy.deepcopy
    is_known = is_library[file] or standard or file.endswith((".pyx", ".pxi"))
    return is_known or not folders.isdisjoint(Path(file).parents)
