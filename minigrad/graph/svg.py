"""Drawings of graphs as SVG documents, for READMEs, slides, print and notebooks.

Boxes are rectangles with names, modules are frames around their contents, lines are tensors. Each colour has
a mark and a legend; behind a folded stack, the edges of its other members are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

import numpy as np

from .colours import BROKEN, Paint, heat_fill, heat_levels, legend, paint
from .data import Box, Computation
from .folding import ALL, Folding
from .labels import (
    LINE,
    MAP,
    NAME,
    TAB,
    TEXT,
    TITLE,
    kind_of_group,
    lines,
    printable,
    tab_width,
    text_width,
    title_of,
    tooltip,
)
from .placing import Frame, Line, lay_out

MARGIN = 24.0
ARROW = "#44515e"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def to_svg(folding: Folding, color: str = "family") -> str:
    """Return the folded graph as an SVG document."""
    graph = folding.graph
    boxes = list(folding.boxes())
    closed = [box for box in boxes if box[0] == "vertex" or not folding.is_open(box[1])]
    text = {box: lines(graph, box, color) for box in closed}
    frame = lay_out(folding, color)
    entries = legend(graph, closed, color)
    title = graph.title or "Computation graph"
    head = 40.0 + 26.0 * _legend_rows(entries, frame.width)
    width = max(frame.width, 420.0) + 2 * MARGIN
    height = frame.height + head + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{FONT}" role="img" aria-labelledby="graph-title">',
        f'<title id="graph-title">{escape(title)}: {len(boxes)} boxes</title>',
        _DEFINITIONS,
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="{MARGIN:g}" y="{MARGIN + 14:g}" font-size="17" font-weight="600" fill="#1b2733">'
        f"{escape(title)}</text>",
        *_legend(entries, color, frame.width),
        f'<g transform="translate({MARGIN + max(0.0, (420 - frame.width) / 2):g} {MARGIN + head:g})">',
        *_frame(folding, frame, text, color),
        "</g></svg>",
    ]
    return printable("\n".join(parts)) + "\n"


_DEFINITIONS = (
    '<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="7" '
    f'stroke="{BROKEN.stroke}" stroke-width="2.4" stroke-opacity="0.55"/></pattern>'
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 0.8 L7.4 4 L0 7.2 z" fill="{ARROW}"/></marker></defs>'
)


def _frame(folding: Folding, frame: Frame, text: dict[Box, list[str]], color: str) -> Iterator[str]:
    """Draw the contents of an open group: frames first, then lines, then boxes, so that no text is hidden."""
    graph = folding.graph
    for row, places in zip(frame.rows, frame.places, strict=True):
        for cell, (x, y, *_) in zip(row, places, strict=True):
            if cell[0] == "group" and cell[1] in frame.frames:
                inner = frame.frames[cell[1]]
                yield f'<g class="frame" transform="translate({x:g} {y:g})">'
                yield from _border(folding, inner)
                yield from _frame(folding, inner, text, color)
                yield "</g>"
    yield '<g fill="none" stroke="#5b6875" stroke-width="1.4">'
    yield from (_line(graph, line) for line in frame.lines)
    yield "</g>"
    for row, places in zip(frame.rows, frame.places, strict=True):
        for cell, (x, y, w, h) in zip(row, places, strict=True):
            box = cell[0], cell[1]
            if cell[0] == "group" and cell[1] in frame.frames:
                yield f'<g transform="translate({x:g} {y:g})">{_name(graph, frame.frames[cell[1]])}</g>'
            elif box in text and cell[0] != "lane":
                yield from _box(graph, box, (x, y, w, h), text[box], paint(graph, box, color), folding)


def _border(folding: Folding, frame: Frame) -> Iterator[str]:
    """Draw the frame of an open group and, behind a stack, the edges of its other members."""
    group = folding.graph.groups[frame.group]
    one = group.is_stack and folding.fold.member(frame.group) != ALL
    w, h = frame.width, frame.height
    for shift in (8, 4) if one else ():
        yield (
            f'<rect x="{shift}" y="{shift}" width="{w:g}" height="{h:g}" rx="9" fill="#ffffff" '
            'stroke="#9aa5b1"/>'
        )
    yield f'<rect width="{w:g}" height="{h:g}" rx="9" fill="#f8fafb" stroke="#7b8794" stroke-width="1.2"/>'


def _name(graph: Computation, frame: Frame) -> str:
    """Draw an open group's name and kind on a tab."""
    group = graph.groups[frame.group]
    return (
        f'<rect x="{frame.tab:g}" y="{-TAB:g}" width="{tab_width(group):g}" height="{2 * TAB:g}" rx="6" '
        f'fill="#ffffff" stroke="#7b8794"/><text x="{frame.tab + 8:g}" y="5" font-size="{NAME:g}" '
        f'font-weight="600" fill="#243240">{escape(title_of(group))}'
        f'<tspan dx="8" font-weight="400" fill="#4d5966">{escape(kind_of_group(group))}</tspan></text>'
    )


