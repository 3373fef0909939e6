"""Elementwise calls that follow each other as one loop, compiled by numba.

Each element goes through all of them while it is in a register, and what only they need is never written. The
loop computes as NumPy does, in the same dtypes and without the compiler's liberties (no fast mathematics).
It is used only if on random numbers it gives NumPy's result bit for bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..versions import root
from .calls import Call

EXPRESSIONS = {
    np.add: "{} + {}", np.subtract: "{} - {}", np.multiply: "{} * {}", np.true_divide: "{} / {}",
    np.negative: "-{}", np.square: "{0} * {0}", np.sqrt: "np.sqrt({})", np.absolute: "abs({})",
    np.equal: "{} == {}", np.not_equal: "{} != {}", np.less: "{} < {}", np.less_equal: "{} <= {}",
    np.greater: "{} > {}", np.greater_equal: "{} >= {}", np.bitwise_and: "{} & {}",
    np.maximum: "({0} if {0} > {1} or {0} != {0} else {1})",
    np.minimum: "({0} if {0} < {1} or {0} != {0} else {1})", np.copyto: "{}",
}  # fmt: skip
TYPES = {"f": "float32", "d": "float64", "b": "int8", "i": "int32", "l": "int64", "?": "bool_"}


RANDOM = 10_007  # numbers: a prime, so that all rows differ
SEVERAL, MANY = 4, 24  # calls in a row: so many small ones are worth a function, more take long to compile
SMALLEST = 4096  # numbers that a loop writes: below, to call it by itself takes longer than to call NumPy

Key = tuple[int, int, str]  # where an array lies: address, size, dtype


class Element(NamedTuple):
    """An elementwise call: what it reads, the dtypes in which it computes, and where it writes."""

    call: Call
    inputs: list[Any]
    dtypes: tuple[np.dtype, ...]
    out: np.ndarray

    @property
    def arrays(self) -> list[np.ndarray]:
        """What it reads, but for numbers."""
        return [x for x in self.inputs if isinstance(x, np.ndarray)]


def element(call: Call) -> Element | None:
    """The call as an elementwise one, or None where it is not."""
    if call.function not in EXPRESSIONS:
        return None
    if call.function is np.copyto:
        out, *inputs = call.args
        if not isinstance(inputs[0], np.ndarray):
            return None
        dtypes: tuple[np.dtype, ...] = (out.dtype, out.dtype)
    else:
        if call.settings.keys() != {"out"}:
            return None
        out, inputs = call.settings["out"][0], list(call.args)
        if not all(_fits(x, out) for x in inputs):
            return None
        kinds = [x.dtype if isinstance(x, np.ndarray | np.generic) else type(x) for x in inputs]
        ufunc: Any = call.function
        dtypes = ufunc.resolve_dtypes((*kinds, None))
    fits = all(_fits(x, out) for x in inputs) and dtypes[-1] == out.dtype
    known = all(dtype.char in TYPES for dtype in dtypes) and out.flags.c_contiguous and out.ndim
    if call.function in (np.maximum, np.minimum) and isinstance(inputs[1], np.ndarray):
        return None  # of two zeros NumPy may choose either
    return Element(call, inputs, dtypes, out) if fits and known and out.size else None


def _fits(x: Any, out: np.ndarray) -> bool:
    """Whether an operand is a number, a row for each row of the result, or of its shape."""
    if not isinstance(x, np.ndarray):
        return isinstance(x, int | float | np.generic) and type(x) is not bool
    same = x.shape == out.shape or (out.ndim > 1 and x.shape == out.shape[-1:]) or x.size == 1
    return same and x.flags.c_contiguous and x.dtype.char in TYPES


class Group:
    """Elementwise calls of the same shape that follow each other, and the place of the call after them.

    What one of them writes, none of them has another view of.
    """

    def __init__(self, first: Element, end: int) -> None:
        self.parts: list[Element] = []
        self.read: dict[int, set[Key]] = defaultdict(set)  # places, by the id of the memory
        self.written: dict[int, Key] = {}
        self.is_open = self._is_apart(first)
        self.add(first, end)

    @property
    def calls(self) -> list[Call]:
        return [part.call for part in self.parts]

    @property
    def is_small(self) -> bool:
        """Whether to call a loop takes as long as to call NumPy for each part."""
        return self.parts[0].out.size * len(self.parts) < SMALLEST

    def takes(self, new: Element) -> bool:
        """Whether a call can be part of the loop."""
        first = self.parts[0].out
        is_of_shape = (new.out.size, new.out.shape[-1]) == (first.size, first.shape[-1])
        return self.is_open and is_of_shape and self._is_apart(new)

    def add(self, new: Element, end: int) -> None:
        self.parts.append(new)
        self.end = end
        for x in new.arrays:
            self.read[id(root(x))].add(_key(x))
        self.written[id(root(new.out))] = _key(new.out)

    def _is_apart(self, new: Element) -> bool:
        memory, place = id(root(new.out)), _key(new.out)
        places = {place, self.written.get(memory, place)} | self.read.get(memory, set())
        for x in new.arrays:
            if id(root(x)) == memory:
                places.add(_key(x))
            elif self.written.get(id(root(x)), _key(x)) != _key(x):
                return False
        return len(places) == 1


def fused(calls: list[Call], stay: Callable[[int], bool]) -> list[Call]:
    """The calls, of which elementwise ones in a row are one; `stay(id)`: whether memory is read later."""
    last = {id(root(x)): i for i, call in enumerate(calls) for x in call.arrays()}
    new: list[Call] = []
    run: list[Group] = []  # with no other call between them
    for i, call in enumerate([*calls, None]):
        found = None if call is None else element(call)
        if found is None:
            new += _in_loops(run, lambda number, end: stay(number) or last[number] >= end)
            new += [] if call is None else [call]
            run = []
        elif run and run[-1].takes(found):
            run[-1].add(found, i + 1)
        else:
            run.append(Group(found, i + 1))
    return new


def _in_loops(run: list[Group], is_read: Callable[[int, int], bool]) -> list[Call]:
    """One call of all loops if that saves several small calls, or a loop for each group that is not small."""
    calls = [call for group in run for call in group.calls]
    small = sum(len(group.parts) for group in run if group.is_small)
    if len(run) > 1 and small >= SEVERAL and len(calls) <= MANY:
        loops, written = _loops_of(run, is_read)
        if _agrees(calls, loops, written):
            return [loops]
    new: list[Call] = []
    for group in run:
        if len(group.parts) > 1 and not group.is_small:
            loops, written = _loops_of([group], is_read)
            if _agrees(group.calls, loops, written):
                new.append(loops)
                continue
        new += group.calls
    return new


def _loops_of(groups: list[Group], is_read: Callable[[int, int], bool]) -> tuple[Call, list[np.ndarray]]:
    """One call for all, a loop for each group; and the arrays that it writes: those for which `is_read` is
    True, given the place of the call after the group.
    """
    arrays: list[np.ndarray] = []
    numbers: list[Any] = []
    written: list[np.ndarray] = []
    source = ""
    for group in groups:
        is_read_after = lambda number, end=group.end: is_read(number, end)
        source += _loop_source(group.parts, arrays, numbers, written, is_read_after)
    parameters = [*(f"a{i}" for i in range(len(arrays))), *(f"n{i}" for i in range(len(numbers)))]
    name = "fused " + ", ".join(call.name for group in groups for call in group.calls)
    loop = compiled(f"def loop({', '.join(parameters)}):\n{source}")
    return Call(loop, (*arrays, *numbers), {}, name), written


def _loop_source(
    group: list[Element],
    arrays: list[np.ndarray],
    numbers: list[Any],
    written: list[np.ndarray],
    is_read: Callable[[int], bool],
) -> str:
    """The loop of a group, which adds to the arrays and numbers that it takes, and to what it writes."""
    columns, start = group[0].out.shape[-1], len(arrays)
    names: dict[Key, str] = {}  # of the variables, by the place of the array
    lines: list[str] = []

    def operand(x: Any, dtype: np.dtype) -> str:
        kind = TYPES[dtype.char]
        if not isinstance(x, np.ndarray):
            numbers.append(dtype.type(x))
            return f"n{len(numbers) - 1}"
        if _key(x) not in names:
            arrays.append(x.reshape(-1, columns) if x.size == group[0].out.size else x.reshape(-1))
            place = "i, j" if arrays[-1].ndim == 2 else "j" if x.size == columns else "0"
            names[_key(x)] = f"x{len(arrays) - 1}"
            lines.append(f"{names[_key(x)]} = a{len(arrays) - 1}[{place}]")
        return f"{kind}({names[_key(x)]})"

    for k, part in enumerate(group):
        given = [operand(x, dtype) for x, dtype in zip(part.inputs, part.dtypes[:-1], strict=True)]
        kind = TYPES[part.dtypes[-1].char]
        lines.append(f"v{start}_{k} = {kind}({EXPRESSIONS[part.call.function].format(*given)})")
        names[_key(part.out)] = f"v{start}_{k}"
    kept = {_key(part.out): part.out for part in group if is_read(id(root(part.out)))}
    read = {(_key(x), x.dtype): i for i, x in enumerate(arrays[start:], start) if x.ndim == 2}
    place = len(arrays) - 1
    for key, out in kept.items():  # what is written over what was read is the same array to the compiler
        place = read.get((key, out.dtype), len(arrays))
        if place == len(arrays):
            arrays.append(out.reshape(-1, columns))
        lines.append(f"a{place}[i, j] = {names[key]}")
    written += kept.values()
    body = "\n            ".join(lines)
    return f"    for i in range(a{place}.shape[0]):\n        for j in range({columns}):\n            {body}\n"


def _key(x: np.ndarray) -> Key:
    """The place of an array; booleans may be read as integers."""
    return x.__array_interface__["data"][0], x.size, x.dtype.char.replace("?", "b")


@cache
def compiled(source: str) -> Any:
    """The loop of a source, compiled: strictly as it is written."""
    from numba import njit

    space = {"np": np, **{name: getattr(np, name) for name in TYPES.values()}}
    exec(compile(source, "<fused loop>", "exec"), space)
    return njit(nogil=True, error_model="numpy")(space["loop"])


def _agrees(group: list[Call], loop: Call, outs: list[np.ndarray]) -> bool:
    """Whether on random numbers the loop writes to `outs` what the calls write; then all is as before."""
    owners = {id(root(x)): root(x) for call in [*group, loop] for x in call.arrays()}
    before = {number: x.copy() for number, x in owners.items()}
    start = {number: _random(i, x) for i, (number, x) in enumerate(owners.items())}
    results = []
    try:
        for calls in (group, [loop]):
            for number, x in owners.items():
                x[...] = start[number]
            with np.errstate(all="ignore"):
                for call in calls:
                    call.run()
            results.append([x.tobytes() for x in outs])
    finally:
        for number, x in owners.items():
            x[...] = before[number]
    return results[0] == results[1]


def _random(seed: int, x: np.ndarray) -> np.ndarray:
    """Numbers of both signs, zeros among them, over and over."""
    return np.resize(_numbers(seed), x.shape).astype(x.dtype)


@cache
def _numbers(seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.normal(size=RANDOM) * (draw.random(RANDOM) > 0.2) * 3
