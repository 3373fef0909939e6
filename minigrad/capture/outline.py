"""What a recorded step does, in a form that two recordings can be compared in.

A replay repeats the numbers that Python had when the step was recorded: settings, indices, constants, options
of optimizers. The call after the recording is recorded, too; where the two differ, some number of Python's
would have been frozen, and that call is refused.
"""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, NoReturn

import numpy as np

from ..errors import CaptureError
from ..optim import Optimizer
from ..tensor import Tensor
from ..trees import leaves
from ..versions import closure_of, root, where
from .observers import SMALL
from .recorder import Recorder, same_bits
from .trace import offset

VALUES = (int, float, complex, bool, str, bytes, type(None), type(...), slice, np.generic, np.dtype)


class Constant:
    """An array that no call of the step wrote: one that stays, or numbers that Python made."""

    def __init__(self, array: np.ndarray) -> None:
        self.memory, self.place = root(array), place_of(array)
        self.numbers = array.copy() if array.nbytes <= SMALL else array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return False
        if self.memory is other.memory:
            return self.place == other.place
        return same_bits(self.numbers, other.numbers)

    __hash__ = None  # type: ignore[assignment]


class Outline:
    """The calls of a recording, what it returns, and the optimizers that step in it."""

    def __init__(self, recorder: Recorder) -> None:
        self.written, self.numbers = recorder.trace.buffers, dict[int, int]()  # of memory, by id
        calls = recorder.trace.calls
        self.calls = [(self._of(c.function), self._of(c.args), self._of(c.settings)) for c in calls]
        self.said = [c.name + (f" at {where(c.source)}" if c.source else "") for c in calls]
        results = leaves(recorder.plan.results)
        self.results = [self._of(x.array if isinstance(x, Tensor) else x) for x in results]
        self.kept_whole, self.optimizers = recorder.kept_whole, recorder.optimizers
        self.options: dict[Optimizer, list[dict[str, Any]]] = {}
        del self.written

    def _of(self, x: Any) -> Any:
        """What says whether two arguments are the same; of most objects only their kind."""
        if isinstance(x, np.ndarray):
            memory = root(x)
            if id(memory) not in self.written:
                return Constant(x)
            return self.numbers.setdefault(id(memory), len(self.numbers)), place_of(x)
        if type(x) is tuple or type(x) is list:
            return type(x), [self._of(part) for part in x]
        if type(x) is dict:
            if "params" in x:  # an optimizer's group, whose options replays read
                return dict
            return {name: self._of(part) for name, part in x.items()}
        if isinstance(x, VALUES):
            return type(x), repr(x)  # -0.0 is not 0.0, and a NaN is a NaN
        if isinstance(x, partial):
            return self._of(x.func), self._of(x.args), self._of(x.keywords)
        if isinstance(x, MethodType):
            return x.__func__
        if isinstance(x, FunctionType) and x.__closure__:  # perhaps made anew in each call
            return x.__code__, [self._of(part) for part in closure_of(x) if not callable(part)]
        return x if isinstance(x, FunctionType | BuiltinMethodType | np.ufunc) else type(x)

    def note_options(self) -> None:
        """Note the options of all optimizers before the step runs once more."""
        self.options = {optimizer: _options(optimizer) for optimizer in self.optimizers}

    def confirm(self, recorder: Recorder) -> None:
        """Refuse another recording of the step if it is not the same; the first difference says where."""
        other = Outline(recorder)
        for i, (before, now) in enumerate(zip_longest(self.calls, other.calls)):
            if before != now:
                was, said = (
                    outline.said[i] if i < len(outline.said) else "the end" for outline in (self, other)
                )
                _refuse(f"{said}, with other numbers" if said == was else f"{said} (instead of {was})")
        if self.results != other.results:
            _refuse("a result that Python made")
        for optimizer, before in self.options.items():
            changed = [k for x, y in zip(before, _options(optimizer), strict=True) for k in x if x[k] != y[k]]
            if changed and optimizer not in recorder.scheduled:
                place = where(self.optimizers[optimizer])
                _refuse(f"{changed[0]} of {type(optimizer).__name__} at {place}, set in the step")


def _refuse(what: str) -> NoReturn:
    raise CaptureError(
        f"{what}: not what the call before did, and so it cannot be captured.\n"
        f"A replay runs no Python, and repeats its numbers: pass what changes as an argument, as an array. "
        f"Options of an optimizer may be changed by a scheduler, or outside the step."
    )


def _options(optimizer: Optimizer) -> list[dict[str, Any]]:
    return [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]


def place_of(array: np.ndarray) -> tuple[Any, ...]:
    """Which part of its memory an array is; in which order that lies may depend on numbers (LAPACK's)."""
    owner = root(array)
    if (array.shape, array.strides) == (owner.shape, owner.strides):
        return array.dtype, array.shape
    return array.dtype, array.shape, array.strides, offset(array)
