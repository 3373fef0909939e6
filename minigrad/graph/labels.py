"""The text on boxes: names, signs, shapes and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from .data import Box, Computation, Group, Snapshot, Vertex

_UNPRINTABLE = (  # compiled when first needed
    "[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]|[\\u202a-\\u202e\\u2066-\\u2069]"
)


def op_title(vertex: Vertex) -> str:
    """Return an op's name and sign, `multiply ×` or `power x²`; for a leaf, its path or its kind."""
    if vertex.kind != "op":
        return vertex.name or ("data" if vertex.kind == "constant" else vertex.kind)
    return f"{public_name(vertex)} {_sign(vertex)}".rstrip()


def _sign(vertex: Vertex) -> str:
    """Return an op's sign, with an operand that is a Python number: `− 1`, `1 −`, `x²`."""
    plain = {name: number(float(value)) for name, value in vertex.settings if name in ("x", "y")}
    if not plain or not vertex.sign:
        return vertex.sign
    if vertex.sign != "xʸ":
        return " ".join(filter(None, (plain.get("x"), vertex.sign, plain.get("y"))))
    power = plain.get("y", "ʸ")
    raised = power.translate(RAISED) if set(power) <= set("-0123456789ʸ") else f"^{power}"
    return plain.get("x", "x") + raised


def public_name(vertex: Vertex) -> str:
    """Return the name of an op's public function."""
    return vertex.public_name or vertex.name


def kind_of(array: Snapshot | np.ndarray) -> str:
    """Format the dtype and shape of an array: `float32[2, 3]`."""
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]" if array.shape else str(array.dtype)


def number(x: float, digits: int = 3) -> str:
    """Format a number with a few significant digits, as the page does."""
    return f"{x:.{digits}g}"


def quantity(n: float, unit: str = "") -> str:
    """Format a quantity with three digits and a prefix, `1.5 M`; for bytes ("B"), in powers of 1024."""
    step, prefixes = (
        (1024, ("", "Ki", "Mi", "Gi", "Ti")) if unit == "B" else (1000, ("", "k", "M", "G", "T", "P"))
    )
    power = 0
    while n >= step and power < len(prefixes) - 1:
        n /= step
        power += 1
    shown = f"{n:.0f}" if power == 0 or n >= 100 else f"{n:.3g}"
    return f"{shown} {prefixes[power]}{unit}".strip()


def summary(graph: Computation) -> str:
    """Summarize a graph: `4 operations on 2 parameters, 1 constant`."""
    ops = sum(v.kind == "op" for v in graph.vertices)
    kinds = {"parameter": "parameters", "input": "inputs", "constant": "constants"}
    counts = [(sum(v.kind == kind for v in graph.vertices), name) for kind, name in kinds.items()]
    leaves = [f"{n:,} {name if n > 1 else name[:-1]}" for n, name in counts if n]
    return f"{ops:,} {'operations' if ops != 1 else 'operation'} on {', '.join(leaves)}"


def printable(text: str) -> str:
    """Replace control characters (also for text direction) and lone surrogates by �, for XML and UTF-8."""
    return re.sub(_UNPRINTABLE, "\ufffd", text)


# ---------------------------------------------------------------- boxes

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

TITLE = 15.0  # the font size of a box's first line
TEXT = 12.5  # the font size of a box's other lines
NAME = 13.5  # the font size of a frame's name

LINE = 15.0  # the height of a line
MAP = 36.0  # the width of a box's heat map, with the space beside it
TAB = 11.0  # half the height of the tab with a frame's name, and its distance from the frame's left side
KNOB = 24.0  # the width of the knob beside it

# Classes of letters by width, and the width of each class, regular and bold, as a fraction of the font size.
# The last two widths are for other letters and other scripts. The font is DejaVu Sans, a wide one.
LETTERS = (" '/IJ\\ijl|,-.:;", '!()[]f"*_`rt', "#&+<=>DGHNOQU^~", "%@MWmw…")
WIDTHS = ((0.35, 0.41), (0.47, 0.52), (0.8, 0.86), (0.97, 1.07), (0.64, 0.71), (1.0, 1.05))
_KINDS = {letter: kind for kind, letters in enumerate(LETTERS) for letter in letters}


def lines(graph: Computation, box: Box, mode: str = "family") -> list[str]:
    """Return the lines of text on a closed box, the title first."""
    shown = vertex_lines(graph, graph.vertices[box[1]]) if box[0] == "vertex" else group_lines(graph, box[1])
    extra = color_line(graph, box, mode)
    return [*shown, extra] if extra else shown


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return an upper bound of a text's width in the usual fonts."""
    kinds = (_KINDS.get(letter, 4 if letter < "\u1100" else 5) for letter in text)
    return size * sum(WIDTHS[kind][bold] for kind in kinds)


def size(text: list[str], maps: int = 0) -> tuple[float, float]:
    """Return the width and height of a box with these lines, and heat maps beside them."""
    widths = [text_width(line, TEXT if i else TITLE, not i) for i, line in enumerate(text)]
    return max(64.0, max(widths) + 24.0 + maps * MAP), LINE * len(text) + 14.0


