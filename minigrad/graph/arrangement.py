"""Layered drawing of each group (Sugiyama, Tagawa and Toda 1981): rows of cells, from top to bottom.

A cell is an item of the group or a *lane*: the path of a tensor through a row in which it is not used. A
tensor from outside the group enters through a lane in the first row; a tensor that is used outside leaves
through a lane in the last row. So each group can be arranged separately, whichever groups in it are open.

If one stack of modules reads another one's result, such as a decoder that of an encoder, both are placed side
by side in one row, provided that each has a separate input.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .data import Box, Computation

Tensor = tuple[int, int]  # (vertex, which of its results)
Cell = tuple[str, int, int]  # ("vertex", i, 0), ("group", i, 0) or ("lane", vertex, result)

_Piece = tuple[Cell, Cell, Tensor, int]  # (cell, cell in the next row, tensor, input)

SWEEPS = 8  # how often the rows are reordered


@dataclass(frozen=True)
class Link:
    """A piece of a tensor's path, from cell `above` of a row to cell `below` of the next row.

    `place` is the index of the op's input where it arrives, or -1 at a group or a lane.
    """

    above: int
    below: int
    tensor: Tensor
    place: int


@dataclass(frozen=True)
class Side:
    """A tensor's path from a group to another group at its right: cells `left` and `right` of `row`."""

    row: int
    left: int
    right: int
    tensor: Tensor


@dataclass(frozen=True)
class Arrangement:
    """The cells and links of a group.

    `links[r]` lead from row r to row r + 1; `inlets` are the tensors that enter, in the order of use.
    """

    rows: tuple[tuple[Cell, ...], ...]
    links: tuple[tuple[Link, ...], ...]
    sides: tuple[Side, ...]
    inlets: tuple[Tensor, ...]


@dataclass
class _Paths:
    """The paths of tensors in a group. Each leads from an item or from outside to items or to the outside."""

    items: list[Box]
    source: dict[Tensor, Box | None] = field(default_factory=dict)  # None: from outside
    targets: dict[Tensor, dict[tuple[Box, int], None]] = field(default_factory=dict)
    leaving: dict[Tensor, None] = field(default_factory=dict)

    def add(self, tensor: Tensor, source: Box | None, target: Box | None, place: int) -> None:
        self.source[tensor] = source
        arrivals = self.targets.setdefault(tensor, {})
        if target is None:
            self.leaving[tensor] = None
        else:
            arrivals[target, place if target[0] == "vertex" else -1] = None


class Arrangements:
    """The arrangements of all groups, indexed by the group's number, and computed when first needed."""

    def __init__(self, graph: Computation) -> None:
        self.paths = _paths(graph)
        self.nested = {g.index for g in graph.groups if g.groups}
        self.known: dict[int, Arrangement] = {}

    def __getitem__(self, group: int) -> Arrangement:
        if group not in self.known:
            self.known[group] = _arrange(self.paths[group], self.nested)
        return self.known[group]

    def __iter__(self) -> Iterator[Arrangement]:
        return (self[group] for group in range(len(self.paths)))

    def inlets(self, group: int) -> tuple[Tensor, ...]:
        """Return the tensors that enter a group, in the order of use, which is the same in equal groups."""
        return _inlets(self.paths[group])


def _paths(graph: Computation) -> list[_Paths]:
    chains = [graph.chain(g.index) for g in graph.groups]
    found = [
        _Paths([*(("vertex", v) for v in g.vertices), *(("group", c) for c in g.groups)])
        for g in graph.groups
    ]
    for vertex in graph.vertices:
        for place, edge in enumerate(vertex.inputs):
            tensor = edge.source, edge.result
            above = chains[graph.vertices[edge.source].group]
            below = chains[vertex.group]
            common = sum(a == b for a, b in zip(above, below, strict=False))
            source = ("group", above[common]) if len(above) > common else ("vertex", edge.source)
            target = ("group", below[common]) if len(below) > common else ("vertex", vertex.index)
            found[above[common - 1]].add(tensor, source, target, place)
            for level in range(common, len(above)):
                inner = ("group", above[level + 1]) if level + 1 < len(above) else ("vertex", edge.source)
                found[above[level]].add(tensor, inner, None, -1)
            for level in range(common, len(below)):
                inner = ("group", below[level + 1]) if level + 1 < len(below) else ("vertex", vertex.index)
                found[below[level]].add(tensor, None, inner, place)
    return found