def _line(graph: Computation, line: Line) -> str:
    """Draw a piece of a tensor's path, with an arrow at a box, and dashed if the tensor is a constant."""
    if line.side is not None:
        path = f"M{line.x1:g} {line.y1:g} {_around(line)}"
    elif line.bend is None:
        path = f"M{line.x1:g} {line.y1:g} V{line.y2:g}"
    else:
        upper, lower = line.bend
        middle = (upper + lower) / 2
        path = (
            f"M{line.x1:g} {line.y1:g} V{upper:g} C{line.x1:g} {middle:g} {line.x2:g} {middle:g} "
            f"{line.x2:g} {lower:g} V{line.y2:g}"
        )
    arrow = ' marker-end="url(#arrow)"' if line.has_arrow else ""
    source = graph.vertices[line.tensor[0]]
    constant = ' stroke-dasharray="4 3"' if source.kind == "constant" else ""
    return f'<path d="{path}"{arrow}{constant}/>'


def _around(line: Line) -> str:
    """Return the rest of the path of a line to a group at the right: down, across, up, across, down."""
    assert line.bend is not None
    assert line.side is not None
    low, high = line.bend
    at, end = line.side, line.x2
    r = 7
    return (
        f"V{low - r:g} q0 {r} {r} {r} H{at - r:g} q{r} 0 {r} {-r} V{high + r:g} q0 {-r} {r} {-r} "
        f"H{end - r:g} q{r} 0 {r} {r} V{line.y2:g}"
    )


def _heat_map(sample: np.ndarray, x: float, height: float) -> Iterator[str]:
    """Draw a heat map, with one path for all cells of a colour."""
    levels = heat_levels(sample)
    rows, columns = levels.shape
    area = f'width="{MAP - 10:g}" height="{height - 14:g}"'
    yield f'<g transform="translate({x:g} 7)"><rect {area} fill="#ffffff"/>'
    yield f'<g transform="scale({(MAP - 10) / columns:.4g} {(height - 14) / rows:.4g})">'  # a cell is 1 x 1
    for level in sorted(set(levels.reshape(-1).tolist()) - {0}):
        cells = "".join(f"M{j} {i}h1v1h-1z" for i, j in np.argwhere(levels == level))
        yield f'<path d="{cells}" fill="{heat_fill(level)}"/>'
    yield f'</g><rect {area} fill="none" stroke="#8b97a4" stroke-width="0.8"/></g>'


