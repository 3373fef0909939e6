"""The calls of a step, as they are noted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..versions import root
from .calls import Call, DrawnKey
from .failures import users_place
from .identity import ByIdentity
from .traced import Traced, Untraceable, Wrapped, current, plain


class Trace:
    """The calls of a step so far, and the memory that they write."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.buffers: dict[int, np.ndarray] = {}  # the arrays that own the memory written here, by id
        self.counterparts = ByIdentity()  # ours for memory of the step

    def buffer(self, array: np.ndarray) -> np.ndarray:
        """A new array, as a traced one."""
        owner = root(array)
        self.buffers[id(owner)] = owner
        return array.view(Traced)

    def note(self, function: Callable, args: tuple, settings: dict[str, Any], name: str = "") -> None:
        """Note a call that has been made."""
        name = name or getattr(function, "__name__", str(function))
        given = tuple(map(plain, args)), {k: plain(v) for k, v in settings.items()}
        self.calls.append(Call(function, *given, name, users_place()))

    def into(self, out: np.ndarray, function: Callable, args: tuple, settings: dict[str, Any]) -> None:
        """Note that a function's result, an array of its own, is copied to `out`."""
        self.note(_copy_result, (plain(out), function, args, settings), {}, function.__name__)

    # ------------------------------------------------------------ arrays of the step and ours

    def pair(self, found: np.ndarray, ours: np.ndarray) -> None:
        """From now on the memory of `found`, which the step made, corresponds to that of `ours`."""
        memory, own = root(found), root(plain(ours))
        same = (
            self.counterparts.get(memory, own) is own
            and memory.nbytes == own.nbytes
            and _place(found) == _place(plain(ours))
        )
        if not same:
            raise Untraceable("its result lies in memory in another way")
        if own is not memory:  # a view of memory from before the step
            self.counterparts[memory] = own

    def of(self, found: Any) -> Any:
        """Our array for one of the step: a part of what a call wrote, or else the same memory."""
        found = found.inner if isinstance(found, Wrapped) else found
        if not isinstance(found, np.ndarray) or isinstance(found, Traced):
            return found
        memory = root(found)
        own = self.counterparts.get(memory)
        if own is None:
            return found.view(Traced)
        return np.ndarray(found.shape, found.dtype, flat(own), offset(found), found.strides).view(Traced)

    def own(self, found: np.ndarray) -> np.ndarray:
        """Memory of ours for an array of the step, which a call writes as a whole."""
        memory = root(found)
        if memory not in self.counterparts:
            own = np.empty_like(memory, subok=False)
            own[...] = memory
            self.buffers[id(own)] = own
            self.counterparts[memory] = own
        return plain(self.of(found))

    def all_of(self, x: Any) -> Any:
        """`of` every array in tuples and lists, too."""
        if type(x) is tuple or type(x) is list:
            return type(x)(map(self.all_of, x))
        if type(x) is dict:
            return {name: self.all_of(y) for name, y in x.items()}
        return self.of(x)

    def is_made_here(self, found: np.ndarray) -> bool:
        """Whether a call wrote this memory of the step."""
        return root(found) in self.counterparts


def flat(memory: np.ndarray) -> np.ndarray:
    """An array that owns memory, its axes in the order in which they lie there."""
    return memory.transpose(sorted(range(memory.ndim), key=lambda i: -memory.strides[i]))


def offset(array: np.ndarray) -> int:
    """Where an array starts in its memory, in bytes."""
    start = lambda x: x.__array_interface__["data"][0]
    return start(array) - start(root(array))


def _place(array: np.ndarray) -> tuple[int, list[int]]:
    """Where an array lies in its memory: an axis of one element may have any stride."""
    return offset(array), [step for step, n in zip(array.strides, array.shape, strict=True) if n != 1]


@contextlib.contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """Within it, what this thread computes with traced arrays is noted in `trace`."""
    before, current.trace = current.trace, trace
    try:
        yield
    finally:
        current.trace = before


def _copy_result(out: np.ndarray, function: Callable, args: tuple, settings: dict[str, Any]) -> None:
    out[...] = function(*map(_resolved, args), **settings)


def _resolved(x: Any) -> Any:
    return x.current() if isinstance(x, DrawnKey) else x
