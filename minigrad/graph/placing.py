"""The layout of a drawing: the sizes of groups, from the inside out, and coordinates in each open group.

Rows are stacked vertically. Within a row, cells keep their order and are as close as possible to the cells
that they are linked with, by a least-squares fit that keeps the gaps. (assets/placing.js does the same.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .arrangement import Cell, Tensor
from .data import Box
from .folding import Folding
from .labels import TAB, lines, size, title_width

ROW_GAP = 28.0
BARE_GAP = 10.0  # the gap next to a row that has only lanes
COLUMN_GAP = 20.0
LANE_GAP = 12.0
SIDE_GAP = 44.0  # the gap between groups side by side, with room for a line
ARROW = 9.0  # the length of the straight end of a line with an arrow
PADDING, HEADER = 14.0, 10.0  # the space inside a frame: on all sides, and in addition at the top
ROUNDS = 6  # how often the rows are fitted, alternately downward and upward
CLEAR = 7.0  # the least distance between a tab and a line
STRAIGHT = 6.0  # the weight of a lane in the fit, where an item's is 1

Size = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A piece of a tensor's path: down from (x1, y1), across between two rows, and down to (x2, y2).

    It crosses between the two heights in `bend`, or is straight if `bend` is None. If `side` is not None, the
    path leads to a group at the right: below the row, up at x = `side`, and into the group from above. The
    path ends at input `place` of vertex `target`; `target` is -1 if it continues, or ends at a closed group.
    """

    tensor: Tensor
    x1: float
    y1: float
    x2: float
    y2: float
    bend: tuple[float, float] | None = None
    target: int = -1
    place: int = -1
    side: float | None = None
    has_arrow: bool = False


