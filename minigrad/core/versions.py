"""Versions: which tensors share memory, and when, by what and from where it was changed in place.

All changes in place are counted. A tensor and its views share a VersionCounter that says at which count
their memory was last changed; a node remembers the count at which it was recorded, so that backward can tell
whether an array that it needs has been changed since.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .devices import address_of
from .errors import GraphError

if TYPE_CHECKING:
    from .node import Node
    from .tensor import Tensor


class _IsLibrary(dict[str, bool]):
    """Whether a file is one of minigrad's; a frame in another is the user's. Each file is looked at once."""

    folder = str(Path(__file__).parents[1]) + os.sep

    def __missing__(self, file: str) -> bool:
        self[file] = is_ours = file.startswith(self.folder)
        return is_ours


is_library = _IsLibrary()


def caller(above: int = 1) -> tuple[CodeType, int]:
    """The nearest place outside minigrad, as (code, instruction): cheap to take, resolved by `where`.

    `above`: how many frames up to begin, where those below are known to be the library's.
    """
    frame = sys._getframe(above)
    while is_library[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def where(source: tuple[CodeType, int]) -> str:
    """`file:line` of what `caller` took."""
    code, instruction = source
    line = next(itertools.islice(code.co_positions(), instruction // 2, None))[0]
    return f"{code.co_filename}:{line}"


def warn(message: str) -> None:
    """A UserWarning at the user's line, the nearest outside the library."""
    frame, level = sys._getframe(1), 2
    while is_library[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)


class Change(NamedTuple):
    """One change in place: its number, of which memory (a weak reference), by what and from where."""

    number: int
    memory: Callable[[], Any]
    name: str
    source: tuple[CodeType, int]

    def __str__(self) -> str:
        return f"{self.name} at {where(self.source)}"


class VersionCounter:
    """What a tensor and its views share: the number of the last change in place, what it was, the views."""

    modified_at = 0
    changes: Sequence[Change] = ()  # of each memory the last (a reshape may have copied)
    views: list[Any] | None = None  # a tuple like View for each, in the order of making
    views_kept = 64  # when there are more, those that no longer exist are removed (`existing_views`)


LOST = "lost"  # in place of the op of a view: views that no longer exist lie between it and its base


class View(NamedTuple):
    """How a tensor came to share memory: `view()` is `op` of `base()`, or of several results number `result`.

    An alias that `detach` made, or a view of one, has no op.
    """

    view: Callable[[], Tensor | None]
    base: Callable[[], Tensor | None]
    op: Any = None
    settings: Any = None
    result: int | None = None


class _Modifications:
    count = 0  # changes in place so far


modifications = _Modifications()
new_ref = weakref.ref


def root(array: Any) -> Any:
    """The array that owns the memory of `array`."""
    while array.base is not None and hasattr(array.base, "base"):
        array = array.base
    return array


def axes_in_memory(tensor: Tensor) -> tuple[int, ...]:
    """The axes of a tensor, the one with the largest step in memory first."""
    strides = tensor.array.strides
    return tuple(sorted(range(len(strides)), key=lambda d: -abs(strides[d])))


def is_dense(tensor: Tensor) -> bool:
    """Whether a tensor's elements lie in memory without gaps."""
    return tensor.array.transpose(axes_in_memory(tensor)).flags.c_contiguous


