"""A graph as one HTML file, which shows the drawing, details of each box, and backward step by step.

The file needs no network. Its Content-Security-Policy allows its script and style sheet, by their hashes; the
trace is data, which a browser does not run. Python writes the data. The JavaScript modules in `assets/`,
which modules.py joins, display it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from string import Template
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..core.dtypes import is_floating
from ..core.registry import registry
from .arrangement import Arrangement, Cell, Link
from .colours import LEVELS, MODES, Paint, heat_levels, paint, scale
from .data import Box, Check, Edge, Group, Snapshot, Vertex
from .folding import Folding, to_depth
from .grouping import strip_call
from .labels import LETTERS, WIDTHS, color_line, kind_of_group, lines, op_title, printable, summary, title_of
from .latex import bar, upright
from .modules import join_modules
from .svg import to_svg

ASSETS = Path(__file__).with_name("assets")
LIMIT = 1_000_000  # the most bytes of a page
MATHML = "{http://www.w3.org/1998/Math/MathML}"
BARS = ("\u00af", "\u2015")  # the bar over a letter, and the bar over a word


def to_html(folding: Folding, color: str = "family", limit: int = LIMIT) -> str:
    """Return the HTML of a graph's page. Boxes are initially coloured by `color`.

    It has the numbers of as many arrays, the smallest first, as fit in `limit` bytes.
    """
    graph = folding.graph
    script = join_modules(ASSETS / "main.js")
    style = _asset("page.css")
    title = printable(graph.title or "Computation graph")
    page = Template(_asset("page.html"))
    parts = {
        "title": html.escape(title),
        "summary": html.escape(f"{summary(graph)}."),
        "notes": "".join(f"<p>{html.escape(note)}</p>" for note in graph.notes),
        "policy": content_policy(script, style),
        "style": style,
        "picture": picture(folding, color, limit // 4),
        "script": script,
    }
    empty = page.substitute(parts, data="")
    return page.substitute(parts, data=_Data(folding, color).text(limit - len(empty.encode())))


def picture(folding: Folding, color: str = "family", limit: int = LIMIT // 4) -> str:
    """Return a static drawing, an SVG of at most `limit` bytes.

    A drawing that is too large is folded; if it still does not fit, "" is returned.
    """
    graph = folding.graph
    pictures = (to_svg(seen, color) for seen in (folding, Folding(graph, to_depth(graph, 0))))
    return next((text for text in pictures if len(text.encode()) <= limit), "")


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def content_policy(script: str, style: str) -> str:
    """Return a Content-Security-Policy that allows only this script and style sheet."""
    hashed = [base64.b64encode(hashlib.sha256(x.encode()).digest()).decode() for x in (script, style)]
    return (
        f"default-src 'none'; script-src 'sha256-{hashed[0]}'; style-src 'sha256-{hashed[1]}'; "
        f"base-uri 'none'; form-action 'none'"
    )


# ---------------------------------------------------------------- formulas


@cache
def mathml(latex: str) -> str:
    """Convert a formula to MathML. If that is not possible, the result shows its LaTeX as text."""
    from latex2mathml.converter import convert

    try:
        formula = ElementTree.fromstring(convert(latex))
        elements = list(formula.iter())
        strange = any(not element.tag.startswith(MATHML) for element in elements)
    except Exception:  # a user's formula
        strange = True
    if strange:
        return f'<math xmlns="{MATHML[1:-1]}"><mtext>{html.escape(latex)}</mtext></math>'
    for element in elements:
        if element.tag == f"{MATHML}mover" and element[1].text in BARS:
            _draw_bar(element)
        elif len(element) > 1 and all(letter.get("mathvariant") == "normal" for letter in element):
            _join(element)
    return re.sub(r"\bns0:|:ns0\b", "", ElementTree.tostring(formula, encoding="unicode"))


def _draw_bar(mover: ElementTree.Element) -> None:
    """Replace the sign over a base with a CSS bar, since browsers may not stretch the sign to its width."""
    mover.tag = f"{MATHML}mrow"
    mover.set("class", "bar")
    mover.remove(mover[1])


def _join(row: ElementTree.Element) -> None:
    """Join consecutive upright letters into one word, also for screen readers."""
    word = "".join(letter.text or "" for letter in row)
    row[:] = []
    row.tag = f"{MATHML}mi"
    row.text = word


def _equation(operand: str, latex: str, names: Sequence[str]) -> str:
    """Return the equation of an operand's gradient as MathML: `x̄ = g y`."""
    name = re.sub(r"\W", "", operand) or "x"
    return mathml(f"{bar(name)} = {upright(latex, [n for n in names if len(n) > 1])}")


