"""Versions: which memory was changed in place, when, by what and from where.

A clock counts all changes. A tensor and its views share a Cell that says when their memory was last changed;
a node remembers the time at which it was recorded, so that backward can tell whether an array that it needs
is as it was.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import GraphError

if TYPE_CHECKING:
    from .autograd import Node
    from .tensor import Tensor

# frames in these files are ours, not the user's
LIBRARY = frozenset(str(path) for path in Path(__file__).parent.rglob("*.py"))


def caller() -> tuple[CodeType, int]:
    """The nearest place outside minigrad, as (code, instruction): cheap to take, resolved by `where`."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in LIBRARY and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def where(source: tuple[CodeType, int]) -> str:
    """`file:line` of what `caller` took."""
    code, instruction = source
    line = next(itertools.islice(code.co_positions(), instruction // 2, None))[0]
    return f"{code.co_filename}:{line}"


class Change(NamedTuple):
    """One change in place: when, of which memory (a weak reference), by what and from where."""

    time: int
    memory: Callable[[], Any]
    name: str
    source: tuple[CodeType, int]

    def __str__(self) -> str:
        return f"{self.name} at {where(self.source)}"


class Cell:
    """What a tensor and its views share: when their memory was last changed in place, and how."""

    __slots__ = ("changes", "stamp")

    def __init__(self) -> None:
        self.stamp = 0
        self.changes: list[Change] = []  # of each memory the last (a reshape may have copied)


class _Clock:
    time = 0  # the number of in-place operations so far


clock = _Clock()


def root(array: Any) -> Any:
    """The array that owns the memory of `array`."""
    while array.base is not None and hasattr(array.base, "base"):
        array = array.base
    return array


def share_cell(tensor: Tensor) -> Cell:
    """The tensor's version cell, made on first need and shared with the edge that stands for the tensor."""
    if tensor.cell is None:
        tensor.cell = Cell()
        if tensor.node is not None:
            tensor.node.cell = tensor.cell
    return tensor.cell


def record_change(tensor: Tensor, name: str, source: tuple[CodeType, int] | None = None) -> None:
    """Note that `name` is about to change `tensor` in place, at `source` (the caller's place)."""
    record_changes((tensor,), name, source or caller())


def record_changes(tensors: Iterable[Tensor], name: str, source: tuple[CodeType, int]) -> None:
    """Note that `name` is about to change all of these in place."""
    clock.time += 1
    for tensor in tensors:
        cell, memory = tensor.cell or share_cell(tensor), tensor.array
        if memory.base is not None:
            memory = root(memory)
        before = cell.changes
        if len(before) == 1 and before[0].memory() is memory:
            reference, others = before[0].memory, []
        else:
            reference = weakref.ref(memory)
            others = [c for c in before if c.memory() is not None and c.memory() is not memory]
        cell.stamp = clock.time
        cell.changes = [*others, Change(clock.time, reference, name, source)]


def arrays_in(thing: Any) -> Iterator[Any]:
    """Every array that a gradient function (its closure, to the bottom) refers to."""
    stack, seen = [thing], set()
    while stack:
        thing = stack.pop()
        if hasattr(thing, "strides"):
            yield thing
        elif isinstance(thing, tuple | list):
            stack.extend(thing)
        elif isinstance(thing, dict):
            stack.extend(thing.values())
        elif isinstance(thing, partial):
            stack += (thing.func, thing.args, thing.keywords)
        elif isinstance(thing, FunctionType) and id(thing) not in seen:
            seen.add(id(thing))
            stack += [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
            stack += (thing.__defaults__, thing.__kwdefaults__)


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # named in a closure, and never assigned
        return False


def holds(thing: Any, memory: Any = None) -> bool:
    """Whether a gradient function refers to `memory`, or to any array."""
    return any(memory is None or root(array) is memory for array in arrays_in(thing))


def check_versions(node: Node, gradients: Any, replayed: bool) -> None:
    """Refuse to walk through a node if `gradients`, its functions, need an array that has been changed since.

    What is replayed starts from the inputs again, so that there every change of one counts, unless the
    gradient needs no array at all.
    """
    for edge in (*node.edges, node):
        cell = getattr(edge, "cell", None)
        if cell is None or cell.stamp <= node.clock:
            continue
        for change in cell.changes:
            memory = change.memory()
            if change.time <= node.clock or memory is None:
                continue
            if holds(gradients, memory) or (replayed and edge is not node and holds(gradients)):
                what = "output" if edge is node else f"input of shape {tuple(edge.shape)}"
                raise GraphError(
                    f"the gradient of {node} needs its {what}, which was changed since by {change}.\n"
                    f"Change a copy (`x.clone()`), or change it after backward()."
                )
