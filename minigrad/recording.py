"""What a recording (`minigrad.capture`) asks of everyone who computes on a GPU.

While a step is recorded its kernels are written down, and none runs: nothing may wait for the GPU (`refuse`).
A replay runs no Python, so what differs from step to step is read from the GPU's memory, where the host has
put it before (`numbers`), and what the host counts it counts before each replay (`each_time`). Outside a
recording these are what they say, at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial, wraps
from typing import Any, NoReturn, TypeVar

from .errors import CaptureError
from .versions import caller, where

T = TypeVar("T")


class _Now(threading.local):
    recording: Any = None  # a capture.Recording, while its step is recorded
    data_follows = False  # whether tensors of data on the CPU go to the GPU that they meet


now = _Now()


@contextlib.contextmanager
def data_follows() -> Iterator[None]:
    """Tensors on the CPU that require no gradient meet those on a GPU there: while one finds out, by what a
    step computes, where its inputs are to go."""
    now.data_follows = True
    try:
        yield
    finally:
        now.data_follows = False


def is_recording() -> bool:
    return now.recording is not None


def each_time(do: Callable[[], object]) -> None:
    """Do it; of a step that is recorded, before each replay."""
    if now.recording is None:
        do()
    else:
        now.recording.before.append(do)


def before_each_replay(method: Callable[..., None]) -> Callable[..., None]:
    """A method that works on the host only: of a step that is recorded, called before each replay."""

    @wraps(method)
    def called(*args: Any, **settings: Any) -> None:
        each_time(partial(method, *args, **settings))

    return called


def constant(make: Callable[[], T]) -> T:
    """What `make` gives. Of a step that is recorded: made now, not in each replay, and kept as it is."""
    return make() if now.recording is None else now.recording.constant(make)


def numbers(key: Hashable, compute: Callable[[], Sequence[Any]], dtype: Any) -> Any:
    """What `compute` gives before each replay, as an array on the GPU; one array for each `key`."""
    return now.recording.numbers(key, compute, dtype)


def fits_while(condition: Callable[[], bool]) -> None:
    """The recording is thrown away as soon as the condition, asked before each replay, no longer holds."""
    now.recording.conditions.append(condition)


def refuse(what: str, instead: str) -> None:
    """A CaptureError if a step is recorded: `what` cannot be."""
    if now.recording is not None:
        cannot(what, where(caller()), instead)


def cannot(what: str, place: str, instead: str) -> NoReturn:
    raise CaptureError(f"{what}, at {place}, cannot be captured.\n{instead}")


WAITING = (
    "It waits for the GPU, which runs nothing while a step is recorded: do it after the step, with what the "
    "step returns."
)