@dataclass
class Frame:
    """The layout of an open group: its size, the places of its cells, its lines, and its inner frames.

    A place is (left, top, width, height) within the frame. The group's name is on a tab on the upper border,
    at x = `tab`, where no line enters.
    """

    group: int
    inner: int  # the group whose items it shows
    rows: tuple[tuple[Cell, ...], ...]
    width: float = 0.0
    height: float = 0.0
    tab: float = TAB
    places: list[list[tuple[float, float, float, float]]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    frames: dict[int, Frame] = field(default_factory=dict)

    def is_open(self, cell: Cell) -> bool:
        return cell[0] == "group" and cell[1] in self.frames

    def lane(self, row: int, tensor: Tensor | None) -> float | None:
        """Return the x at which a tensor crosses the first (0) or last (-1) row, or None."""
        for cell, (x, _, width, _) in zip(self.rows[row], self.places[row], strict=True) if self.rows else ():
            if tensor is not None and cell == ("lane", *tensor):
                return x + width / 2
        return None


def lay_out(folding: Folding, color: str = "family") -> Frame:
    """Return the frame of the whole graph, with boxes as large as their text."""
    graph = folding.graph
    boxes = list(folding.boxes())
    closed = [box for box in boxes if box[0] == "vertex" or not folding.is_open(box[1])]
    sizes = {box: size(lines(graph, box, color), sum(map(bool, graph.heat_maps(box)))) for box in closed}
    titles = {i: title_width(graph.groups[i]) for kind, i in boxes if kind == "group"}
    return Placing(folding, sizes, titles).frame()


class Placing:
    """Lays out a folding, given the sizes of closed boxes and the widths of open groups' titles."""

    def __init__(self, folding: Folding, sizes: Mapping[Box, Size], titles: Mapping[int, float]) -> None:
        self.folding = folding
        self.sizes = sizes
        self.titles = titles
        self.graph = folding.graph
        self.arrangements = folding.arrangements

    def frame(self, group: int = 0) -> Frame:
        """Return an open group's frame with its contents."""
        inner = self.folding.inner(group)
        frame = Frame(group, inner, self.arrangements[inner].rows)
        for kind, item in self.folding.items(group):
            if kind == "group" and self.folding.is_open(item):
                frame.frames[item] = self.frame(item)
        self._place(frame)
        self._place_tab(frame)
        self._draw_lines(frame)
        return frame

    def _place(self, frame: Frame) -> None:
        rows = frame.rows
        links = self.arrangements[frame.inner].links
        sizes = [[self._size(frame, cell) for cell in row] for row in rows]
        gaps = self._gaps(frame)
        left = [_pack([w for w, _ in sizes[r]], gaps[r]) for r in range(len(rows))]
        for turn in range(ROUNDS):
            down = turn % 2 == 0
            for r in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
                fixed = r - 1 if down else r + 1
                targets: list[list[float]] = [[] for _ in rows[r]]
                for link in links[min(r, fixed)]:
                    above = self._outlet(frame, rows[min(r, fixed)][link.above], link.tensor)
                    below = self._inlet(frame, rows[max(r, fixed)][link.below], link.tensor, link.place)
                    if down:
                        targets[link.below].append(left[fixed][link.above] + above - below)
                    else:
                        targets[link.above].append(left[fixed][link.below] + below - above)
                left[r] = _fit(rows[r], [w for w, _ in sizes[r]], gaps[r], left[r], targets)
        margin, header = (0.0, 0.0) if frame.group == 0 else (PADDING, HEADER)
        start = min((x for row in left for x in row), default=0.0)
        content = max(
            (x + w for r, row in enumerate(left) for x, (w, _) in zip(row, sizes[r], strict=True)),
            default=0.0,
        )
        frame.width = max(content - start + 2 * margin, self.titles.get(frame.group, 0.0))
        shift = (frame.width - (content - start)) / 2 - start
        y = margin + header
        level = {side.row for side in self.arrangements[frame.inner].sides}
        for r, row in enumerate(rows):
            tallest = max((h for _, h in sizes[r]), default=0.0)
            part = 0.0 if r in level else 0.5  # align groups side by side at the top
            frame.places.append(
                [(left[r][i] + shift, y + part * (tallest - h), w, h) for i, (w, h) in enumerate(sizes[r])]
            )
            near = rows[r + 1 : r + 2]
            bare = any(all(cell[0] == "lane" for cell in each) for each in (row, *near))
            tab = TAB if bare and any(frame.is_open(cell) for each in near for cell in each) else 0.0
            y += tallest + tab + (BARE_GAP if bare else ROW_GAP if near else 0.0)
        frame.height = y + margin

    def _gaps(self, frame: Frame) -> list[list[float]]:
        """Return the gap after each cell of each row."""
        found = [
            [*(LANE_GAP if "lane" in (a[0], b[0]) else COLUMN_GAP for a, b in pairwise(row)), 0.0]
            for row in frame.rows
        ]
        for side in self.arrangements[frame.inner].sides:
            found[side.row][side.right - 1] = SIDE_GAP
        return found

    def _place_tab(self, frame: Frame) -> None:
        """Put the tab where no line enters; if there is no such gap, at the right of all lines."""
        wide = self.titles.get(frame.group, 0.0) - 2 * TAB
        inlets = self.arrangements[frame.inner].inlets
        cells = zip(frame.rows[0], frame.places[0], strict=True) if frame.rows else ()
        lines = sorted(x + w / 2 for cell, (x, _, w, _) in cells if cell[0] == "lane" and cell[1:] in inlets)
        starts = [TAB, *(max(TAB, x + CLEAR) for x in lines)]
        ends = [*lines, frame.width]
        free = (start for start, end in zip(starts, ends, strict=True) if start + wide + CLEAR <= end)
        frame.tab = next(free, starts[-1])
        frame.width = max(frame.width, frame.tab + wide + TAB)

    def _draw_lines(self, frame: Frame) -> None:
        rows = frame.rows
        links = self.arrangements[frame.inner].links
        places = frame.places
        tops = [min((y for _, y, _, _ in row), default=0.0) for row in places]
        bottoms = [max((y + h for _, y, _, h in row), default=0.0) for row in places]
        for r, row in enumerate(rows):
            for cell, (x, _, width, _) in zip(row, places[r], strict=True):
                if cell[0] == "lane":
                    first = r == 0
                    last = r == len(rows) - 1
                    arrives = cell[1:] in self.arrangements[frame.inner].inlets
                    top = 0.0 if first and arrives else tops[r]
                    bottom = frame.height if last else bottoms[r]
                    frame.lines.append(Line(cell[1:], x + width / 2, top, x + width / 2, bottom))
        for r, between in enumerate(links):
            for link in between:
                above = rows[r][link.above]
                below = rows[r + 1][link.below]
                xa, ya, _, ha = places[r][link.above]
                xb, yb, _, _ = places[r + 1][link.below]
                ya = bottoms[r] if above[0] == "lane" else ya + ha
                yb = tops[r + 1] if below[0] == "lane" else yb
                has_arrow = below[0] != "lane" and not frame.is_open(below)
                end = TAB if any(map(frame.is_open, rows[r + 1])) else ARROW if has_arrow else 0.0
                frame.lines.append(
                    Line(
                        link.tensor,
                        xa + self._outlet(frame, above, link.tensor), ya,
                        xb + self._inlet(frame, below, link.tensor, link.place), yb,
                        (bottoms[r], tops[r + 1] - end),
                        below[1] if below[0] == "vertex" else -1, link.place, has_arrow=has_arrow,
                    )
                )  # fmt: skip
        for side in self.arrangements[frame.inner].sides:
            row, at = rows[side.row], places[side.row]
            left, right = row[side.left], row[side.right]
            x1 = at[side.left][0] + self._outlet(frame, left, side.tensor)
            y1 = at[side.left][1] + at[side.left][3]
            x2 = at[side.right][0] + self._inlet(frame, right, side.tensor, -1)
            y2 = at[side.right][1]
            across = (bottoms[side.row] + 10.0, tops[side.row] - TAB - CLEAR)
            up = at[side.right][0] - SIDE_GAP / 2
            has_arrow = not frame.is_open(right)
            frame.lines.append(Line(side.tensor, x1, y1, x2, y2, across, side=up, has_arrow=has_arrow))

    # ------------------------------------------------------------ cells

    def _size(self, frame: Frame, cell: Cell) -> Size:
        if cell[0] == "lane":
            return 0.0, 0.0
        if frame.is_open(cell):
            return frame.frames[cell[1]].width, frame.frames[cell[1]].height
        return self.sizes[cell[0], cell[1]]

    def _outlet(self, frame: Frame, cell: Cell, tensor: Tensor) -> float:
        """Return the x offset, from the cell's left edge, at which the tensor's line leaves it."""
        width = self._size(frame, cell)[0]
        if cell[0] == "vertex":
            return width * (tensor[1] + 1) / (len(self.graph.vertices[cell[1]].values) + 1)
        if frame.is_open(cell):
            inner = frame.frames[cell[1]]
            found = inner.lane(-1, self.counterpart(cell[1], inner.inner, tensor))
            return width / 2 if found is None else found
        return width / 2

    def _inlet(self, frame: Frame, cell: Cell, tensor: Tensor, place: int) -> float:
        """Return the x offset, from the cell's left edge, at which the tensor's line enters it."""
        width = self._size(frame, cell)[0]
        if cell[0] == "vertex":
            return width * (place + 1) / (len(self.graph.vertices[cell[1]].inputs) + 1)
        if frame.is_open(cell):
            inner = frame.frames[cell[1]]
            found = inner.lane(0, self.arrival(cell[1], inner.inner, tensor))
            return width / 2 if found is None else found
        return width / 2

    def counterpart(self, group: int, inner: int, tensor: Tensor) -> Tensor | None:
        """Return the tensor in member `inner` of a stack that corresponds to `tensor` in another member."""
        inside = self.graph.contents
        if group == inner:
            return tensor
        for member in self.graph.groups[group].groups:
            if tensor[0] in inside[member]:
                return inside[inner][inside[member].index(tensor[0])], tensor[1]
        return None

    def arrival(self, group: int, inner: int, tensor: Tensor) -> Tensor | None:
        """Return the tensor that enters member `inner` of a stack as `tensor` enters the first member."""
        if group == inner:
            return tensor
        for member in self.graph.groups[group].groups:
            entering = self.arrangements.inlets(member)
            if tensor in entering:
                slot = entering.index(tensor)
                inlets = self.arrangements.inlets(inner)
                return inlets[slot] if slot < len(inlets) else None
        return None


def _pack(widths: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return the left sides of cells that are placed side by side, centered at 0."""
    x = 0.0
    found = []
    for width, gap in zip(widths, gaps, strict=True):
        found.append(x)
        x += width + gap
    return [at - x / 2 for at in found]


def _fit(
    row: Sequence[Cell],
    widths: Sequence[float],
    gaps: Sequence[float],
    now: Sequence[float],
    targets: Sequence[Sequence[float]],
) -> list[float]:
    """Return the x of each cell's left side, near the mean of its targets, or near `now` if it has none.

    The cells keep their order and the gaps. This weighted least-squares fit is computed by the
    pool-adjacent-violators algorithm.
    """
    shift = 0.0
    shifts = []
    for width, gap in zip(widths, gaps, strict=True):
        shifts.append(shift)
        shift += width + gap
    pools: list[list[float]] = []  # weight, weighted sum, number of cells
    for i, cell in enumerate(row):
        target = sum(targets[i]) / len(targets[i]) if targets[i] else now[i]
        weight = (STRAIGHT if cell[0] == "lane" else 1.0) * (len(targets[i]) or 0.1)
        pools.append([weight, weight * (target - shifts[i]), 1])
        while len(pools) > 1 and pools[-2][1] / pools[-2][0] > pools[-1][1] / pools[-1][0]:
            weight, total, count = pools.pop()
            pools[-1] = [pools[-1][0] + weight, pools[-1][1] + total, pools[-1][2] + count]
    means = [total / weight for weight, total, count in pools for _ in range(int(count))]
    return [mean + at for mean, at in zip(means, shifts, strict=True)]
