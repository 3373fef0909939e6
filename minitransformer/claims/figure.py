"""The figure of a result: what each seed measured, and the effect beside the smallest that counts."""

from __future__ import annotations

import math
from typing import Any

from ..plots.style import BLUE, GREY, ORANGE, PAGE, new_figure, plot_style
from .result import Result, values

ROW = 0.62  # inches


def figure(result: Result) -> Any:
    """A row for each rule in each case."""
    found = result["findings"]
    with plot_style():
        picture = new_figure(PAGE, 0.45 + ROW * len(found))
        rows = picture.subplots(len(found), 2, squeeze=False, width_ratios=(3, 2))
        for (left, right), finding in zip(rows, found, strict=True):
            draw_measures(left, result, finding)
            draw_effect(right, finding)
        rows[0][1].set_title("effect, 95% interval; line: the smallest that counts", fontsize=7, loc="right")
    return picture


def draw_measures(axes: Any, result: Result, finding: dict[str, Any]) -> None:
    """A dot for each seed, of the two quantities that a rule compares."""
    quantities = finding["rule"]["lower"], finding["rule"]["higher"]
    for y, (quantity, colour) in enumerate(zip(quantities, (BLUE, ORANGE), strict=True)):
        measured = list(values(result, finding["case"], quantity).values())
        axes.plot(measured, [1 - y] * len(measured), "o", color=colour, alpha=0.5, ms=4, mew=0, clip_on=False)
    axes.set_yticks([1, 0], quantities)
    axes.set_ylim(-0.6, 1.6)
    if finding["rule"]["ratio"]:
        axes.set_xscale("log")
    axes.set_title(
        ", ".join(filter(None, (finding["case"], finding["rule"]["part"]))), fontsize=7, loc="left"
    )


def draw_effect(axes: Any, finding: dict[str, Any]) -> None:
    """The interval, and a line at the smallest effect that counts."""
    mean, low, high = (finding[key] for key in ("mean", "low", "high"))
    if finding["rule"]["ratio"]:
        axes.set_xscale("log")
    threshold = finding["rule"]["by"]
    axes.axvline(threshold, color=GREY, lw=0.8, ls="--")
    if None not in (mean, low, high) and all(map(math.isfinite, (mean, low, high))):
        axes.plot([low, high], [0, 0], color="black", lw=1.5)
        axes.plot([mean], [0], "D", color="black", ms=4)
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(finding["verdict"], fontsize=7)
