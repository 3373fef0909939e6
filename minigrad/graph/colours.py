"""The colours of boxes. Each colour also has a mark, so that a drawing is readable without colours.

Fills are light and text is dark, for projectors and paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..core.errors import OptionError
from ..palette import NEGATIVE, POSITIVE, rgb
from .data import Box, Computation, Vertex
from .labels import quantity

MODES = {
    "family": "family of operations",
    "gradient": "size of the gradient (root mean square)",
    "bytes": "memory of the result",
    "flops": "floating-point operations",
}


@dataclass(frozen=True)
class Paint:
    """The look of a box: its fill, its outline, the mark in its corner, and their meaning."""

    fill: str
    stroke: str
    mark: str
    meaning: str


FAMILIES = {
    "elementwise": Paint("#e6edfd", "#3355b8", "", "elementwise"),
    "activation": Paint("#ffeed6", "#a35200", "", "activation"),
    "matrix": Paint("#dff3e2", "#1d6f35", "", "matrix product"),
    "attention": Paint("#fde4ee", "#a81c58", "", "attention"),
    "reduction": Paint("#efe6fb", "#6433ab", "", "reduction"),
    "shape": Paint("#e9edf1", "#4d5966", "", "shape and index"),
    "normalization": Paint("#fdf5c4", "#6f5b00", "", "normalization"),
    "convolution": Paint("#dbf1f4", "#0a6372", "", "convolution"),
    "loss": Paint("#fde3e1", "#a82018", "", "loss"),
    "other": Paint("#f3ece4", "#6b4a2b", "", "other"),
    "parameter": Paint("#ffffff", "#1b2733", "", "parameter (round)"),
    "input": Paint("#ffffff", "#3355b8", "", "input"),
    "constant": Paint("#ffffff", "#6b7683", "", "data, constant (dashed)"),
    "group": Paint("#f6f8fa", "#3d4a57", "", "module, folded (double line)"),
}
NONE = Paint("#ffffff", "#6b7683", "", "none")
BROKEN = Paint("#fbd5d2", "#8f1710", "NaN/∞", "not finite (hatched)")
LEVELS = 4  # the number of shades of a heat map's colour; the largest magnitude has the darkest
MASKED = 5  # the level of True in a heat map
MASK = "#5b6875"
GRADIENT = (  # (limit of the root mean square, the paint below it)
    (1e-9, Paint("#9db8ea", "#1e3f8f", "▼▼▼", "below 1e-9: vanished")),
    (1e-6, Paint("#c3d4f4", "#29488f", "▼▼", "1e-9 to 1e-6: vanishing")),
    (1e-4, Paint("#e3ebfa", "#46618f", "▼", "1e-6 to 1e-4")),
    (1e-1, Paint("#f4f5f6", "#4d5966", "•", "1e-4 to 0.1")),
    (1e1, Paint("#fde9d3", "#8a4a07", "▲", "0.1 to 10")),
    (1e3, Paint("#f9c99a", "#7c3a00", "▲▲", "10 to 1000: exploding")),
    (math.inf, Paint("#ee9a73", "#6e1f00", "▲▲▲", "1000 and more: exploded")),
)
POWERS = (-10.5, -7.5, -5, -2.5, 0, 2, 4)  # the powers of ten that have exactly the fills in GRADIENT
_STEPS = ("#f4f5f6", "#e6e4f4", "#d3cdec", "#bcb1e1", "#a594d6", "#9c89d2")
_OUTLINES = ("#4d5966", "#51487f", "#463a7c", "#3d2f78", "#332473", "#1d0f57")
BYTES = (2**10, 2**14, 2**18, 2**22, 2**26)
FLOPS = (10**3, 10**5, 10**7, 10**9, 10**11)


def paint(graph: Computation, box: Box, mode: str) -> Paint:
    """Return the paint of a closed box in a colour mode. Raise an OptionError for an unknown mode."""
    if not isinstance(mode, str) or mode not in MODES:
        raise OptionError(f"color must be one of {', '.join(MODES)}, got {mode!r}.\nChoose one of them.")
    members = graph.members(box)
    if any(is_broken(graph, vertex, mode) for vertex in members):
        return BROKEN
    if mode == "family":
        return FAMILIES["group" if box[0] == "group" else family(members[0])]
    if mode == "gradient":
        sizes = [rms for vertex in members if (rms := gradient_size(vertex)) is not None]
        return _gradient_paint(max(sizes)) if sizes else NONE
    if mode == "bytes":
        return _step_paint(sum(s.nbytes for vertex in members for s in vertex.values), BYTES, "B")
    return _step_paint(sum(vertex.flops or 0 for vertex in members), FLOPS, "")


def legend(graph: Computation, boxes: Iterable[Box], mode: str) -> list[Paint]:
    """Return the paints of the boxes, in the order of the scale."""
    used = {paint(graph, box, mode).meaning for box in boxes}
    return [p for p in scale(mode) if p.meaning in used]


def scale(mode: str) -> list[Paint]:
    """Return all paints of a colour mode, in the order of its legend."""
    paints = {
        "family": list(FAMILIES.values()),
        "gradient": [p for _, p in GRADIENT],
        "bytes": [_paint(i, BYTES, "B") for i in range(len(_STEPS))],
        "flops": [_paint(i, FLOPS, "") for i in range(len(_STEPS))],
    }[mode]
    return [*paints, NONE, BROKEN]


def family(vertex: Vertex) -> str:
    """Return a vertex's key in FAMILIES: the family of its op, or the kind of a leaf."""
    if vertex.kind != "op":
        return vertex.kind
    return vertex.family if vertex.family in FAMILIES else "other"