def overlaps_itself(tensor: Tensor) -> bool:
    """Whether some of a tensor's elements share memory with each other: it is expanded, or of windows."""
    array = tensor.array
    steps = sorted((abs(step), n) for step, n in zip(array.strides, array.shape, strict=True) if n > 1)
    reach = 0  # from the first to the last element along the axes with smaller steps
    for step, n in steps:
        if step <= reach or not step:
            break
        reach += step * (n - 1)
    else:
        return False
    if not steps[0][0]:
        return True
    unit = math.gcd(*[step for step, _ in steps])
    used = np.zeros(sum(step // unit * (n - 1) for step, n in steps) + 1, bool)
    as_strided(used, [n for _, n in steps], [step // unit for step, _ in steps])[...] = True
    return int(np.count_nonzero(used)) < array.size


def first_address(tensors: Iterable[Tensor]) -> int:
    """The lowest address of an element of these tensors."""
    addresses = []
    for tensor in tensors:
        array = tensor.array
        backward = sum(min(0, (n - 1) * step) for n, step in zip(array.shape, array.strides, strict=True))
        addresses.append(address_of(array) + backward)
    return min(addresses)


def place_in_memory(tensor: Tensor, first: int, order: tuple[int, ...]) -> dict[str, Any]:
    """The settings with which `strided` takes a tensor from memory that begins at the address `first`."""
    array, item = tensor.array, tensor.array.itemsize
    stride = tuple(step // item for step in array.strides)
    return {
        "size": array.shape, "stride": stride, "offset": (address_of(array) - first) // item, "order": order
    }  # fmt: skip


def version_of(tensor: Tensor) -> VersionCounter:
    """The tensor's version counter, made on first need and shared with the edge of the tensor."""
    if tensor.version is None:
        tensor.version = VersionCounter()
        if tensor.node is not None:
            tensor.node.version = tensor.version
    return tensor.version


def share_version(
    base: Tensor, view: Tensor, op: Any = None, settings: Any = None, result: int | None = None
) -> None:
    """A view, which is `op` of its base, and the base are changed together (see View)."""
    view.version = version = base.version or version_of(base)
    if view.node is not None:
        view.node.version = version
    if view.array.base is not None or op is None:  # or else it is a copy
        entry = new_ref(view), new_ref(base), op, settings, result  # a View, in a third of its time
        if version.views is None:
            version.views = [entry]
        else:
            version.views.append(entry)
            if len(version.views) > version.views_kept:
                version.views = existing_views(version.views)
                version.views_kept = 64 + 2 * len(version.views)


def existing_views(entries: Iterable[Any]) -> list[View]:
    """The views that exist. In place of a base that does not, the nearest that does, or the first of all."""
    made = {id(entry[0]): entry for entry in entries}  # a tensor has one weak reference, which outlives it
    views = []
    for entry in made.values():
        if entry[0]() is None:
            continue
        view, base, op = View(*entry), entry[1], entry[2]
        while base() is None and id(base) in made:
            between = made[id(base)]
            base, op = between[1], None if op is None or between[2] is None else LOST
        views.append(view if base is view.base else View(view.view, base, op))
    return views


def bump_version(tensor: Tensor, name: str, source: tuple[CodeType, int] | None = None) -> None:
    """Note that `name` is about to change `tensor` in place, at `source` (the caller's place)."""
    bump_versions((tensor,), name, source or caller())


def bump_versions(tensors: Iterable[Tensor], name: str, source: tuple[CodeType, int]) -> None:
    """Note that `name` is about to change all of these in place."""
    modifications.count += 1
    for tensor in tensors:
        version, memory = tensor.version or version_of(tensor), tensor.array
        if memory.base is not None:
            memory = root(memory)
        before, others = version.changes, list[Change]()
        if len(before) == 1 and before[0].memory() is memory:
            reference = before[0].memory
        else:
            reference = weakref.ref(memory)
            for change in before:  # of other memories, as long as they are there
                if change.memory() is not None and change.memory() is not memory:
                    others.append(change)
        version.modified_at = modifications.count
        version.changes = [*others, Change(modifications.count, reference, name, source)]


def arrays_in(thing: Any) -> Iterator[Any]:
    """Every array that a gradient function (its closure, to the bottom) refers to."""
    stack, seen = [thing], set()
    while stack:
        thing = stack.pop()
        if hasattr(thing, "strides"):
            yield thing
        elif isinstance(thing, tuple | list) and id(thing) not in seen:
            seen.add(id(thing))
            stack.extend(thing)
        elif isinstance(thing, dict):
            stack.extend(thing.values())
        elif isinstance(thing, partial):
            stack += (thing.func, thing.args, thing.keywords)
        elif isinstance(thing, FunctionType) and id(thing) not in seen:
            seen.add(id(thing))
            stack += closure_of(thing)
            stack += (thing.__defaults__, thing.__kwdefaults__)


def closure_of(function: Any) -> list[Any]:
    """What a function keeps of the variables around it."""
    return [c.cell_contents for c in getattr(function, "__closure__", None) or () if _is_filled(c)]


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # named in a closure, and never assigned
        return False


def holds(thing: Any, memory: Any = None) -> bool:
    """Whether a gradient function refers to `memory`, or to any array."""
    return any(memory is None or root(array) is memory for array in arrays_in(thing))


def check_versions(node: Node, needs: Sequence[bool], replayed: bool = False) -> None:
    """Refuse to walk through a node if its gradient functions need an array that has been changed since.

    `needs` says for which inputs. A replay starts from the inputs again, so that there every change of one
    counts, unless the gradient needs no array at all.
    """
    gradients = node.gradients
    if type(gradients) is tuple:
        gradients = [f for f, needed in zip(gradients, needs, strict=True) if needed]
    results = node.version if isinstance(node.version, list) else [node.version]
    versions = [(edge, getattr(edge, "version", None)) for edge in node.edges]
    for edge, version in [*versions, *((node, result) for result in results)]:
        if version is None or version.modified_at <= node.recorded_at:
            continue
        for change in version.changes:
            memory = change.memory()
            if change.number <= node.recorded_at or memory is None:
                continue
            if holds(gradients, memory) or (replayed and edge is not node and holds(gradients)):
                what = "output" if edge is node else f"input of shape {tuple(edge.shape)}"
                raise GraphError(
                    f"the gradient of {node} needs its {what}, which was changed since by {change}.\n"
                    f"Change a copy (`x.clone()`), or change it after backward()."
                )