def _inlets(paths: _Paths) -> tuple[Tensor, ...]:
    return tuple(tensor for tensor, source in paths.source.items() if source is None)


def _arrange(paths: _Paths, nested: set[int]) -> Arrangement:
    inlets = _inlets(paths)
    sideways = _sideways(paths, nested)
    rank = _ranks(paths, sideways, first=1 if inlets else 0)
    count = 1 + max(rank.values(), default=0)
    cells: list[list[Cell]] = [[] for _ in range(count + (1 if paths.leaving else 0))]
    for item in paths.items:
        cells[rank[item]].append((*item, 0))
    for tensor, source in paths.source.items():
        start = -1 if source is None else rank[source]
        end = (
            count if tensor in paths.leaving else max(rank[target] for target, _ in paths.targets[tensor]) - 1
        )
        for row in range(start + 1, end + 1):
            cells[row].append(("lane", *tensor))
    beside = {
        (tensor, target): (source, target)
        for tensor, target in sideways
        if (source := paths.source[tensor]) is not None and rank[source] == rank[target]
    }
    rows, links = _order_rows(cells, _links(paths, rank, cells, set(beside)), list(beside.values()))
    place = {
        cell[:2]: (r, i) for r, row in enumerate(rows) for i, cell in enumerate(row) if cell[0] != "lane"
    }
    sides = tuple(
        Side(place[source][0], place[source][1], place[target][1], tensor)
        for (tensor, _), (source, target) in beside.items()
    )
    return Arrangement(rows, links, sides, inlets)


def _sideways(paths: _Paths, nested: set[int]) -> list[tuple[Tensor, Box]]:
    """Return the (tensor, target) pairs whose source and target may be placed side by side in a row.

    Both are groups that contain groups, and the target has an input that is computed independently of the
    source.
    """
    pairs = [
        (tensor, target)
        for tensor, arrivals in paths.targets.items()
        for target, _ in arrivals
        if all(item and item[0] == "group" and item[1] in nested for item in (paths.source[tensor], target))
    ]
    if not pairs:
        return []
    inputs: dict[Box, set[Box]] = {item: set() for item in paths.items}
    for tensor, arrivals in paths.targets.items():
        for target, _ in arrivals:
            if (source := paths.source[tensor]) is not None:
                inputs[target].add(source)

    def before(item: Box) -> set[Box]:
        found: set[Box] = set()
        stack = [item]
        while stack:
            stack.extend(new := inputs[stack.pop()] - found)
            found |= new
        return found

    def is_independent(one: Box, other: Box | None) -> bool:
        return other is not None and one != other and one not in before(other) and other not in before(one)

    return [
        (tensor, target)
        for tensor, target in pairs
        if any(inputs[other] and is_independent(other, paths.source[tensor]) for other in inputs[target])
    ]


def _ranks(paths: _Paths, sideways: list[tuple[Tensor, Box]], first: int) -> dict[Box, int]:
    """Return the row of each item: below its inputs, or in the same row as those in `sideways`.

    An item without inputs is placed just above its first use.
    """
    level = {(paths.source[tensor], target) for tensor, target in sideways}
    after: dict[Box, set[Box]] = {item: set() for item in paths.items}
    for tensor, arrivals in paths.targets.items():
        source = paths.source[tensor]
        if source is not None:
            after[source].update(target for target, _ in arrivals)
    waiting = dict.fromkeys(paths.items, 0)
    for targets in after.values():
        for target in targets:
            waiting[target] += 1
    rank = dict.fromkeys(paths.items, first)
    sources = [item for item in paths.items if not waiting[item]]
    ready = list(sources)
    order = []
    while ready:
        item = ready.pop()
        order.append(item)
        for target in after[item]:
            rank[target] = max(rank[target], rank[item] + ((item, target) not in level))
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    fed = {target for t, ts in paths.targets.items() if paths.source[t] is None for target, _ in ts}
    for item in sources:
        if item not in fed and after[item]:
            rank[item] = min(rank[target] for target in after[item]) - 1
    lowest = min(rank.values(), default=0)
    lowest = min(lowest, 0) if first else lowest
    return {item: row - lowest for item, row in rank.items()}


