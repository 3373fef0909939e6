"""What a gradient function keeps alive: the arrays that its closure refers to, and who owns their memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

NUMBERS = frozenset([int, float, bool])


def arrays_in(thing: Any) -> Iterator[Any]:
    """Yield every array that a gradient function refers to, also through nested closures."""
    stack = [thing]
    seen = set()
    while stack:
        thing = stack.pop()
        if hasattr(thing, "strides"):
            yield thing
            continue
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, tuple | list):
            if not NUMBERS.issuperset(map(type, thing)):
                stack.extend(thing)
        elif isinstance(thing, dict):
            stack.extend(thing.values())
        elif isinstance(thing, partial):
            stack += (thing.func, thing.args, thing.keywords)
        elif isinstance(thing, MethodType):
            stack += (thing.__func__, getattr(thing.__self__, "__dict__", None))
        elif isinstance(thing, FunctionType):
            stack += closure_of(thing)
            stack += (thing.__defaults__, thing.__kwdefaults__)
        elif callable(thing) and not isinstance(thing, type):  # an object with __call__
            stack.append(getattr(thing, "__dict__", None))


def closure_of(function: Any) -> list[Any]:
    """The values in a function's closure."""
    return [c.cell_contents for c in getattr(function, "__closure__", None) or () if _is_filled(c)]


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a closure variable that was never assigned
        return False


def holds(thing: Any, memory: Any = None) -> bool:
    """Whether a gradient function refers to an array in `memory` (see `root`), or if that is None, to any."""
    return any(memory is None or root(array) is memory for array in arrays_in(thing))


def root(array: Any) -> Any:
    """The array that owns the memory of `array`."""
    while array.base is not None and hasattr(array.base, "base"):
        array = array.base
    return array