SIGNS = {
    r"\sigma": "σ(x) = 1 / (1 + e⁻ˣ)", r"\Phi": "Φ is the normal distribution function",
    r"\varphi": "φ is the normal density", r"\psi": "ψ is the derivative of ln Γ",
}  # fmt: skip
AVERAGED = "n is how many numbers are averaged"
GREEK = {"alpha": "α", "beta": "β", "epsilon": "ε", "lambda": "λ"}
SPELT = {"eps": "epsilon", "lambd": "lambda"}  # settings whose letter has another name


def letters(vertex: Vertex, latex: str) -> str:
    """Explain the letters of a formula that are not operands: `α = 1, y is the result`."""
    plain = re.sub(r"\\operatorname\{\w+\}", "", latex)
    found = [f"{_letter(name)} = {value}" for name, value in _settings(vertex).items() if _names(plain, name)]
    operands = [edge.operand for edge in vertex.inputs] + [name for name, _ in vertex.settings]
    if _names(plain, "n") and "n" not in _settings(vertex):
        inputs = vertex.inputs[0].operand if vertex.inputs else ""
        found.append(_averaged(vertex) if inputs == "x" else AVERAGED)
    if _names(plain, "y") and "y" not in operands:
        found.append("y is the result")
    found += [said for sign, said in SIGNS.items() if _names(plain, sign[1:])]
    return ", ".join(found)


def _names(latex: str, name: str) -> bool:
    """Return whether a formula contains a letter or a word."""
    word = SPELT.get(name, name).replace("_", r"\\?_")
    return bool(re.search(rf"(?<![A-Za-z]){word}(?![A-Za-z])", latex))


def _letter(name: str) -> str:
    return GREEK.get(SPELT.get(name, name), name)


def _settings(vertex: Vertex) -> dict[str, str]:
    """Return an op's settings, including defaults."""
    return dict(vertex.defaults) | dict(vertex.settings)


def _averaged(vertex: Vertex) -> str:
    """Return `n = 6`, the number of elements that each element of the result averages."""
    pulled = vertex.inputs[0].pulled
    return f"n = {pulled.size // max(1, vertex.value.size)}" if pulled else AVERAGED


# ---------------------------------------------------------------- data


