"""Folding: which groups are drawn open. A closed group is one box; an open stack shows one of its members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..core.errors import OptionError
from .arrangement import Arrangements
from .data import Box, Computation

MOST = 40  # the largest number of members of a stack that are shown at once
ALL = -1  # stands for all members of a stack, where a member's number is expected


@dataclass(frozen=True)
class Fold:
    """The open groups, and the member that each open stack shows (by default the first).

    If the user did not choose the fold, `openings` are the batches of groups that a larger window may open.
    """

    opened: frozenset[int]
    shown: Mapping[int, int] = field(default_factory=dict)
    openings: tuple[tuple[int, ...], ...] = ()

    def member(self, stack: int) -> int:
        return self.shown.get(stack, 0)


class Folding:
    """A graph with a fold, which determines its visible boxes and edges."""

    def __init__(self, graph: Computation, fold: Fold) -> None:
        self.graph = graph
        self.fold = fold

    def is_open(self, group: int) -> bool:
        return group in self.fold.opened

    def inner(self, group: int) -> int:
        """Return the group whose items an open group shows: itself, or the shown member of a stack."""
        found = self.graph.groups[group]
        if found.is_stack and self.fold.member(group) != ALL:
            return found.groups[self.fold.member(group)]
        return group

    def items(self, group: int) -> list[Box]:
        """Return the boxes in an open group."""
        found = self.graph.groups[self.inner(group)]
        return [*(("vertex", v) for v in found.vertices), *(("group", g) for g in found.groups)]

    def boxes(self, group: int = 0) -> Iterator[Box]:
        """Yield all visible boxes in a group, including open groups."""
        stack = [("group", group)] if group else self.items(0)[::-1]
        while stack:
            box = stack.pop()
            yield box
            if box[0] == "group" and self.is_open(box[1]):
                stack.extend(reversed(self.items(box[1])))

    def visible(self, vertex: int) -> tuple[Box, int]:
        """Return the box that shows a vertex, and the vertex.

        The box is the vertex itself or a closed group. In a member of a stack that is not shown, both are
        those of the counterpart in the shown member.
        """
        graph = self.graph
        depth = 0
        while True:
            around = graph.chain(graph.vertices[vertex].group)
            for depth in range(depth, len(around)):  # noqa: B020 (continues where a stack changed the vertex)
                group = around[depth]
                is_shown_of_stack = depth > 0 and self.inner(around[depth - 1]) == group
                if depth and not self.is_open(group) and not is_shown_of_stack:
                    return ("group", group), vertex
                inner = self.inner(group)
                if inner != group and around[depth + 1] != inner:
                    place = graph.contents[around[depth + 1]].index(vertex)
                    vertex = graph.contents[inner][place]
                    break
            else:
                return ("vertex", vertex), vertex

    def edges(self) -> list[tuple[Box, Box, int, tuple[int, int]]]:
        """Return the edges between visible boxes: (from, to, input, tensor).

        `input` is the number of the op's input, or -1 at a closed group; `tensor` is (vertex, result). There
        is an edge for each input of a visible op, and one for each tensor that enters a closed group. Edges
        from one member of a stack to the next are left out if only one member is shown.
        """
        found: dict[tuple[Box, Box, int, tuple[int, int]], None] = {}
        for vertex in self.graph.vertices:
            below, _ = self.visible(vertex.index)
            for place, edge in enumerate(vertex.inputs):
                above, source = self.visible(edge.source)
                if above != below and not self._within_stack(edge.source, vertex.index):
                    arrives = place if below[0] == "vertex" else -1
                    found[above, below, arrives, (source, edge.result)] = None
        return list(found)

    def _within_stack(self, source: int, target: int) -> bool:
        """Return whether an edge connects two members of a stack of which only one is shown."""
        groups, vertices = self.graph.groups, self.graph.vertices
        above = self.graph.chain(vertices[source].group)
        below = self.graph.chain(vertices[target].group)
        for a, b in zip(above, below, strict=False):
            if a != b:
                parent = groups[a].parent
                return parent is not None and self.inner(parent) != parent
        return False

    @cached_property
    def arrangements(self) -> Arrangements:
        return Arrangements(self.graph)

    @cached_property
    def count(self) -> int:
        """The number of visible boxes."""
        return sum(1 for _ in self.boxes())


def to_depth(graph: Computation, depth: int) -> Fold:
    """Return the fold in which groups are open down to `depth` (0: only the root). Stacks show one member."""
    if not isinstance(depth, int) or depth < 0:
        raise OptionError(
            f"depth must be a non-negative integer, got {depth!r}.\nUse expand() to open everything."
        )
    opened = {0}
    level = list(graph.groups[0].groups)
    while level and depth:
        opened.update(level)
        shown = [s for g in level for s in (graph.groups[g].groups if graph.groups[g].is_stack else [g])]
        level = [child for g in shown for child in graph.groups[g].groups]
        depth = depth - 1
    return Fold(frozenset(opened))


def open_all(graph: Computation) -> Fold:
    """Return the fold in which all groups are open, and stacks of at most `MOST` members show them all."""
    shown = {g.index: ALL for g in graph.groups if g.is_stack and g.times <= MOST}
    return Fold(frozenset(range(len(graph.groups))), shown)


def open_path(graph: Computation, fold: Fold, path: str) -> Fold:
    """Return `fold` with the groups at `path`, and the groups around them, opened as well.

    Raise an OptionError if there is no such path.
    """
    found = [g for g in graph.groups if g.path == path and not g.is_stack]
    if not found:
        paths = sorted({g.path for g in graph.groups if g.path and not g.is_stack})
        raise OptionError(
            f"this graph has no module {path!r}.\nIts modules: {', '.join(paths[:6]) or 'none'}"
            f"{f' and {len(paths) - 6} more' if len(paths) > 6 else ''}."
        )
    opened = set(fold.opened)
    shown = dict(fold.shown)
    for target in found:
        for around in graph.chain(target.index):
            opened.add(around)
            parent = graph.groups[around].parent
            if parent is not None and graph.groups[parent].is_stack and fold.member(parent) != ALL:
                shown[parent] = graph.groups[parent].groups.index(around)
    return Fold(frozenset(opened), shown)
