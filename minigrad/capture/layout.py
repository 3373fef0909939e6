"""Where a plan's arrays lie: those that are never needed at the same time share memory.

An array is needed from the first call that has it to the last. The largest are placed first, each at the
lowest place that is free for as long as it is needed (Pisarchyk and Lee 2020, "Efficient Memory Management
for Deep Neural Net Inference", greedy by size).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..versions import root
from .calls import Call
from .trace import Trace

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


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


def lay_out(trace: Trace, stays: list[np.ndarray]) -> tuple[list[Call], int]:
    """The calls of a trace, in memory of which as little is taken as can be, and its size.

    The arrays of `stays`, and those that a gradient function refers to, stay where they are.
    """
    fixed = {id(root(x)) for x in stays}
    fixed |= {id(root(x)) for call in trace.calls for x in call.fixed}
    owners = {number: x for number, x in trace.buffers.items() if number not in fixed}
    needed = needs(trace.calls, owners)
    offsets, size = places(needed)
    space = np.empty(size + ALIGNMENT, np.uint8)
    start = -space.ctypes.data % ALIGNMENT
    moved = {
        id(need.owner): (need.owner.ctypes.data, start + offset)
        for need, offset in zip(needed, offsets, strict=True)
    }

    def placed(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            if id(root(x)) not in moved:
                return x
            before, now = moved[id(root(x))]
            return np.ndarray(x.shape, x.dtype, space, x.ctypes.data - before + now, x.strides)
        if type(x) is tuple or type(x) is list:
            return type(x)(map(placed, x))
        if type(x) is dict:
            return {name: placed(part) for name, part in x.items()}
        return x

    calls = [call._replace(args=placed(call.args), settings=placed(call.settings)) for call in trace.calls]
    present = {id(root(x)): root(x) for call in calls for x in call.arrays() if id(root(x)) in trace.buffers}
    return calls, size + sum(x.nbytes for x in present.values())
