"""Write a graph in Graphviz's DOT language: open groups are clusters, closed groups and ops are boxes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .colours import BROKEN, legend, paint
from .data import Box, Computation
from .folding import ALL, Folding
from .labels import kind_of_group, lines, printable, title_of

ACROSS = 4  # entries of the legend in a row


def to_dot(folding: Folding, color: str = "family") -> str:
    """Return the folded graph as the text of a .dot file."""
    text = "\n".join(
        [
            "digraph computation {",
            '  graph [fontname="Helvetica", fontsize=15, compound=true, nodesep=0.3, ranksep=0.45, '
            f"label={_heading(folding, color)}, labelloc=t];",
            '  node [fontname="Helvetica", fontsize=12, shape=box, style="rounded,filled", '
            'margin="0.14,0.07"];',
            '  edge [color="#5b6875", arrowsize=0.7];',
            *_group(folding, 0, color, "  "),
            *_edges(folding),
            "}\n",
        ]
    )
    return printable(text)


def _heading(folding: Folding, color: str) -> str:
    """Return the title and the legend as a Graphviz HTML label."""
    graph = folding.graph
    closed = [box for box in folding.boxes() if box[0] == "vertex" or not folding.is_open(box[1])]
    entries = legend(graph, closed, color)
    cells = [
        f'<TD BORDER="1" COLOR="{p.stroke}" BGCOLOR="{p.fill}"><FONT POINT-SIZE="11">'
        f"{escape(f'{p.mark} {p.meaning}'.strip())}</FONT></TD>"
        for p in entries
    ]
    rows = ["".join(cells[i : i + ACROSS]) for i in range(0, len(cells), ACROSS)]
    title = (
        f'<TD COLSPAN="{min(ACROSS, len(cells))}"><B>{escape(graph.title or "Computation graph")}</B></TD>'
    )
    table = "".join(f"<TR>{row}</TR>" for row in (title, *rows))
    return f'<<TABLE BORDER="0" CELLSPACING="5" CELLPADDING="4">{table}</TABLE>>'


def _group(folding: Folding, group: int, color: str, indent: str) -> Iterator[str]:
    """Yield the lines for the contents of an open group."""
    graph = folding.graph
    for box in folding.items(group):
        if box[0] == "vertex" or not folding.is_open(box[1]):
            yield indent + _box(graph, box, color)
            continue
        inner = graph.groups[box[1]]
        yield f"{indent}subgraph cluster_{box[1]} {{"
        title = "  ".join(filter(None, (title_of(inner), kind_of_group(inner))))
        stacked = inner.is_stack and folding.fold.member(box[1]) != ALL
        yield (
            f'{indent}  label={_quote(title)}; labeljust=l; style="rounded,filled"; fillcolor="#f8fafb"; '
            f'color="#7b8794"; penwidth={2.5 if stacked else 1};'
        )
        yield from _group(folding, box[1], color, indent + "  ")
        yield f"{indent}}}"


def _box(graph: Computation, box: Box, color: str) -> str:
    look = paint(graph, box, color)
    text = lines(graph, box, color)
    if look.mark:
        text[0] = f"{text[0]}  {look.mark}"
    kind = graph.vertices[box[1]].kind if box[0] == "vertex" else "group"
    shapes = {"parameter": 'style="rounded,filled", shape=ellipse, ', "group": "peripheries=2, "}
    shape = 'style="rounded,filled,dashed", ' if kind == "constant" else shapes.get(kind, "")
    if look is BROKEN:  # stripes, since Graphviz has no hatching
        shape = f'style="rounded,striped", fillcolor="{look.fill}:white:{look.fill}:white:{look.fill}", '
    else:
        shape += f'fillcolor="{look.fill}", '
    output = "penwidth=2.2, " if box[0] == "vertex" and graph.vertices[box[1]].is_output else ""
    return f'{_name(box)} [{shape}{output}color="{look.stroke}", label={_quote(chr(10).join(text))}];'


def _edges(folding: Folding) -> Iterator[str]:
    for above, below, _, (vertex, _) in folding.edges():
        dashed = " [style=dashed]" if folding.graph.vertices[vertex].kind == "constant" else ""
        yield f"  {_name(above)} -> {_name(below)}{dashed};"


def _name(box: Box) -> str:
    return f"{box[0][0]}{box[1]}"


def _quote(text: str) -> str:
    """Return a string literal for Graphviz, with its lines centered."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