def is_broken(graph: Computation, vertex: Vertex, mode: str = "family") -> bool:
    """Return whether a vertex's values (in mode "gradient", its gradients) have a NaN or infinity.

    Infinities that reach no output and no gradient do not count: masks use them on purpose.
    """
    snapshots = vertex.gradients if mode == "gradient" else vertex.values
    broken = [s for s in snapshots if s is not None and s.statistics is not None and not s.finite]
    return bool(broken) and (not graph.is_finite or any(s.statistics.nan for s in broken))  # type: ignore[union-attr]


def heat_levels(sample: np.ndarray) -> np.ndarray:
    """Return the level of each number in a heat map, from -LEVELS (the most negative) to LEVELS.

    Zero has level 0, and a NaN or infinity has level 9. Booleans have the levels 0 and MASKED.
    """
    if sample.dtype == bool:
        return np.where(sample, MASKED, 0)
    numbers = sample.astype(np.float64)
    finite = np.isfinite(numbers)
    largest = np.abs(numbers[finite]).max(initial=0.0)
    share = np.where(finite, numbers, 0.0) / (largest or 1.0)
    return np.where(finite, np.sign(share) * np.ceil(np.abs(share) * LEVELS), 9).astype(int)


def heat_fill(level: int) -> str:
    """Return the fill of a heat map's level: the colour of its sign, mixed with white."""
    if level > LEVELS:
        return MASK if level == MASKED else BROKEN.stroke
    parts = rgb(POSITIVE if level > 0 else NEGATIVE)
    return "#" + "".join(f"{round(255 + (part - 255) * abs(level) / LEVELS):02x}" for part in parts)


def gradient_size(vertex: Vertex) -> float | None:
    """Return the root mean square of a vertex's gradient; None without a gradient, or for a NaN."""
    g = vertex.gradient
    if g is None or g.statistics is None or math.isnan(g.statistics.norm):
        return None
    return g.statistics.norm / math.sqrt(g.size)


def _gradient_paint(rms: float) -> Paint:
    """Return the paint of a gradient of this root mean square.

    The fill is interpolated between the steps of GRADIENT, in quarters of a power of ten.
    """
    step = next(p for limit, p in GRADIENT if rms < limit)
    power = round(4 * math.log10(max(rms, 1e-30))) / 4
    parts = zip(*(rgb(p.fill) for _, p in GRADIENT), strict=True)
    mixed = (round(float(np.interp(power, POWERS, part))) for part in parts)
    return replace(step, fill="#" + "".join(f"{part:02x}" for part in mixed))


def _step_paint(amount: float, limits: tuple[int, ...], unit: str) -> Paint:
    return _paint(sum(amount >= limit for limit in limits), limits, unit)


def _paint(i: int, limits: tuple[int, ...], unit: str) -> Paint:
    bounds = [quantity(limit, unit) for limit in limits]
    meanings = [f"below {bounds[0]}", *(f"{a} to {b}" for a, b in pairwise(bounds)), f"{bounds[-1]} and more"]
    return Paint(_STEPS[i], _OUTLINES[i], "▁▂▃▄▅▆"[i], meanings[i])
