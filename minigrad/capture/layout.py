"""Where a plan's arrays lie: those that are never needed at the same time share memory.

An array is needed from the first call that has it to the last. The largest are placed first, each at the
lowest place that is free for as long as it is needed (Pisarchyk and Lee 2020, "Efficient Memory Management
for Deep Neural Net Inference", greedy by size).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from ..kernels import kernels
from ..versions import root
from .calls import Box, Call, arrays_in
from .fusing import element, fused
from .trace import Trace, flat

ON_CPU = np.empty(0)  # `kernels` wants an array: any of NumPy's
ALIGNMENT = 64  # bytes: a cache line, and the widest vector


class Space:
    """Memory for the plans of all signatures: they run one at a time, and each writes what it reads."""

    def __init__(self) -> None:
        self.bytes = np.empty(0, np.uint8)
        self.gradients: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary()  # by the id of the leaf

    def of(self, size: int) -> np.ndarray:
        """So many bytes; a plan that needs more than there are gets a larger piece, others keep theirs."""
        if self.bytes.size < size + ALIGNMENT:
            self.bytes = np.empty(size + size // 4 + ALIGNMENT, np.uint8)  # for a longer batch, too
        return self.bytes


class Need(NamedTuple):
    """An array that owns memory, and the first and the last call that have it."""

    owner: np.ndarray
    first: int
    last: int


def needs(calls: list[Call], owners: dict[int, np.ndarray]) -> list[Need]:
    """When each of these arrays, by id, is needed; not those that no call has."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, call in enumerate(calls):
        for x in call.arrays():
            number = id(root(x))
            if number in owners:
                first.setdefault(number, i)
                last[number] = i
    return [Need(owners[number], first[number], last[number]) for number in first]


def computed_again(calls: list[Call], owners: dict[int, np.ndarray]) -> list[Call]:
    """The calls, of which the cheap ones are made again where their result is needed long after.

    In between it takes no memory (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
    """
    has = [{id(root(x)) for x in call.arrays()} for call in calls]
    boxed = in_boxes(calls)
    again: dict[int, list[Call]] = {}  # before which call
    moved: list[tuple[int, np.ndarray, np.ndarray]] = []  # from which call on one array stands for another
    for i, call in enumerate(calls):
        if call.name not in CHEAP:
            continue
        seen = set().union(*has[:i])
        made = [x for x in call.arrays() if id(root(x)) in owners and id(root(x)) not in seen]
        result = max(made, key=lambda x: x.nbytes, default=None)
        if result is None or id(root(result)) in boxed:
            continue
        uses = [j for j in range(i, len(calls)) if id(root(result)) in has[j]]
        gap, later = max(zip(np.diff(uses), uses[1:], strict=True), default=(0, 0))
        inputs = has[i] - {id(root(x)) for x in made}
        if gap < LONG * len(calls) or not all(_stays(n, calls, has, i, later, owners) for n in inputs):
            continue
        memory = np.empty_like(root(result), subok=False)
        owners[id(memory)] = memory
        moved.append((later, root(result), memory))
        again.setdefault(later, []).append(with_memory(call, root(result), memory))
    new: list[Call] = []
    for j, call in enumerate(calls):
        new += again.get(j, [])
        for later, old, memory in moved:
            if j >= later and id(old) in has[j]:
                call = with_memory(call, old, memory)
        new.append(call)
    return new