class _Table:
    """A table of unique rows, which are referred to by number."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}
        self.rows: list[Any] = []

    def add(self, row: Any, key: Any = None) -> int:
        key = row if key is None else key
        if key not in self.places:
            self.places[key] = len(self.rows)
            self.rows.append(row)
        return self.places[key]


class _Data:
    """The page's tables: rows refer to one another by index; `columns` names each table's fields."""

    def __init__(self, folding: Folding, color: str) -> None:
        self.graph = graph = folding.graph
        self.columns: dict[str, list[str]] = {}  # the columns of each kind of row
        self.strings = _Table()
        self.formulas = _Table()
        self.paints = _Table()
        self.snapshots = _Table()
        self.scale = [self._paint(p) for mode in MODES for p in scale(mode)]  # in the order of legends
        self.arrays: list[np.ndarray] = []  # rows refer to these by number; some may be left out
        self.memories = _Table()
        self.content = {
            "title": graph.title,
            "notes": graph.notes,
            "vertices": [self._vertex(vertex) for vertex in graph.vertices],
            "groups": [self._group(group) for group in graph.groups],
            "arrangements": [self._arrangement(ways) for ways in folding.arrangements],
            "looks": {
                "v": [self._look(("vertex", v.index)) for v in graph.vertices],
                "g": [self._look(("group", g.index)) for g in graph.groups],
            },
            "colour": color,
            "colours": MODES,
            "letters": LETTERS,
            "widths": WIDTHS,
            "open": sorted(folding.fold.opened),
            "openings": folding.fold.openings,
            "shown": sorted(folding.fold.shown.items()),
        }

    def text(self, limit: int) -> str:
        """Return JSON of about `limit` bytes that is safe in a page, with the smallest arrays that fit."""
        content = self.content | {
            "columns": self.columns,
            "strings": self.strings.rows,
            "formulas": self.formulas.rows,
            "snapshots": self.snapshots.rows,
            "paints": self.paints.rows,
            "scale": self.scale,
        }
        text = _json(content)
        limit -= len(text.encode()) + len(',"arrays":[]') + len("null,") * len(self.arrays)
        written = ["null"] * len(self.arrays)
        for i in sorted(range(len(self.arrays)), key=lambda i: self.arrays[i].size):
            numbers = _json(_numbers(self.arrays[i]))
            limit -= len(numbers)
            if limit < 0:
                break
            written[i] = numbers
        return f'{text[:-1]},"arrays":[{",".join(written)}]}}'

    def _row(self, table: str, /, **values: Any) -> list[Any]:
        """Return the values of a row, and note their names as the table's columns."""
        self.columns[table] = list(values)
        return list(values.values())

    def _vertex(self, v: Vertex) -> list[Any]:
        operands = [edge.operand for edge in v.inputs] + [name for name, _ in v.settings]
        return self._row(
            "vertex",
            kind=v.kind,
            name=self._string(v.name),
            title=self._string(op_title(v)),
            group=v.group,
            values=[self._snapshot(value) for value in v.values],
            heat=[
                None if s is None else self._string(_heat(s.sample))
                for s in self.graph.heat_maps(("vertex", v.index))
            ],
            gradients=[self._snapshot(g) for g in v.gradients],
            inputs=[self._edge(edge) for edge in v.inputs],
            settings=[[self._string(name), self._string(value)] for name, value in v.settings],
            family=self._string(v.family),
            parts=self._string(", ".join(v.parts)),
            formulas=[self._formula(v, operand, latex, operands) for operand, latex in v.formulas],
            flops=v.flops,
            retained=[
                self._row("retained", bytes=r.nbytes, memory=self.memories.add(r.memory), owner=r.owner)
                for r in v.retained
            ],
            source=self._string(v.source),
            code=self._string(v.code),
            checks=[self._check(c) for c in v.checks],
            label=self._string(v.label),
            isOutput=int(v.is_output),
            seeds=[self._snapshot(g) for g in v.seeds],
        )

    def _formula(self, v: Vertex, operand: str, latex: str, operands: list[str]) -> list[Any]:
        equation = self.formulas.add(_equation(operand, latex, operands))
        said = self._string(letters(v, latex))
        return self._row("formula", operand=self._string(operand), equation=equation, letters=said)

    def _check(self, c: Check) -> list[Any]:
        low, high = sorted((c.left, c.right)) if c.verdict == "kink" else (0, 0)
        return self._row(
            "check", at=list(c.index), verdict=self._string(c.verdict), analytic=_number(c.analytic),
            numeric=_number(c.numeric), error=_number(c.error, 3), low=_number(low, 3), high=_number(high, 3),
        )  # fmt: skip

    def _edge(self, e: Edge) -> list[Any]:
        return self._row(
            "edge", source=e.source, result=e.result, operand=self._string(e.operand), needs=int(e.needs),
            summed=e.summed, expanded=e.expanded, pulled=self._snapshot(e.pulled),
            gradient=self._snapshot(e.gradient), jacobian=self._jacobian(e),
        )  # fmt: skip

    def _jacobian(self, e: Edge) -> list[Any] | None:
        if e.jacobian is None:
            return None
        rows, columns = e.jacobian.shape
        array = e.jacobian.diagonal() if e.elementwise else e.jacobian
        return self._row(
            "jacobian", rows=rows, columns=columns, diagonal=int(e.elementwise), numbers=self._array(array)
        )

    def _group(self, g: Group) -> list[Any]:
        return self._row(
            "group", parent=g.parent, name=self._string(g.name), path=self._string(g.path),
            kind=self._string(g.kind), shownName=self._string(title_of(g)),
            shownKind=self._string(kind_of_group(g)), vertices=g.vertices, groups=g.groups, times=g.times,
            formulas=[self.formulas.add(equation) for equation in _closed_form(g)],
        )  # fmt: skip

    def _look(self, box: Box) -> list[Any]:
        """Return the text on a box, the line that each colour mode adds, and the paints."""
        return self._row(
            "look",
            lines=[self._string(line) for line in lines(self.graph, box)],
            extras=[self._string(color_line(self.graph, box, mode)) for mode in MODES],
            paints=[self._paint(paint(self.graph, box, mode)) for mode in MODES],
        )

    def _paint(self, p: Paint) -> int:
        return self.paints.add(self._row("paint", **vars(p)), p)

    def _string(self, text: str) -> int:
        return self.strings.add(text)

    def _snapshot(self, s: Snapshot | None) -> int | None:
        if s is None:
            return None
        numbers = np.ascontiguousarray(s.numbers)
        key = (s.shape, s.dtype, s.whole, numbers.tobytes(), repr(s.statistics))
        if key in self.snapshots.places:
            return self.snapshots.places[key]
        statistics = s.statistics and self._row(
            "statistics", **{name: _number(x, digits=6) for name, x in asdict(s.statistics).items()}
        )
        row = self._row(
            "snapshot", shape=s.shape, dtype=self._string(s.dtype), bytes=s.nbytes, statistics=statistics,
            extent=numbers.shape, numbers=self._array(numbers), whole=int(s.whole),
        )  # fmt: skip
        return self.snapshots.add(row, key)

    def _arrangement(self, ways: Arrangement) -> list[Any]:
        """Return the rows of cells, the links between rows (flat lists of numbers), sides and inlets."""
        rows = [[_cell(cell) for cell in row] for row in ways.rows]
        links = [[n for link in row for n in self._link(link)] for row in ways.links]
        sides = [[side.row, side.left, side.right, *side.tensor] for side in ways.sides]
        return self._row("arrangement", rows=rows, links=links, sides=sides, inlets=ways.inlets)

    def _link(self, link: Link) -> list[Any]:
        vertex, result = link.tensor
        return self._row(
            "link", above=link.above, below=link.below, vertex=vertex, result=result, place=link.place
        )

    def _array(self, array: np.ndarray) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1


