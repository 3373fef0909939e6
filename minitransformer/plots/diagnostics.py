"""Plots of the gradients, updates, attention and dead units in training, logged by `train --diagnostics`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.io import write_atomically

from ..module_names import readable_name
from ..training.log import read_log
from .style import new_figure, to_bytes

PICTURE = "diagnostics.png"
KINDS = {
    "grad_norm": "norm of the gradients, before clipping",
    "update_ratio": "size of the update relative to the weights (dotted: 0.001, a usual size)",
    "attention_entropy": "entropy of the attention, bits (0: one token; 3: as if spread over 8 tokens)",
    "dead_units": "fraction of hidden units that no token activates",
}
USUAL_UPDATE = 1e-3
LEGEND = 14  # how many lines the legend names
NUMBERED = re.compile(r"(.*?)\.?(\d+)(?:\.|$)")  # the name of a numbered layer, such as encoder.layers.1
Points = list[tuple[int, float]]


def draw(folder: Path) -> Path | None:
    """Write `diagnostics.png`, with a panel for each kind and a line for each layer, and return its path.

    Return None if the log has no diagnostics.
    """
    records = read_log(folder / "log.jsonl")
    kinds = {kind: dict(_lines(records, kind)) for kind in KINDS}
    kinds = {kind: lines for kind, lines in kinds.items() if lines}
    if not kinds:
        return None
    figure = new_figure(9, 0.6 + 2.5 * len(kinds))
    figure.suptitle(f"What happens in the layers of {folder.name}", parse_math=False)
    panels = figure.subplots(len(kinds), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (kind, lines) in zip(panels, kinds.items(), strict=True):
        draw_panel(panel, kind, lines)
    panels[-1].set_xlabel("step")
    write_atomically(folder / PICTURE, to_bytes(figure, "png"))
    return folder / PICTURE


def draw_panel(panel: Any, kind: str, lines: Mapping[str, Points]) -> None:
    """Draw the lines of one kind, with a legend that names at most LEGEND of them."""
    from matplotlib.ticker import LogLocator, PercentFormatter

    panel.set_title(KINDS[kind], loc="left", fontsize=10)
    panel.grid(alpha=0.3)
    panel.margins(x=0.02)
    styles = styles_of(list(lines))
    shown = [round(i) for i in np.linspace(0, len(lines) - 1, min(len(lines), LEGEND))]
    for place, ((name, points), label) in enumerate(zip(lines.items(), short_names(lines), strict=True)):
        marker = "o" if len(points) < 30 else ""
        label = label if place in shown else ""
        panel.plot(*zip(*points, strict=True), marker=marker, markersize=2.5, label=label, **styles[name])
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=2.6)
    if kind in ("grad_norm", "update_ratio"):
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_locator(LogLocator(subs=(1,)))
        for axis in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
            axis(lambda value, _: f"{value:g}")
    else:
        panel.set_ylim(bottom=0)
    if kind == "update_ratio":
        panel.axhline(USUAL_UPDATE, color="black", linewidth=0.8, linestyle=":")
    if kind == "dead_units":
        panel.set_ylim(top=max(panel.get_ylim()[1], 0.01))
        panel.yaxis.set_major_formatter(PercentFormatter(1.0))


def styles_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Choose a line style for each layer.

    Layers are orange in a decoder and blue elsewhere, from light (the first) to dark (the last), and dashed
    for cross-attention. Anything else is grey.
    """
    from matplotlib import colormaps

    depths: dict[str, list[int]] = {}
    for name in names:
        if numbered := NUMBERED.match(name):
            depths.setdefault(numbered[1], []).append(int(numbered[2]))
    styles: dict[str, dict[str, Any]] = {}
    others = 0
    for name in names:
        if numbered := NUMBERED.match(name):
            last = max(max(depths[numbered[1]]), 1)
            shades = colormaps["Oranges" if "decoder" in name else "Blues"]
            style = {"color": shades(0.45 + 0.55 * int(numbered[2]) / last)}
            styles[name] = style | {"linestyle": "--" if "cross" in name else "-", "linewidth": 1.3}
        else:
            styles[name] = {"color": "0.45", "linestyle": ("-.", ":", "--")[others % 3], "linewidth": 1.3}
            others += 1
    return styles


def short_names(names: Iterable[str]) -> list[str]:
    """Return readable names such as `encoder layer 1`, without the last parts that all names share."""
    split = [name.split(".") for name in names]
    while len({parts[-1] for parts in split}) == 1 and all(NUMBERED.match(".".join(p[:-1])) for p in split):
        split = [parts[:-1] for parts in split]
    return [readable_name(".".join(parts)) for parts in split]


def _lines(records: list[dict[str, Any]], kind: str) -> Iterator[tuple[str, Points]]:
    """Yield the name and the points (step, value) of each layer."""
    names = dict.fromkeys(key for record in records for key in record if key.startswith(f"{kind}/"))
    for key in names:
        points = [(record["step"], record[key]) for record in records if record.get(key) is not None]
        yield key.partition("/")[2], points