def _box(
    graph: Computation,
    box: Box,
    place: tuple[float, float, float, float],
    text: list[str],
    look: Paint,
    folding: Folding,
) -> Iterator[str]:
    """Draw a closed box: an op, a leaf (round; dashed if it is data), or a folded module (double line)."""
    x, y, w, h = place
    kind = graph.vertices[box[1]].kind if box[0] == "vertex" else "group"
    radius = min(h / 2, 22) if kind == "parameter" else 5
    dashed = ' stroke-dasharray="5 3"' if kind == "constant" else ""
    yield f'<g transform="translate({x:g} {y:g})"><title>{escape(tooltip(graph, box))}</title>'
    if kind == "group" and graph.groups[box[1]].is_stack:
        for shift in (8, 4):
            yield (
                f'<rect x="{shift}" y="{shift}" width="{w:g}" height="{h:g}" rx="5" fill="#ffffff" '
                f'stroke="{look.stroke}" stroke-opacity="0.6"/>'
            )
    outline = (
        f'rx="{radius:g}" stroke="{look.stroke}" stroke-width="{2.2 if _is_end(graph, box) else 1.3}"{dashed}'
    )
    yield f'<rect width="{w:g}" height="{h:g}" fill="{look.fill}" {outline}/>'
    if look is BROKEN:
        yield f'<rect width="{w:g}" height="{h:g}" rx="{radius:g}" fill="url(#hatch)"/>'
    if kind == "group":
        yield (
            f'<rect x="3" y="3" width="{w - 6:g}" height="{h - 6:g}" rx="3" fill="none" '
            f'stroke="{look.stroke}" stroke-width="0.7"/>'
        )
    value, gradient = graph.heat_maps(box)
    if value:
        yield from _heat_map(value.sample, 10, h)
    if gradient:
        yield from _heat_map(gradient.sample, w - MAP, h)
    middle = (w + (bool(value) - bool(gradient)) * MAP) / 2
    for i, line in enumerate(text):
        style = f'font-size="{TITLE:g}" font-weight="600"' if i == 0 else f'font-size="{TEXT:g}"'
        ink = "#1b2733" if i else look.stroke
        below = 19 + LINE * i
        halo = ' stroke="#ffffff" stroke-width="3" paint-order="stroke"' if look is BROKEN else ""
        yield (
            f'<text x="{middle:g}" y="{below:g}" text-anchor="middle" {style} fill="{ink}"{halo}>'
            f"{escape(line)}</text>"
        )
    if look.mark:
        yield (
            f'<text x="{w - 5 - bool(gradient) * MAP:g}" y="11" text-anchor="end" font-size="9" '
            f'fill="{look.stroke}">'
            f"{escape(look.mark)}</text>"
        )
    yield "</g>"


def _is_end(graph: Computation, box: Box) -> bool:
    """Return whether a box is an output, which has a thicker outline."""
    return box[0] == "vertex" and graph.vertices[box[1]].is_output


# ---------------------------------------------------------------- the legend


def _legend_widths(entries: list[Paint]) -> list[float]:
    return [44 + text_width(_meaning(entry), TEXT) for entry in entries]


def _meaning(entry: Paint) -> str:
    return f"{entry.mark} {entry.meaning}".strip()


def _legend_rows(entries: list[Paint], width: float) -> int:
    x = 0.0
    rows = 1
    for w in _legend_widths(entries):
        if x and x + w > max(width, 420.0):
            x = 0.0
            rows = rows + 1
        x += w
    return rows


def _legend(entries: list[Paint], color: str, width: float) -> Iterator[str]:
    """Draw each paint of the legend with its mark and meaning, in as many rows as needed."""
    x = MARGIN
    y = MARGIN + 32.0
    for entry, w in zip(entries, _legend_widths(entries), strict=True):
        if x > MARGIN and x - MARGIN + w > max(width, 420.0):
            x = MARGIN
            y = y + 26.0
        dashed = ' stroke-dasharray="4 3"' if "dashed" in entry.meaning else ""
        rounded = 7.5 if "round" in entry.meaning else 3
        shape = f'x="{x:g}" y="{y - 11:g}" width="20" height="15" rx="{rounded}"'
        yield f'<rect {shape} fill="{entry.fill}" stroke="{entry.stroke}"{dashed}/>'
        if entry is BROKEN:
            yield f'<rect {shape} fill="url(#hatch)"/>'
        yield (
            f'<text x="{x + 26:g}" y="{y + 1:g}" font-size="{TEXT:g}" fill="#33404d">'
            f"{escape(_meaning(entry))}</text>"
        )
        x += w