def _links(
    paths: _Paths, rank: dict[Box, int], cells: list[list[Cell]], beside: set[tuple[Tensor, Box]]
) -> list[list[_Piece]]:
    """Return the pieces of all paths between each row and the next, except paths to a target in `beside`."""
    links: list[list[_Piece]] = [[] for _ in cells[1:]]
    present = [set(row) for row in cells]
    for tensor, source in paths.source.items():
        lane: Cell = ("lane", *tensor)
        start = -1 if source is None else rank[source]
        at = {row: lane for row in range(start + 1, len(cells)) if lane in present[row]}
        if source is not None:
            at[start] = (*source, 0)
        for row in at:
            if at.get(row + 1) == lane:
                links[row].append((at[row], lane, tensor, -1))
        for target, place in paths.targets[tensor]:
            if (tensor, target) in beside:
                continue
            row = rank[target] - 1
            links[row].append((at[row], (*target, 0), tensor, place))
    return links


# ---------------------------------------------------------------- the order within rows


def _order_rows(
    cells: list[list[Cell]], links: list[list[_Piece]], pairs: list[tuple[Any, Any]]
) -> tuple[Any, Any]:
    """Order the rows for few crossings: in sweeps, move each cell near the mean of its neighbours.

    The first of each of the `pairs` stays to the left of the second.
    """
    rows = [_in_order(row, pairs) for row in cells]
    best = rows
    fewest = _crossings(rows, links)
    for sweep in range(SWEEPS if fewest else 0):
        rows = [list(row) for row in rows]
        for r in range(len(links)) if sweep % 2 else reversed(range(len(links))):
            moving = r + 1 if sweep % 2 else r
            _sort_row(rows, links[r], r, moving)
            rows[moving] = _in_order(rows[moving], pairs)
        crossings = _crossings(rows, links)
        if crossings < fewest:
            best = rows
            fewest = crossings
    places = [{cell: i for i, cell in enumerate(row)} for row in best]
    found = [
        tuple(Link(places[r][a], places[r + 1][b], tensor, place) for a, b, tensor, place in between)
        for r, between in enumerate(links)
    ]
    return tuple(map(tuple, best)), tuple(found)


def _in_order(row: list[Cell], pairs: list[tuple[Any, Any]]) -> list[Cell]:
    """Return a row in which the first of each pair stands to the left of the second."""
    row = list(row)
    for left, right in pairs:
        if (*right, 0) in row and row.index((*right, 0)) < row.index((*left, 0)):
            row.remove((*left, 0))
            row.insert(row.index((*right, 0)), (*left, 0))
    return row


def _sort_row(rows: list[list[Cell]], between: list[_Piece], upper: int, moving: int) -> None:
    """Order row `moving` (`upper` or the next) by the mean place of its neighbours in the other row."""
    fixed = {cell: i for i, cell in enumerate(rows[upper + 1 if moving == upper else upper])}
    means: dict[Cell, list[float]] = {}
    for above, below, _, place in between:
        if moving == upper:  # inputs of one op are in the order of its operands
            means.setdefault(above, []).append(fixed[below] + 0.01 * place)
        else:
            means.setdefault(below, []).append(fixed[above])
    now = {cell: float(i) for i, cell in enumerate(rows[moving])}
    key = {cell: sum(means[cell]) / len(means[cell]) if cell in means else now[cell] for cell in rows[moving]}
    rows[moving] = sorted(rows[moving], key=key.__getitem__)


def _crossings(rows: list[list[Cell]], links: list[list[_Piece]]) -> int:
    """Count how often pieces between the same two rows cross."""
    total = 0
    for r, between in enumerate(links):
        above = {cell: i for i, cell in enumerate(rows[r])}
        below = {cell: i for i, cell in enumerate(rows[r + 1])}
        ends = sorted((above[a], below[b] + 0.01 * place) for a, b, _, place in between)
        seen: list[float] = []
        for _, end in ends:
            total += len(seen) - bisect_right(seen, end)
            insort(seen, end)
    return total