def in_place(calls: list[Call], owners: dict[int, np.ndarray]) -> list[Call]:
    """The calls, of which elementwise ones write over an operand that nothing reads afterwards."""
    loops = getattr(kernels(ON_CPU), "IN_PLACE", {})
    has = [{id(root(x)) for x in call.arrays()} for call in calls]
    first = {number: i for i, numbers in reversed([*enumerate(has)]) for number in numbers}
    last = {number: i for i, numbers in enumerate(has) for number in numbers}
    boxed = in_boxes(calls)
    new: list[Call] = []
    moved: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by its id an array, and what has its numbers

    def move(y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From now on x has the numbers of y."""
        old, memory = moved[id(root(y))] = root(y), root(x)
        last[id(memory)] = last[id(old)]
        return old, memory

    def is_free(x: np.ndarray, y: np.ndarray, i: int) -> bool:
        """Whether the i-th call is the last with x and the first with y, and each is all of its memory."""
        mine, other = root(x), root(y)
        if not boxed.isdisjoint({id(mine), id(other)}):
            return False
        is_whole = mine.nbytes == x.nbytes == y.nbytes == other.nbytes
        return is_whole and {id(mine), id(other)} <= owners.keys() and last[id(mine)] == first[id(other)] == i

    for i, call in enumerate(calls):
        for number in has[i] & moved.keys():
            call = with_memory(call, *moved[number])
        if call.function in loops:
            function, given, result = loops[call.function]
            x, y = call.args[given], call.args[result]
            if is_free(x, y, i):
                rest = call.args[:result] + call.args[result + 1 :]
                call = call._replace(function=function, args=rest, name=function.__name__)
                move(y, x)
        elif (found := element(call)) is not None and call.function is not np.copyto:
            y = found.out
            for x in found.inputs:
                if _lie_alike(x, y) and is_free(x, y, i) and all(_apart(z, x) for z in found.inputs):
                    call = with_memory(call, *move(y, x))
                    break
        new.append(call)
    return new


def _lie_alike(x: Any, y: np.ndarray) -> bool:
    """Whether x is an array of the same layout."""
    return isinstance(x, np.ndarray) and (x.shape, x.strides, x.dtype) == (y.shape, y.strides, y.dtype)


def _apart(x: Any, y: np.ndarray) -> bool:
    """Whether x is no other view of y's memory."""
    return not isinstance(x, np.ndarray) or root(x) is not root(y) or _lie_alike(x, y)


CHEAP = ("_tanh", "_exact", "_layer_norm", "_rms_norm")  # loops that are faster than a product of their size
LONG = 0.1  # of all calls


def _stays(number: int, calls: list[Call], has: list[set[int]], first: int, last: int, owners: Any) -> bool:
    """Whether memory is what it was from one call to another, and needed later anyway."""
    between = range(first + 1, last)
    if number not in owners and any(type(calls[j].function) is partial for j in between):
        return False  # an optimizer's: what it changes does not show
    if number in owners and not any(number in has[j] for j in range(last, len(calls))):
        return False
    return all(number not in has[j] or number not in (calls[j].writes or {number}) for j in between)


def in_boxes(calls: list[Call]) -> set[int]:
    """The ids of the memory that gradient functions of ops that were kept whole have: it stays theirs."""
    return {id(root(x)) for call in calls for x in arrays_in([y for y in call.args if isinstance(y, Box)])}


def with_memory(call: Call, old: np.ndarray, new: np.ndarray) -> Call:
    """A call with other memory for some of its arrays."""
    start = old.ctypes.data
    return call.with_arrays(lambda x: in_memory(x, flat(new), start, 0) if root(x) is old else x)


def places(needed: list[Need]) -> tuple[list[int], int]:
    """The place of each array in bytes, and how many bytes all take."""
    offsets, placed, end = [0] * len(needed), list[int](), 0
    for i in sorted(range(len(needed)), key=lambda i: -needed[i].owner.nbytes):
        size = _aligned(needed[i].owner.nbytes)
        others = sorted(
            (offsets[j], _aligned(needed[j].owner.nbytes))
            for j in placed
            if needed[j].first <= needed[i].last and needed[i].first <= needed[j].last
        )
        place = 0
        for offset, taken in others:
            if offset - place >= size:
                break
            place = max(place, offset + taken)
        offsets[i] = place
        placed.append(i)
        end = max(end, place + size)
    return offsets, end


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Buffer(NamedTuple):
    """An array of a plan: which calls need it, where it lies in bytes, and what writes it first."""

    first: int
    last: int
    offset: int
    nbytes: int
    dtype: np.dtype
    shape: tuple[int, ...]
    name: str


def lay_out(
    trace: Trace, stays: list[np.ndarray], shared: dict[int, np.ndarray], space: Space
) -> tuple[list[Call], int, list[Buffer]]:
    """The calls of a trace, in memory of which as little is taken as can be; the size of all, and the arrays.

    The arrays of `stays`, and those that a gradient function refers to, stay where they are. What owns those
    of `shared`, by its id, has this memory instead.
    """
    fixed = {id(root(x)) for x in stays} | shared.keys() | refers_to(trace)
    owners = {number: x for number, x in trace.buffers.items() if number not in fixed}
    calls = in_place(computed_again(trace.calls, owners), owners)
    if kernels(ON_CPU).__name__.endswith(".jit"):
        calls = fused(calls, lambda number: number not in owners)
    needed = needs(calls, owners)
    offsets, size = places(needed)
    memory = space.of(size)
    start = -memory.ctypes.data % ALIGNMENT
    moved = {
        id(need.owner): (memory, need.owner.ctypes.data, start + offset)
        for need, offset in zip(needed, offsets, strict=True)
    }
    moved |= {n: (flat(new), trace.buffers[n].ctypes.data, 0) for n, new in shared.items()}

    def placed(x: np.ndarray) -> np.ndarray:
        return in_memory(x, *moved[id(root(x))]) if id(root(x)) in moved else x

    calls = [call.with_arrays(placed) for call in calls]
    present = {id(root(x)): root(x) for call in calls for x in call.arrays() if id(root(x)) in trace.buffers}
    buffers = [
        Buffer(first, last, offset, x.nbytes, x.dtype, x.shape, calls[first].name)
        for (x, first, last), offset in zip(needed, offsets, strict=True)
    ]
    return calls, size + sum(x.nbytes for x in [*present.values(), *shared.values()]), buffers


def in_memory(x: np.ndarray, memory: np.ndarray, before: int, now: int) -> np.ndarray:
    """An array in other memory: what began at the address `before` begins at the byte `now`."""
    return np.ndarray(x.shape, x.dtype, memory, x.ctypes.data - before + now, x.strides)


def refers_to(trace: Trace) -> set[int]:
    """The ids of the memory that gradient functions refer to."""
    return {id(root(x)) for call in trace.calls for x in call.fixed}
