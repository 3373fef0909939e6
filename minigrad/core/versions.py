"""Version counters: which tensors share memory, and where it was last changed in place.

All in-place changes are counted. A tensor and its views share a VersionCounter with the count of their last
change; a node has the count at which it was recorded, so that backward can tell whether an array that it
needs has been changed since.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from .closures import holds, root
from .errors import GraphError
from .frames import caller, where

if TYPE_CHECKING:
    from .backward import Node
    from .tensor import Tensor


class Change(NamedTuple):
    """An in-place change."""

    number: int  # the count of changes, see `modifications`
    memory: Callable[[], Any]  # a weak reference to the array that owns what was changed
    name: str  # the function that changed it
    source: tuple[CodeType, int]  # the call, see `frames`

    def __str__(self) -> str:
        return f"{self.name} at {where(self.source)}"


class VersionCounter:
    """Shared by a tensor and all its views: when their memory was last changed in place, and by what.

    It also lists the views: after an in-place operation in a graph, views are taken again from the changed
    base, so that gradients flow through the change (`ops/in_place.py`).
    """

    modified_at = 0  # the number of the last change
    changes: Sequence[Change] = ()  # the last one for each memory (a reshape may have copied)
    views: list[Any] | None = None  # the five values of a View for each, in order of creation
    is_data = False  # for `x.data`: x's counter does not see its changes, and no graph records it
    views_kept = 64  # if there are more, dead ones are removed (`existing_views`)


LOST = "lost"  # the op of a view, if views between it and its base no longer exist


class View(NamedTuple):
    """How a tensor came to share memory: `view` is the result of `op` on `base` with `settings`."""

    view: Callable[[], Tensor | None]  # a weak reference
    base: Callable[[], Tensor | None]  # a weak reference
    op: Any = None  # None: `view` is an alias from `detach`, or a view of one
    settings: Any = None
    result: int | None = None  # its index if the op returned several views, as `unbind` does


class _Modifications:
    count = 0  # in-place changes so far


modifications = _Modifications()
new_ref = weakref.ref


def version_of(tensor: Tensor) -> VersionCounter:
    """The tensor's version counter, created when first needed and shared with the tensor's edge."""
    if tensor.version is None:
        tensor.version = VersionCounter()
        if tensor.node is not None:
            tensor.node.version = tensor.version
    return tensor.version


def share_version(
    base: Tensor, view: Tensor, op: Any = None, settings: Any = None, result: int | None = None
) -> None:
    """Let a view, the result of `op` on `base`, share the version counter of `base` (see View)."""
    view.version = version = base.version or version_of(base)
    if view.node is not None:
        view.node.version = version
    if view.array.base is not None or op is None:  # otherwise it is a copy
        entry = new_ref(view), new_ref(base), op, settings, result  # a View, as a faster tuple
        if version.views is None:
            version.views = [entry]
        else:
            version.views.append(entry)
            if len(version.views) > version.views_kept:
                version.views = existing_views(version.views)
                version.views_kept = 64 + 2 * len(version.views)


def existing_views(entries: Iterable[Any]) -> list[View]:
    """The views that still exist. A base that does not is replaced by the nearest that does, or the root."""
    made = {id(entry[0]): entry for entry in entries}  # a tensor has one weak reference, which outlives it
    views = []
    for entry in made.values():
        if entry[0]() is None:
            continue
        view = View(*entry)
        base = entry[1]
        op = entry[2]
        while base() is None and id(base) in made:
            between = made[id(base)]
            base = between[1]
            op = None if op is None or between[2] is None else LOST
        views.append(view if base is view.base else View(view.view, base, op))
    return views


def bump_version(tensor: Tensor, name: str, source: tuple[CodeType, int] | None = None) -> None:
    """Note that `name`, called at `source` (the user's line), changes `tensor` in place."""
    bump_versions((tensor,), name, source or caller())


def bump_versions(tensors: Iterable[Tensor], name: str, source: tuple[CodeType, int]) -> None:
    """Note that `name` changes all of these in place."""
    modifications.count += 1
    for tensor in tensors:
        version = tensor.version or version_of(tensor)
        memory = tensor.array
        if memory.base is not None:
            memory = root(memory)
        before = version.changes
        others = list[Change]()
        if len(before) == 1 and before[0].memory() is memory:
            reference = before[0].memory
        else:
            reference = weakref.ref(memory)
            for change in before:  # keeps changes of other memory that still exists
                if change.memory() is not None and change.memory() is not memory:
                    others.append(change)
        version.modified_at = modifications.count
        version.changes = [*others, Change(modifications.count, reference, name, source)]


def check_versions(node: Node, needs: Sequence[bool], replayed: bool = False) -> None:
    """Raise a GraphError if a node's gradient functions need an array that was changed after recording.

    `needs` says which inputs' gradients are needed. A replay starts from the inputs again, so every change of
    an input counts, unless the gradient functions need no array at all.
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
