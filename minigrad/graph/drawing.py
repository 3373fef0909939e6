"""Drawings of graphs by Graphviz. Open groups are clusters; closed groups and ops are boxes with heat maps.

Graphviz is the program `dot`, or the package graphviz-pure. Without either, svg.py draws.
"""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import OptionError
from .colours import BROKEN, heat_fill, heat_levels, legend, paint
from .data import Box
from .folding import ALL, Folding
from .labels import TEXT, TITLE, kind_of_group, lines, printable, title_of, tooltip

if TYPE_CHECKING:
    import graphviz

ACROSS = 4  # the number of legend entries in a row
MAPS = 60  # a drawing of more boxes has no heat maps
MAP = 26, 26  # the width and height of a heat map


def to_graphviz(folding: Folding, color: str = "family", across: bool = False) -> graphviz.Digraph:
    """Return the drawing of a folded graph, from top to bottom or, with `across`, from left to right."""
    import graphviz

    find_engine()
    drawing = graphviz.Digraph(
        "computation",
        graph_attr={
            "fontname": "Arial", "fontsize": f"{TEXT:g}", "label": _heading(folding, color), "labelloc": "t",
            "newrank": "true", "nodesep": "0.25", "ranksep": "0.4", "pad": "0.2",
            "rankdir": "LR" if across else "TB",
        },
        node_attr={
            "fontname": "Arial", "fontsize": f"{TEXT:g}", "shape": "box", "style": "filled",
            "margin": "0.09,0.05",
        },
        edge_attr={"color": "#5b6875", "arrowsize": "0.7"},
    )  # fmt: skip
    _draw_group(drawing, folding, 0, color)
    beside = _groups_beside(folding)
    for above, below, _, (vertex, _) in folding.edges():
        attributes = {"style": "dashed"} if folding.graph.vertices[vertex].kind == "constant" else {}
        if any((above, group) in beside for group in _groups_around(folding, below)):
            attributes["constraint"] = "false"
        drawing.edge(_name(above), _name(below), **attributes)
    return drawing


def find_engine() -> str | None:
    """Find `dot` or graphviz-pure, and make the package graphviz run it. Return its path, or None."""
    import graphviz

    pure = "graphviz-pure"
    found = (
        shutil.which("dot") or shutil.which(pure) or shutil.which(pure, path=sysconfig.get_path("scripts"))
    )
    if found:
        graphviz.backend.dot_command.DOT_BINARY = Path(found)
    return found


def render(folding: Folding, color: str, across: bool, suffix: str) -> bytes:
    """Return the drawing as the content of a "png" (two pixels per unit) or "pdf" file.

    Raise an OptionError if Graphviz is not installed.
    """
    engine = find_engine()
    if engine is None or (suffix == "pdf" and Path(engine).stem != "dot"):
        install = "apt install graphviz, or brew install graphviz"
        raise OptionError(
            f"a {suffix.upper()} is drawn by Graphviz, whose program dot was not found.\n"
            f"Run {install}{'' if suffix == 'pdf' else ', or pip install graphviz-pure'}; "
            f".svg and .html files need nothing."
        )
    drawing = to_graphviz(folding, color, across)
    if suffix == "png":
        drawing.attr(dpi="144")
    return drawing.pipe(format=suffix, quiet=True)


# ---------------------------------------------------------------- boxes


def _heading(folding: Folding, color: str) -> str:
    """Return the title and the legend as a table."""
    graph = folding.graph
    closed = [box for box in folding.boxes() if box[0] == "vertex" or not folding.is_open(box[1])]
    cells = [
        f'<TD BORDER="1" COLOR="{p.stroke}" BGCOLOR="{p.fill}"{_style_of(p.meaning)}>'
        f"{_text(f'{p.mark} {p.meaning}'.strip(), 11)}</TD>"
        for p in legend(graph, closed, color)
    ]
    rows = ["".join(cells[i : i + ACROSS]) for i in range(0, len(cells), ACROSS)]
    title = f"<B>{_text(graph.title or 'Computation graph', 17)}</B>"
    span = max(1, min(ACROSS, len(cells)))
    rows.insert(0, f'<TD COLSPAN="{span}">{title}</TD>')
    return f"<{_table(rows, CELLSPACING=6, CELLPADDING=3)}>"


def _style_of(meaning: str) -> str:
    styles = {"round": "ROUNDED", "dashed": "DASHED"}
    return next((f' STYLE="{style}"' for word, style in styles.items() if word in meaning), "")