def vertex_lines(graph: Computation, vertex: Vertex) -> list[str]:
    title = op_title(vertex) if vertex.kind == "op" else _relative_path(graph, vertex)
    found = [short(f"{vertex.label}: {title}" if vertex.label else title)]
    value, g = vertex.value, vertex.gradient
    many = len(vertex.values) > 1
    if value.size != 1 or value.shape or many:
        found.append(kind_of(value) if not many else _kinds_of(vertex.values))
    if vertex.words:
        found.append(short(vertex.words))
    if value.size == 1 and not many:
        found.append(f"value {number(value.numbers.item())}")
        if g is not None and g.size == 1:
            found.append(f"gradient {_sum_of_uses(graph, vertex)}")
    return found


def _kinds_of(values: tuple[Snapshot, ...]) -> str:
    """Format the dtypes and shapes of several results: `float32[2] × 3`, or `float32[2], float32[2, 2]`."""
    kinds = [kind_of(value) for value in values]
    return f"{kinds[0]} × {len(kinds)}" if len(set(kinds)) == 1 else short(", ".join(kinds))


def short(text: str, most: int = 48) -> str:
    """Shorten a text to fit on a box, keeping its beginning and end."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-(most // 2) :]}"


def _sum_of_uses(graph: Computation, vertex: Vertex) -> str:
    """Format a gradient, as the sum `6 = 2 + 4` if the value is used more than once."""
    assert vertex.gradient is not None
    total = number(vertex.gradient.numbers.item())
    parts = [graph.vertices[v].inputs[place].gradient for v, place in graph.consumers[vertex.index]]
    if len(parts) < 2 or len(parts) > 4 or any(part is None for part in parts):
        return total
    numbers = [part.numbers.item() for part in parts if part is not None]
    if not math.isclose(sum(numbers), vertex.gradient.numbers.item(), rel_tol=1e-3):
        return total  # a hook changed the sum, or backward started here too
    terms = [number(n) for n in numbers]
    return f"{total} = {terms[0]}" + "".join(
        f" − {term[1:]}" if term.startswith("-") else f" + {term}" for term in terms[1:]
    )


def group_lines(graph: Computation, index: int) -> list[str]:
    group = graph.groups[index]
    inside = graph.members(("group", index))
    ops = sum(v.kind == "op" for v in inside)
    weights = sum(v.value.size for v in inside if v.kind == "parameter")
    counts = f"{ops} op{'s' if ops != 1 else ''}" + (f", {quantity(weights)} weights" if weights else "")
    return [short(title_of(group)), kind_of_group(group) or counts]


def title_of(group: Group) -> str:
    """Return a group's name; for a stack, its class and number of members, `EncoderLayer ×6`."""
    return f"{group.kind or group.name} ×{group.times}" if group.is_stack else group.name or group.kind


def kind_of_group(group: Group) -> str:
    """Return a group's class, or "" if that is its title."""
    return "" if group.is_stack or group.kind in (group.name, "run", "gradient") else group.kind


def title_width(group: Group) -> float:
    """Return the least width of an open group, which has a tab with its name and a knob beside it."""
    return tab_width(group) + KNOB + 2 * TAB


def tab_width(group: Group) -> float:
    """Return the width of the tab with an open group's name and kind."""
    kind = kind_of_group(group)
    beside = 8.0 + text_width(kind, NAME) if kind else 0.0
    return 16.0 + text_width(title_of(group), NAME, bold=True) + beside


def _relative_path(graph: Computation, vertex: Vertex) -> str:
    """Return a leaf's path relative to the groups around it."""
    path = graph.groups[vertex.group].path
    if path and vertex.name.startswith(f"{path}."):
        return vertex.name[len(path) + 1 :]
    if not vertex.name:  # the name of the operand where it is first used
        users = graph.consumers[vertex.index]
        operand = graph.vertices[users[0][0]].inputs[users[0][1]].operand if users else ""
        if len(operand) > 1 and operand.isidentifier():
            return operand
    return op_title(vertex)


def tooltip(graph: Computation, box: Box) -> str:
    """Return the tooltip of a box: a vertex's name, source line and statistics, or a group's path."""
    if box[0] == "group":
        return " · ".join([graph.groups[box[1]].path, *group_lines(graph, box[1])[1:]])
    vertex = graph.vertices[box[1]]
    text = [vertex.name, *([f"{vertex.source}: {vertex.code}"] if vertex.source else [])]
    for what, snapshot in (("value", vertex.value), ("gradient", vertex.gradient)):
        if snapshot is not None and snapshot.statistics is not None:
            s = snapshot.statistics
            text.append(
                f"{what}: min {number(s.min)}, mean {number(s.mean)}, max {number(s.max)}, "
                f"std {number(s.std)}"
            )
            if not s.finite:
                text.append(f"{s.nan} NaN, {s.inf} infinite")
    return "\n".join(text)


def color_line(graph: Computation, box: Box, mode: str) -> str:
    """Format the quantity that a box's colour shows in this mode; "" in mode "family"."""
    inside = graph.members(box)
    if mode == "bytes":
        return quantity(sum(s.nbytes for v in inside for s in v.values), "B")
    if mode == "flops":
        flops = sum(v.flops or 0 for v in inside)
        return f"{quantity(flops)} FLOPs" if flops else ""
    if mode == "gradient":
        found = [v.gradient.statistics for v in inside if v.gradient is not None]
        norms = [s.norm for s in found if s is not None]
        return f"gradient norm {max(norms):.2g}" if norms else ""
    return ""


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: int = 2) -> str:
    """Format rows below their heads as aligned columns; the first `right` columns are right-aligned."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(c.rjust(w) if i < right else c.ljust(w) for i, (c, w) in enumerate(cells)))
    return "\n".join(line.rstrip() for line in lines)
