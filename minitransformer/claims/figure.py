"""The figure of a result: the measures of each seed, and the effect beside the smallest one that counts."""

from __future__ import annotations

import textwrap
from typing import Any

from ..plots.style import BLUE, GREY, LINE, ORANGE, PAGE, PALE, new_figure, plot_style
from .result import Result, values

ROW = 0.85  # inches: the height of a row whose label has one line
LABEL_SIZE = 6.5  # points
LABEL_WIDTH = 84  # how many characters fit to the left of the effect's label


def figure(result: Result) -> Any:
    """Draw a figure with a row for each rule in each case."""
    found = result["findings"]
    labels = [label(result, finding["rule"]) for finding in found]
    more_lines = sum(text.count("\n") for text in labels)
    with plot_style():
        picture = new_figure(PAGE, 0.2 + ROW * len(found) + LINE * more_lines)
        rows = picture.subplots(len(found), 2, squeeze=False, width_ratios=(3, 2))
        for (left, right), finding, text in zip(rows, found, labels, strict=True):
            draw_measures(left, result, finding)
            left.set_xlabel(text, fontsize=LABEL_SIZE)
            draw_effect(right, finding)
    return picture


def label(result: Result, rule: dict[str, Any]) -> str:
    """Return what the two quantities of a rule measure; if they differ, with the name of each measure.

    Measures are in the claim's order, since the description of one may refer to the previous one.
    """
    names = {rule[side].rpartition(": ")[2] for side in ("lower", "higher")}
    texts = [
        text if len(names) == 1 else f"{name}: {text}"
        for name, text in result["measures"].items()
        if name in names
    ]
    return "\n".join(line for text in texts for line in textwrap.wrap(text, LABEL_WIDTH))


def draw_measures(axes: Any, result: Result, finding: dict[str, Any]) -> None:
    """Plot each seed's values of the two compared quantities."""
    quantities = finding["rule"]["lower"], finding["rule"]["higher"]
    for y, (quantity, colour) in enumerate(zip(quantities, (BLUE, ORANGE), strict=True)):
        measured = list(values(result, finding["case"], quantity).values())
        axes.plot(measured, [1 - y] * len(measured), "o", color=colour, alpha=0.5, ms=4, mew=0)
    axes.set_yticks([1, 0], quantities)
    axes.set_ylim(-0.6, 1.6)
    if finding["rule"]["ratio"]:
        log_scale(axes)
    axes.set_title(", ".join(filter(None, (finding["case"], finding["rule"]["part"]))), loc="left")


def draw_effect(axes: Any, finding: dict[str, Any]) -> None:
    """Plot the interval of the effect, a line at no effect, and the area in which an effect counts."""
    if finding["rule"]["ratio"]:
        log_scale(axes)
    mean, low, high = (finding[key] for key in ("mean", "low", "high"))
    nothing, threshold = (1 if finding["rule"]["ratio"] else 0), finding["rule"]["by"]
    if None not in (mean, low, high):
        axes.plot([low, high], [0, 0], color="black", lw=1.5)
        axes.plot([mean], [0], "D", color="black", ms=4)
    axes.plot([nothing, threshold], [0, 0], alpha=0)  # so that the axes include both
    axes.axvline(nothing, color=GREY, lw=0.8)
    end = axes.get_xlim()[1]
    axes.axvspan(threshold, end, color=PALE, alpha=0.4, lw=0)
    axes.set_xlim(right=end)
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_title(finding["verdict"], loc="left")
    axes.set_xlabel("ratio" if finding["rule"]["ratio"] else "difference", fontsize=LABEL_SIZE)


def log_scale(axes: Any) -> None:
    """Make the x axis logarithmic, with plain numbers at the ticks."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