def _draw_group(drawing: graphviz.Digraph, folding: Folding, group: int, color: str) -> None:
    """Draw the contents of an open group."""
    graph = folding.graph
    for box in folding.items(group):
        if box[0] == "vertex" or not folding.is_open(box[1]):
            _draw_box(drawing, folding, box, color)
            continue
        inner = graph.groups[box[1]]
        stacked = inner.is_stack and folding.fold.member(box[1]) != ALL
        label = f"<B>{_text(title_of(inner), 13.5)}</B>  {_text(kind_of_group(inner), 13.5)}"
        with drawing.subgraph(name=f"cluster_{box[1]}") as frame:
            frame.attr(
                label=f"<{label}>", labeljust="l", style="rounded,filled", fillcolor="#f8fafb",
                color="#7b8794", penwidth="2.5" if stacked else "1", tooltip=_tooltip(inner.path),
            )  # fmt: skip
            _draw_group(frame, folding, box[1], color)


def _draw_box(drawing: graphviz.Digraph, folding: Folding, box: Box, color: str) -> None:
    graph = folding.graph
    look = paint(graph, box, color)
    kind = graph.vertices[box[1]].kind if box[0] == "vertex" else "group"
    style = {"parameter": "filled,rounded", "constant": "filled,dashed"}.get(kind, "filled")
    fill = look.fill
    if look is BROKEN:  # stripes, since Graphviz has no hatching
        style = "striped"
        fill = f"{look.fill}:white:{look.fill}:white:{look.fill}"
    drawing.node(
        _name(box),
        label=f"<{_label(folding, box, color)}>",
        tooltip=_tooltip(tooltip(graph, box)),
        style=style, fillcolor=fill, color=look.stroke,
        peripheries="2" if kind == "group" else "1",
        penwidth="2.2" if box[0] == "vertex" and graph.vertices[box[1]].is_output else "1.3",
    )  # fmt: skip


def _label(folding: Folding, box: Box, color: str) -> str:
    """Return a box's lines, with the heat maps of its value at the left and of its gradient at the right."""
    graph = folding.graph
    look = paint(graph, box, color)
    title, *others = lines(graph, box, color)
    mark = f" {_text(look.mark, 9)}" if look.mark else ""
    name = f'<FONT COLOR="{look.stroke}"><B>{_text(title, TITLE)}</B>{mark}</FONT>'
    text = _table([f"<TD>{line}</TD>" for line in (name, *(_text(line, TEXT) for line in others))])
    if folding.count > MAPS:
        return text
    value, gradient = (f"<TD>{_heat_map(s.sample)}</TD>" if s else "" for s in graph.heat_maps(box))
    return _table([f"{value}<TD>{text}</TD>{gradient}"], CELLSPACING=4) if value or gradient else text


def _heat_map(sample: np.ndarray) -> str:
    """Return a table with a cell for each number; neighbours of the same colour share a cell."""
    levels = heat_levels(sample)
    wide, high = (max(2, size // n) for size, n in zip(MAP, levels.shape[::-1], strict=True))
    rows = []
    for row in levels.tolist():
        cells = "".join(
            f'<TD WIDTH="{wide * n}" HEIGHT="{high}" COLSPAN="{n}" BGCOLOR="{heat_fill(level)}"></TD>'
            for level, n in ((level, len(list(same))) for level, same in groupby(row))
        )
        rows.append(cells)
    return _table(rows, BORDER=1, COLOR="#8b97a4")


def _table(rows: list[str], **attributes: str | int) -> str:
    """Return a table whose rows have these cells, by default without lines and space between cells."""
    defaults = {"BORDER": 0, "CELLBORDER": 0, "CELLSPACING": 0, "CELLPADDING": 0} | attributes
    written = " ".join(f'{name}="{value}"' for name, value in defaults.items())
    return f"<TABLE {written}>{''.join(f'<TR>{row}</TR>' for row in rows)}</TABLE>"


def _text(text: str, size: float) -> str:
    """Return text as part of an HTML-like label; Graphviz refuses an empty one."""
    return f'<FONT POINT-SIZE="{size:g}">{escape(printable(text)) or " "}</FONT>'


def _tooltip(text: str) -> str:
    """Return a text as a string of DOT in which no characters are read as escapes, entities or HTML."""
    import graphviz

    return graphviz.escape(printable(text).replace("&", "&amp;"))


def _name(box: Box) -> str:
    return f"{box[0][0]}{box[1]}"


# ---------------------------------------------------------------- parts side by side


def _groups_beside(folding: Folding) -> set[tuple[Box, int]]:
    """Return the (box, group) pairs whose group is at the right of the box, rather than below it."""
    found = set()
    for group in folding.fold.opened:
        ways = folding.arrangements[folding.inner(group)]
        for side in ways.sides:
            source, _ = folding.visible(side.tensor[0])
            found.add((source, ways.rows[side.row][side.right][1]))
    return found


def _groups_around(folding: Folding, box: Box) -> Iterator[int]:
    graph = folding.graph
    yield from graph.chain(graph.vertices[box[1]].group if box[0] == "vertex" else box[1])
