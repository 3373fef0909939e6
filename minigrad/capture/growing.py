"""A step whose shapes grow by the same amount each time, as those of decoding do: each token is one more key.

It is recorded for two numbers, n and n + 1. If both made the same calls, and each array grew or moved by a
fixed amount, then these calls are the step for any later number, on arrays of that number's shapes. A third
step runs as it is, and must leave what they leave, bit for bit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from operator import is_
from typing import Any

import numpy as np

from ..autograd.observers import observe
from ..errors import CaptureError
from ..kernels import active
from ..modes import modes
from ..tensor import Tensor
from ..versions import root
from .calls import Call
from .observers import ConstantObserver
from .recorder import Recorder, same_bits
from .recording import record_calls
from .trace import flat
from .whole import Whole

FURTHEST = 1 << 20  # steps after those that were recorded
MOST_FAILURES = 3  # of recording
NEAR = 50  # steps, which take as long as recording


class Growing:
    """`step_fn` of Tensors, recorded once it was called `steady` times with numbers that grow by one.

    `step(number, *arrays)` returns a Tensor that the next call overwrites. It is recorded anew where one of
    `parameters` has other memory; `forget()` it where something else that it refers to was replaced. What the
    step does besides operations is for `after_replay`. Where it cannot be recorded, the step runs as it is,
    and `refused` says why. `begin_again` uses the plan for another series of numbers.
    """

    def __init__(
        self,
        step_fn: Callable[..., Tensor],
        parameters: Sequence[Tensor] = (),
        after_replay: Callable[[], None] = lambda: None,
        steady: int = 8,
    ) -> None:
        self.step_fn, self.parameters = step_fn, parameters
        self.after_replay, self.steady = after_replay, steady
        self.inputs: list[Tensor] = []
        self.failures, self.refused = 0, ""
        self.forget()

    def forget(self) -> None:
        """Begin anew, as if it had not been called."""
        self.count = 0
        self.number: int | None = -1  # of the last call; None: any may be the next
        self.kind: list[Any] = []
        self.before = ConstantObserver({})
        self.recorder: Recorder | None = None
        self.plan: GrowingPlan | None = None

    def begin_again(self, step_fn: Any, after_replay: Any) -> None:
        """The same step for numbers from anywhere on; the plan must leave what it leaves once more."""
        self.step_fn, self.after_replay = step_fn, after_replay
        self.number = None
        if self.plan is not None:
            self.plan.is_checked = False

    def __call__(self, number: int, *arrays: np.ndarray) -> Tensor:
        mode = modes.__dict__
        kind = [mode["grad_enabled"], mode["fused"], mode["autocast_dtype"], active.cpu]
        kind += [(x.shape, x.dtype) for x in arrays]
        if self.number not in (None, number - 1) or kind != self.kind:
            self.forget()
            self.inputs = [Tensor(np.empty_like(x)) for x in arrays]
        self.number, self.kind = number, kind
        for x, array in zip(self.inputs, arrays, strict=True):
            x.array[...] = array
        if self.refused or modes.observers:
            self.forget()
            return self.step_fn(*self.inputs)
        if self.plan is not None and not self._fits(self.plan, number):
            self.forget()
        if self.plan is not None and self.plan.is_checked:
            result = self.plan.replay(number)
            self.after_replay()
            return result
        return self._next(number)

    def _next(self, number: int) -> Tensor:
        """The step as it is; at its turn it is observed, recorded or checked."""
        if self.plan is not None:
            return self._check(self.plan, number) if number >= self.plan.first else self.step_fn(*self.inputs)
        self.count += 1
        if self.count < self.steady:
            return self.step_fn(*self.inputs)
        if self.count == self.steady:
            with observe(self.before):
                return self.step_fn(*self.inputs)
        first, self.arrays = self.recorder, [p.array for p in self.parameters]
        try:
            self.recorder = record_calls(self.step_fn, tuple(self.inputs), self.before, first)
        except CaptureError as reason:
            self._fail(reason)
            return self.step_fn(*self.inputs)
        result: Tensor = self.recorder.plan.results
        if first is not None:
            try:
                self.plan = GrowingPlan(first, self.recorder, number - 1)
                first.release()
                self.recorder.release()
                self.recorder = None
            except Unlike as reason:
                self._fail(reason)
        return result

    def _check(self, plan: GrowingPlan, number: int) -> Tensor:
        """The step as it is, and then its plan, which must leave the same."""
        changed = at(plan.changed, number - plan.first)
        before = [x.copy() for x in changed]
        found = self.step_fn(*self.inputs)
        after = [x.copy() for x in changed]
        for x, numbers in zip(changed, before, strict=True):
            x[...] = numbers
        replayed = plan.replay(number)
        pairs = [(replayed.array, found.array), *zip(changed, after, strict=True)]
        plan.is_checked = all(same_bits(x, y) for x, y in pairs)
        for x, numbers in zip(changed, after, strict=True):
            x[...] = numbers
        if not plan.is_checked:
            self._fail(Unlike("its calls give other numbers than the step"))
        return found

    def _fail(self, reason: Exception) -> None:
        """Record anew later, a few times: a memory may have been replaced by a larger one just then."""
        number, kind = self.number, self.kind
        self.forget()
        self.number, self.kind, self.failures = number, kind, self.failures + 1
        self.refused = str(reason) if self.failures == MOST_FAILURES else ""

    def _fits(self, plan: GrowingPlan, number: int) -> bool:
        """Whether the plan is of this memory, and of numbers that come before a new one would be recorded."""
        is_near = plan.first - NEAR <= number <= plan.last
        return is_near and all(map(is_, [p.array for p in self.parameters], self.arrays))


class Unlike(Exception):
    """Two recordings are not the same step for two numbers; the message says where they differ."""


# ---------------------------------------------------------------- parts of calls, k steps after the first


class Memory:
    """What an array is a part of: another's memory, or the plan's own, which may be larger at each step."""

    def __init__(self, owner: np.ndarray, growth: int) -> None:
        self.array: Any = flat(owner)
        self.size, self.growth = owner.nbytes, growth

    def at(self, k: int) -> Any:
        if self.growth and self.array.nbytes < (needed := self.size + k * self.growth):
            self.array = np.empty(2 * needed, np.uint8)
        return self.array


class Array:
    """An array whose shape, strides or place grow, or whose memory does."""

    def __init__(self, x: np.ndarray, y: np.ndarray, memory: Memory) -> None:
        place = lambda array: array.ctypes.data - root(array).ctypes.data
        self.memory, self.dtype = memory, x.dtype
        self.shape, self.strides = Numbers(x.shape, y.shape), Numbers(x.strides, y.strides)
        self.place = Number(place(x), place(y))
        self.grows = bool(memory.growth or self.shape.grows or self.strides.grows or self.place.growth)

    def at(self, k: int) -> np.ndarray:
        place = self.place.start + k * self.place.growth
        return np.ndarray(self.shape.at(k), self.dtype, self.memory.at(k), place, self.strides.at(k))

    def last(self) -> int:
        """The largest k for which it is within its memory."""
        return bisect_left(range(FURTHEST), True, key=lambda k: not self._is_within(k)) - 1

    def _is_within(self, k: int) -> bool:
        try:
            self.at(k)
        except (TypeError, ValueError):  # NumPy: the buffer is too small, or the offset negative
            return False
        return True


class Number:
    """An integer that grows."""

    def __init__(self, x: int, y: int) -> None:
        self.start, self.growth = x, y - x

    def at(self, k: int) -> int:
        return self.start + k * self.growth


class Numbers:
    """Integers of which some may grow."""

    def __init__(self, x: tuple[int, ...], y: tuple[int, ...]) -> None:
        self.start, self.growth = x, [b - a for a, b in zip(x, y, strict=True)]
        self.grows = any(self.growth)

    def at(self, k: int) -> Sequence[int]:
        if not self.grows:
            return self.start
        return [a + k * d for a, d in zip(self.start, self.growth, strict=True)]


class Parts:
    """A tuple, a list or a dictionary of which a part grows."""

    def __init__(self, like: Any, parts: list[Any]) -> None:
        self.like, self.parts = like, parts

    def at(self, k: int) -> Any:
        return _like(self.like, [x.at(k) if type(x) in GROWING else x for x in self.parts])


def _parts(x: Any, parts: list[Any]) -> Any:
    return Parts(x, parts) if any(type(part) in GROWING for part in parts) else _like(x, parts)


GROWING = {Array, Number, Parts}


def at(x: Any, k: int) -> Any:
    return x.at(k) if type(x) in GROWING else x


def _like(x: Any, parts: list[Any]) -> Any:
    """A tuple, a list or a dictionary as x is, of these parts."""
    return dict(zip(x, parts, strict=True)) if type(x) is dict else type(x)(parts)


class GrowingPlan:
    """The calls of a step for any number, from those for `first` and for the next."""

    def __init__(self, a: Recorder, b: Recorder, first: int) -> None:
        self.first, self.is_checked = first, False
        self.buffers = a.trace.buffers, b.trace.buffers
        self.memories: dict[int, tuple[Memory, np.ndarray]] = {}  # by the id of the first recording's owner
        self.views: list[Array] = []  # of memory of others
        if len(a.trace.calls) != len(b.trace.calls):
            raise Unlike(f"{len(a.trace.calls)} calls and then {len(b.trace.calls)}")
        self.calls = [self._call(x, y) for x, y in zip(a.trace.calls, b.trace.calls, strict=True)]
        self.result = self._of(a.results[0].array, b.results[0].array)
        self.changed = self._of(tuple(a.changed), tuple(b.changed))  # what it writes of others' memory
        self.last = first + min([view.last() for view in self.views], default=FURTHEST)
        del self.buffers, self.memories  # they refer to the second recording

    def replay(self, number: int) -> Tensor:
        k = number - self.first
        for call, grows in self.calls:
            call(k) if grows else call()
        return Tensor(at(self.result, k))

    def _call(self, x: Call, y: Call) -> tuple[Callable[..., Any], bool]:
        """A call, and whether it depends on the number of steps since the first."""
        if x.function != y.function:
            raise Unlike(f"{x.name} and then {y.name}")
        function, args, settings = x.function, self._of(x.args, y.args), self._of(x.settings, y.settings)
        if isinstance(settings, Parts):
            return (lambda k: function(*at(args, k), **at(settings, k))), True
        if isinstance(args, Parts):
            function = partial(function, **settings) if settings else function
            return (lambda k: function(*args.at(k))), True
        return partial(function, *args, **settings), False

    def _of(self, x: Any, y: Any) -> Any:
        """What stands for a part of both calls: x, or what gives it at any step."""
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
            return self._array(x, y)
        if type(x) is type(y):
            if type(x) in (tuple, list) and len(x) == len(y):
                return _parts(x, [self._of(*pair) for pair in zip(x, y, strict=True)])
            if type(x) is dict and x.keys() == y.keys():
                return _parts(x, [self._of(x[name], y[name]) for name in x])
            if type(x) is int and x != y:
                return Number(x, y)
            is_plain = isinstance(x, str | int | float | np.generic | np.dtype) or callable(x)
            if x is y or isinstance(x, Whole) or (is_plain and x == y):
                return x
        raise Unlike(f"{x!r} and then {y!r}")

    def _array(self, x: np.ndarray, y: np.ndarray) -> Any:
        mine, theirs = root(x), root(y)
        is_own = id(mine) in self.buffers[0]
        if x.dtype != y.dtype or x.ndim != y.ndim or is_own != (id(theirs) in self.buffers[1]):
            raise Unlike(f"{x.dtype}{x.shape} and then {y.dtype}{y.shape}")
        found = Memory(mine, theirs.nbytes - mine.nbytes), theirs
        memory, other = self.memories.setdefault(id(mine), found)
        if other is not theirs or not (is_own or mine is theirs):
            raise Unlike("memory that is replaced from one step to the next")
        array = Array(x, y, memory)
        if not array.grows:
            return x
        if not is_own:
            self.views.append(array)
        return array
