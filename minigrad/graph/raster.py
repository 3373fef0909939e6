"""The drawing of svg.py as pixels or as a PDF: its few kinds of elements are drawn by matplotlib."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from .colours import BROKEN
from .svg import ARROW

SVG = "{http://www.w3.org/2000/svg}"
SCALE = 2  # pixels of a PNG for each unit of the drawing
POINTS = 72  # an inch
HEAD = ((-7.0, -3.2), (0.4, 0.0), (-7.0, 3.2))  # an arrow's, of the marker of svg.py

State = dict[str, str]


def render(svg: str, suffix: str) -> bytes:
    """Return an SVG document of `to_svg` as a `png` or `pdf` file, the same whatever the user's style is."""
    from matplotlib import style

    with style.context("default"):
        return _draw(svg, suffix)


def _draw(svg: str, suffix: str) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    figure = Figure(figsize=(width / POINTS, height / POINTS), dpi=SCALE * POINTS)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for element, x, y, state in _elements(root, 0.0, 0.0, {}):
        _DRAW[element.tag.removeprefix(SVG)](axes, element, x, y, state)
    file = io.BytesIO()
    settings = {"CreationDate": None} if suffix == "pdf" else {"Software": None}
    figure.savefig(file, format=suffix, metadata=settings)
    return file.getvalue()


def _elements(
    element: ElementTree.Element, x: float, y: float, state: State
) -> Iterator[tuple[ElementTree.Element, float, float, State]]:
    """Iterate over what is drawn, in order, with its translation and inherited attributes."""
    for child in element:
        tag = child.tag.removeprefix(SVG)
        if tag == "g":
            move = re.match(r"translate\((\S+) (\S+)\)", child.get("transform", ""))
            dx, dy = map(float, move.groups()) if move else (0.0, 0.0)
            yield from _elements(child, x + dx, y + dy, state | child.attrib)
        elif tag in _DRAW:
            yield child, x, y, state | child.attrib


def _style(state: State) -> dict[str, Any]:
    """Return matplotlib's settings for a shape's fill and outline."""
    fill, stroke = state.get("fill", "none"), state.get("stroke", "none")
    dashes = state.get("stroke-dasharray")
    wide = float(state.get("stroke-width", 1))
    return {
        "facecolor": "none" if fill.startswith("url") else fill,
        "edgecolor": stroke,
        "linewidth": wide if stroke != "none" else 0.0,
        "linestyle": (0, [float(n) / wide for n in dashes.split()]) if dashes else "solid",
        "alpha": float(state["stroke-opacity"]) if "stroke-opacity" in state else None,
    }


def _draw_rect(axes: Any, rect: ElementTree.Element, x: float, y: float, state: State) -> None:
    from matplotlib.patches import FancyBboxPatch

    left, top, rounded = (float(rect.get(name, 0)) for name in ("x", "y", "rx"))
    style = _style(state)
    if state.get("fill", "").startswith("url"):
        style |= {"hatch": "////", "edgecolor": f"{BROKEN.stroke}8c", "linewidth": 0.0}
    box = f"round,pad=0,rounding_size={rounded}" if rounded else "square,pad=0"
    size = float(rect.get("width", 0)), float(rect.get("height", 0))
    axes.add_patch(FancyBboxPatch((x + left, y + top), *size, boxstyle=box, **style))


def _draw_path(axes: Any, path: ElementTree.Element, x: float, y: float, state: State) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    points, codes = _read_path(path.get("d", ""), x, y)
    axes.add_patch(PathPatch(Path(points, codes), **_style(state)))
    if path.get("marker-end"):
        end_x, end_y = points[-1]
        axes.add_patch(
            Polygon([(end_x + across, end_y + along) for along, across in HEAD], color=ARROW, linewidth=0)
        )


def _read_path(text: str, left: float, top: float) -> tuple[list[tuple[float, float]], list[int]]:
    """Return the points and codes of a path of M, V, H, C, q, h, v and z."""
    from matplotlib.path import Path

    points: list[tuple[float, float]] = []
    codes: list[int] = []
    start = x, y = left, top

    def add(code: Any, *new: tuple[float, float]) -> None:
        points.extend(new)
        codes.extend([code] * len(new))

    for letter, given in re.findall(r"([MVHCqhvz])([^MVHCqhvz]*)", text):
        n = [float(number) for number in given.split()]
        if letter == "M":
            start = x, y = left + n[0], top + n[1]
            add(Path.MOVETO, start)
        elif letter == "C":
            add(Path.CURVE4, *((left + n[i], top + n[i + 1]) for i in (0, 2, 4)))
            x, y = points[-1]
        elif letter == "q":
            add(Path.CURVE3, (x + n[0], y + n[1]), (x + n[2], y + n[3]))
            x, y = points[-1]
        elif letter == "z":
            add(Path.CLOSEPOLY, start)
        else:
            x = {"H": left, "h": x}[letter] + n[0] if letter in "Hh" else x
            y = {"V": top, "v": y}[letter] + n[0] if letter in "Vv" else y
            add(Path.LINETO, (x, y))
    return points, codes


def _draw_text(axes: Any, text: ElementTree.Element, x: float, y: float, state: State) -> None:
    from matplotlib.patheffects import withStroke

    size = float(state.get("font-size", 12))
    weight = "bold" if state.get("font-weight") == "600" else "normal"
    align = {"middle": "center", "end": "right"}.get(state.get("text-anchor", ""), "left")
    left, top = x + float(text.get("x", 0)), y + float(text.get("y", 0))
    settings = {"fontsize": size, "ha": align, "va": "baseline", "parse_math": False}
    drawn = axes.text(left, top, text.text or "", color=state["fill"], weight=weight, **settings)
    if "stroke" in state:
        drawn.set_path_effects(
            [withStroke(linewidth=float(state["stroke-width"]), foreground=state["stroke"])]
        )
    for span in text:
        after = drawn.get_window_extent().x1 / SCALE + float(span.get("dx", 0))
        axes.text(after, top, span.text or "", color=span.get("fill"), **settings)


_DRAW = {"rect": _draw_rect, "path": _draw_path, "text": _draw_text}
