"""A plot of the scores of heads, by layer and head."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..module_names import readable_name, split_names
from .style import (
    LEAST_CELL,
    PAGE,
    PALE,
    colour_map,
    label_ticks,
    labels_of,
    length,
    new_figure,
    plot_style,
    save,
    two_digits,
    write_numbers,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..inspection.heads import HeadScores


def head_scores(scores: HeadScores, path: str | Path | None = None) -> Figure:
    """Draw the result of `score_heads`: a table of layers and heads for each relation, dark for large scores.

    Each title has the score by chance, or its range if layers have different masks.
    """
    padded = lambda name: re.sub(r"\d+", lambda digits: digits[0].zfill(9), name)
    layers = sorted({module for module, _ in scores.heads}, key=padded)
    module, names = split_names(list(layers))
    names = names if len(layers) > 1 else [readable_name(layers[0].removesuffix(".self_attention"))]
    heads = 1 + max(head for _, head in scores.heads)
    columns = min(len(scores.relations), 4)
    rows = math.ceil(len(scores.relations) / columns)
    with plot_style(names):
        down = labels_of(names)
        cell = min(0.25, ((PAGE - length(down) - 0.3) / columns - 0.15) / heads)
        size = columns * max(cell * heads + 0.15, 0.95) + length(down) + 0.3, rows * (0.2 * len(layers) + 0.6)
        figure = new_figure(*size, "What each head looks for: the part of its attention on it")
        panels = figure.subplots(rows, columns, squeeze=False)
        for i, panel in enumerate(panels.flat):
            if i >= len(scores.relations):
                panel.set_visible(False)
                continue
            table = np.full((len(layers), heads), np.nan)
            for (module, head), score in zip(scores.heads, scores.of(scores.relations[i]), strict=True):
                table[layers.index(module), head] = score
            image = panel.imshow(table, cmap=colour_map("weights"), vmin=0, vmax=1, aspect="auto")
            write_numbers(panel, table, cell)
            title = f"{labels_of(scores.relations)[i]}\n{_chance(scores.chance[:, i])}"
            panel.set_title(title, fontsize=7, parse_math=False)
            panel.spines[:].set(visible=True, color=PALE)
            label_ticks(panel.xaxis, [str(head + 1) for head in range(heads)], cell * heads)
            label_ticks(panel.yaxis, down if i % columns == 0 else [], 0.2 * len(layers))
        if cell <= LEAST_CELL:
            bar = figure.colorbar(image, ax=panels, shrink=min(1, 2.5 / size[1]), pad=0.02, label="score")
            bar.outline.set_visible(False)
        figure.supxlabel("head", fontsize=8)
        is_short = length([module]) * 1.3 < size[1]
        figure.supylabel(module if module and is_short else "layer", fontsize=8, parse_math=False)
        return save(figure, path)


def _chance(scores: np.ndarray) -> str:
    """Format the score by chance of the layers, as a range if they differ."""
    found = sorted({two_digits(score) for score in scores if not np.isnan(score)})
    return f"{'-'.join([found[0], *found[1:][-1:]])} by chance" if found else "no such keys"
