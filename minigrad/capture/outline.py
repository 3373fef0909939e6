"""What a recorded step does, in a form in which two recordings can be compared.

A replay repeats the numbers that Python had when the step was recorded: settings, indices, constants, options
of optimizers. The call after the recording is recorded, too; where the two differ, something of Python's
would have been frozen, and that call is refused.
"""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import numpy as np

from ..nn.module import Module
from ..ops.op import OpInfo
from ..optim import Optimizer
from ..optim.lr_scheduler import LRScheduler
from ..random import Generator
from ..tensor import Tensor
from ..trees import leaves, structure
from ..versions import closure_of, root, where
from .calls import Box
from .failures import raise_changed, said_of
from .observers import SMALL
from .recorder import Recorder, same_bits
from .trace import offset

VALUES = (int, float, complex, bool, str, bytes, type(None), type(...), slice, np.generic, np.dtype)
LASTING = (Optimizer, LRScheduler, Generator, Module)  # whose state replays read: these very objects
LIVE = {"count_step"}  # calls that find out for themselves what they are made with


class Same:
    """A thing that has to be the same object."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.thing is other.thing

    __hash__ = None  # type: ignore[assignment]


class Setting:
    """An object of a user's, the same if it says so; one that cannot say is, if it is of this kind."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Setting) or type(self.thing) is not type(other.thing):
            return False
        if self.thing is other.thing or type(self.thing).__eq__ is object.__eq__:
            return True
        try:
            return bool(self.thing == other.thing)
        except Exception:
            return False  # it cannot say that it is the same

    __hash__ = None  # type: ignore[assignment]


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
        self.recorder, self.numbers = recorder, dict[int, int]()  # of memory that calls write, by id
        self.groups = {id(group) for optimizer in recorder.optimizers for group in optimizer.param_groups}
        self.calls = [
            c.name if c.name in LIVE else (self._of(c.function), self._of(c.args), self._of(c.settings))
            for c in recorder.trace.calls
        ]
        self.names = [(c.name, c.source) for c in recorder.trace.calls]
        results = leaves(recorder.plan.results)
        arrays = [x.array if isinstance(x, Tensor) else x for x in results]
        self.results = structure(recorder.plan.results), list(map(type, results)), list(map(self._of, arrays))
        self.kept_whole, self.optimizers = recorder.kept_whole, recorder.optimizers
        del self.recorder

    def _of(self, x: Any, around: tuple[Any, ...] = ()) -> Any:
        """What says whether two arguments are the same."""
        if isinstance(x, np.ndarray):
            return self._of_array(x)
        if type(x) is tuple or type(x) is list:
            return type(x), [self._of(part, around) for part in x]
        if type(x) is dict:
            if id(x) in self.groups:  # an optimizer's, whose options replays read
                return Same(x)
            return {name: self._of(part, around) for name, part in x.items()}
        if isinstance(x, VALUES):
            return type(x), repr(x)  # -0.0 is not 0.0, and a NaN is a NaN
        if isinstance(x, LASTING):
            return Same(x)
        if isinstance(x, Box):
            parts = x.value if type(x.value) is tuple else ()
            return type(x), [Same(part) for part in parts if isinstance(part, LASTING)]
        if isinstance(x, partial):
            return self._of(x.func), self._of(x.args), self._of(x.keywords)
        if isinstance(x, MethodType):
            return x.__func__
        if isinstance(x, FunctionType):  # perhaps made anew in each call
            inside = () if any(x is outer for outer in around) else closure_of(x)
            kept = [x.__defaults__, x.__kwdefaults__, *inside]
            return x.__code__, [self._of(part, (*around, x)) for part in kept]
        if isinstance(x, BuiltinMethodType | np.ufunc | type):
            return x
        if isinstance(x, OpInfo):
            return x.key
        if hasattr(x, "py_func"):  # a compiled loop
            return Same(x)
        return type(x) if type(x).__module__.startswith("minigrad.") else Setting(x)

    def _of_array(self, x: np.ndarray) -> Any:
        memory = root(x)
        if id(memory) in self.recorder.trace.buffers:
            return self.numbers.setdefault(id(memory), len(self.numbers)), place_of(x)
        if id(memory) in self.recorder.earlier:  # a gradient from before the step
            return Same(self.recorder.earlier[id(memory)]), place_of(x)
        return (Same(memory), place_of(x)) if id(memory) in self.recorder.written else Constant(x)

    def confirm(self, recorder: Recorder, step_fn: Any) -> None:
        """Refuse another recording of the step if it is not the same, and say where."""
        other = Outline(recorder)
        for i, (before, now) in enumerate(zip_longest(self.calls, other.calls)):
            if before != now:
                was, said = self._said(i), other._said(i)
                raise_changed(
                    f"{said} has other arguments" if said == was else f"{said} comes instead of {was}"
                )
        if self.results != other.results:
            raise_changed(f"a result of {said_of(step_fn)} is another number, or of another structure")
        for optimizer in self.optimizers:
            recorder.check_options(optimizer)

    def _said(self, i: int) -> str:
        name, source = self.names[i] if i < len(self.names) else ("the end of the step", None)
        return f"{name} at {where(source)}" if source else name


def place_of(array: np.ndarray) -> tuple[Any, ...]:
    """Which part of its memory an array is; in which order that lies may depend on numbers (LAPACK's)."""
    owner = root(array)
    if (array.shape, array.strides) == (owner.shape, owner.strides):
        return array.dtype, array.shape
    return array.dtype, array.shape, array.strides, offset(array)
