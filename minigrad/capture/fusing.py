"""Elementwise calls that follow each other as one loop, compiled by numba.

Each element goes through all of them while it is in a register, and what only they need is never written. The
loop computes as NumPy does, in the same dtypes and without the compiler's liberties (no fast mathematics).
It is used only if on random numbers it gives NumPy's result bit for bit.
"""

from __future__ import annotations

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


SEVERAL = 10_007  # random numbers: a prime, so that all rows differ
SMALLEST = 4096  # numbers that are written: below, to call a loop takes longer than to call NumPy


class Element(NamedTuple):
    """An elementwise call: what it reads, the dtypes in which it computes, and where it writes."""

    call: Call
    inputs: list[Any]
    dtypes: tuple[np.dtype, ...]
    out: np.ndarray


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


def fused(calls: list[Call], stay: Callable[[int], bool]) -> list[Call]:
    """The calls, of which elementwise ones in a row are one; `stay(id)`: whether memory is read later."""
    last = {id(root(x)): i for i, call in enumerate(calls) for x in call.arrays()}
    new: list[Call] = []
    group: list[Element] = []
    for i, call in enumerate([*calls, None]):
        found = None if call is None else element(call)
        if found is not None and (not group or _goes_on(group, found)):
            group.append(found)
            continue
        parts = [part.call for part in group]
        if len(group) > 1 and group[0].out.size * len(group) >= SMALLEST:
            loop = _loop_of(group, lambda number, i=i: stay(number) or last[number] >= i)  # type: ignore[misc]
            parts = [loop[0]] if _agrees(parts, *loop) else parts
        new += parts
        group = [] if found is None else [found]
        new += [] if call is None or found is not None else [call]
    return new


def _goes_on(group: list[Element], new: Element) -> bool:
    """Whether a call can be part of the loop: of the same shape, with no other view of what it writes."""
    shape = new.out.shape
    if (new.out.size, shape[-1]) != (group[0].out.size, group[0].out.shape[-1]):
        return False
    written = [part.out for part in group]
    read = [x for part in [*group, new] for x in part.inputs if isinstance(x, np.ndarray)]
    for x in [*read, new.out]:
        for y in written if x is not new.out else [*written, *read]:
            if root(x) is root(y) and not _same_place(x, y):
                return False
    return True


def _same_place(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two arrays are the same numbers; booleans may be read as integers."""
    kinds = {x.dtype.char, y.dtype.char}
    return x.ctypes.data == y.ctypes.data and x.size == y.size and (len(kinds) == 1 or kinds == {"?", "b"})


def _loop_of(group: list[Element], is_read: Callable[[int], bool]) -> tuple[Call, list[np.ndarray]]:
    """One call for all, and the arrays that it writes: those for which `is_read` is True."""
    columns = group[0].out.shape[-1]
    names: dict[tuple[int, int, str], str] = {}  # of the variables, by the place of the array
    arrays: list[np.ndarray] = []
    lines: list[str] = []
    numbers: list[Any] = []

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
        lines.append(f"v{k} = {kind}({EXPRESSIONS[part.call.function].format(*given)})")
        names[_key(part.out)] = f"v{k}"
    kept = {_key(part.out): part.out for part in group if is_read(id(root(part.out)))}
    read = {(_key(x), x.dtype): i for i, x in enumerate(arrays) if x.ndim == 2}
    place = len(arrays) - 1
    for key, out in kept.items():  # what is written over what was read is the same array to the compiler
        place = read.get((key, out.dtype), len(arrays))
        if place == len(arrays):
            arrays.append(out.reshape(-1, columns))
        lines.append(f"a{place}[i, j] = {names[key]}")
    parameters = [*(f"a{i}" for i in range(len(arrays))), *(f"n{i}" for i in range(len(numbers)))]
    body = "\n            ".join(lines)
    source = (
        f"def loop({', '.join(parameters)}):\n    for i in range(a{place}.shape[0]):\n"
        f"        for j in range({columns}):\n            {body}\n"
    )
    name = "fused " + ", ".join(part.call.name for part in group)
    return Call(compiled(source), (*arrays, *numbers), {}, name), list(kept.values())


def _key(x: np.ndarray) -> tuple[int, int, str]:
    """The place of an array; booleans may be read as integers."""
    return x.ctypes.data, x.size, x.dtype.char.replace("?", "b")


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
    return draw.normal(size=SEVERAL) * (draw.random(SEVERAL) > 0.2) * 3
