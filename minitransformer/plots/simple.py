"""Bars, heat maps and curves of any numbers, with a titled panel for each entry of a dict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import BLUE, COLOURS, MARKERS, PAGE, as_array, colour_map, labels_of, new_figure, plot_style, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def bars(
    panels: Mapping[str, Mapping[Any, float]],
    title: str = "",
    xlabel: str = "",
    xlim: tuple[float, float] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw a horizontal bar for each label of each panel, with its number."""
    with plot_style(*map(list, panels.values())):
        most = max(map(len, panels.values()))
        figure = new_figure(PAGE, 0.24 * most + 0.7, title)
        for panel, (name, values) in zip(_panels(figure, panels), panels.items(), strict=True):
            drawn = panel.barh(range(len(values)), [*values.values()], color=BLUE)
            panel.bar_label(drawn, fmt="%.3g", padding=2)
            panel.set_yticks(range(len(values)), labels_of([str(label) for label in values]))
            panel.invert_yaxis()
            panel.axvline(0, color="black", linewidth=0.6)
            panel.margins(x=0.2)
            panel.set(title=name, xlabel=xlabel, xlim=xlim)
        return save(figure, path)


def heat_map(
    panels: Mapping[str, Any],
    rows: Sequence[Any] = (),
    columns: Sequence[Any] = (),
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    path: str | Path | None = None,
) -> Figure:
    """Draw a matrix in each panel, orange above 0 and blue below, with its numbers if they fit.

    `rows` and `columns` are labels that all panels share.
    """
    matrices = {name: as_array(matrix) for name, matrix in panels.items()}
    with plot_style(rows, columns):
        height, width = np.max([matrix.shape for matrix in matrices.values()], axis=0)
        cell = min(PAGE / len(matrices) / width, 0.5)
        figure = new_figure(PAGE, min(max(cell * height, 1.2), 5) + 0.8, title)
        limit = max(float(np.nanmax(abs(matrix))) for matrix in matrices.values()) or 1.0
        for panel, (name, matrix) in zip(_panels(figure, matrices), matrices.items(), strict=True):
            panel.imshow(matrix, cmap=colour_map("signed"), vmin=-limit, vmax=limit, aspect="auto")
            if cell > 0.25:
                for (row, column), number in np.ndenumerate(matrix):
                    dark = abs(number) > 0.6 * limit
                    panel.text(
                        column, row, f"{number:.2f}", ha="center", va="center", fontsize=7,
                        color="white" if dark else "black",
                    )  # fmt: skip
            if len(rows):
                panel.set_yticks(range(len(rows)), labels_of([*map(str, rows)]))
            if len(columns):
                panel.set_xticks(range(len(columns)), labels_of([*map(str, columns)]), rotation=45)
            panel.set(title=name, xlabel=xlabel, ylabel=ylabel)
        return save(figure, path)


def curves(
    panels: Mapping[str, Mapping[str, Any]],
    x: Sequence[float] | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    xscale: str = "linear",
    yscale: str = "linear",
    path: str | Path | None = None,
) -> Figure:
    """Draw the named lines of each panel: their numbers over `x`, by default 0, 1, 2, ..."""
    with plot_style():
        figure = new_figure(PAGE, 2.6, title)
        for panel, (name, lines) in zip(_panels(figure, panels), panels.items(), strict=True):
            for i, (label, numbers) in enumerate(lines.items()):
                y = as_array(numbers)
                marker = MARKERS[i % len(MARKERS)] if len(y) <= 40 else ""
                places = range(len(y)) if x is None else x
                colour = COLOURS[i % len(COLOURS)]
                panel.plot(places, y, label=label, marker=marker, markersize=3, color=colour)
            panel.set(title=name, xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale)
            panel.grid()
            if len(lines) > 1:
                panel.legend()
        return save(figure, path)


def _panels(figure: Figure, panels: Mapping[str, Any]) -> Any:
    return figure.subplots(1, len(panels), squeeze=False)[0]