def _cell(cell: Cell) -> int | tuple[int, int]:
    """Encode a cell: a vertex as its number, a group as -1 minus its number, a lane as its tensor."""
    kind, index, result = cell
    return (index, result) if kind == "lane" else index if kind == "vertex" else -1 - index


def _closed_form(g: Group) -> list[str]:
    """Return the equations of a composite op's gradients, if the group is the op's definition."""
    op = registry.get(strip_call(g.name)) if not g.kind else None
    if op is None or getattr(op, "definition", None) is None:
        return []
    operands = [p.name for p in op.parameters[: len(op.latex)]]
    return [_equation(o, latex, operands) for o, latex in zip(operands, op.latex, strict=False) if latex]


def _heat(sample: np.ndarray) -> str:
    """Encode a heat map as one character per cell, with "/" between rows.

    A cell's level is encoded as a digit: 4 is zero, 9 is True. "x" is a NaN or infinity.
    """
    return "/".join("".join("0123456789xxxx"[level + LEVELS] for level in row) for row in heat_levels(sample))


def _number(x: float, digits: int = 17) -> float | str:
    """Round a number to `digits` for JSON. NaN and infinities become strings."""
    if not math.isfinite(x):
        return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
    shown = float(f"{x:.{digits}g}")
    return int(shown) if shown == int(shown) and abs(shown) < 1e6 else shown


def _numbers(array: np.ndarray) -> list[Any]:
    """Return an array's elements for JSON. A float32 gets the fewest digits that identify it."""
    flat = array.reshape(-1)
    if flat.dtype == np.float32:
        return [_number(float(str(x))) for x in flat]
    return [_number(float(x)) for x in flat] if is_floating(flat.dtype) else [int(x) for x in flat]


def _json(content: Any) -> str:
    """Return compact JSON without `<`, so that it cannot end its HTML element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
