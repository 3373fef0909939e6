"""A plot of the most probable tokens at each step of a generation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError, counted
from .style import BLUE, COLUMN, ORANGE, PAGE, as_array, label_ticks, labels_of, new_figure, plot_style, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def next_token_probabilities(
    probabilities: Any,
    vocabulary: Sequence[str] | Mapping[int, str],
    chosen: Sequence[int] | None = None,
    top: int = 5,
    path: str | Path | None = None,
) -> Figure:
    """Draw bars for each step of a generation: the most probable tokens, and which of them was chosen.

    `probabilities` is (steps, V) or (V,), such as the output of `generate(..., return_dict=True,
    output_probabilities=True)`. `vocabulary` has the text of each id, such as `tokenizer.id_to_token`.
    `chosen` has the id chosen at each step, and may omit a final end token.
    """
    steps = np.atleast_2d(as_array(probabilities))
    if steps.ndim != 2 or not steps.size:
        raise UserError(f"probabilities of shape {steps.shape}.\nPass (steps, vocabulary).")
    if not (steps.min() >= 0 and steps.max() <= 1 + 1e-3):
        raise UserError(
            f"probabilities must be between 0 and 1, got {steps.min():.3g} to {steps.max():.3g}.\n"
            f"Pass, for example, softmax(logits)."
        )
    picks: list[int | None] = [None] * len(steps) if chosen is None else [int(i) for i in chosen]
    if len(picks) == len(steps) - 1:
        picks.append(None)  # the end token, which `generate` does not return
    if len(picks) != len(steps):
        raise UserError(
            f"{counted(len(picks), 'chosen token')} for {counted(len(steps), 'step')}.\nPass one for each."
        )
    best = [_most_probable(step, top, pick) for step, pick in zip(steps, picks, strict=True)]
    names = {i: vocabulary[i] for ids in best for i in ids}
    with plot_style([*names.values()]):
        columns = min(len(steps), 4)
        rows = -(-len(steps) // columns)
        title = "The most probable next tokens" + (
            "" if chosen is None else "; bold and orange: the chosen one"
        )
        figure = new_figure(
            COLUMN if columns < 3 else PAGE, rows * (0.15 * len(best[0]) + 0.25) + 0.25, title
        )
        panels = [*figure.subplots(rows, columns, squeeze=False, sharex=True).flat]
        for panel in panels[len(steps) :]:
            panel.set_visible(False)
        for i, (panel, step, pick, ids) in enumerate(zip(panels, steps, picks, best, strict=False)):
            colours = [ORANGE if each == pick else BLUE for each in ids]
            panel.barh(range(len(ids)), step[ids], color=colours, height=0.75)
            for y, each in enumerate(ids):
                style = {"va": "center", "fontsize": 6, "weight": "bold" if each == pick else "normal"}
                panel.text(step[each] + 0.02, y, _percent(step[each]), **style)
            label_ticks(panel.yaxis, labels_of([names[each] for each in ids]), math.inf)
            panel.invert_yaxis()
            panel.set(xlim=(0, 1.22), xticks=(0, 0.5, 1))
            panel.set_title(f"step {i + 1}", fontsize=7, pad=2)
        figure.supxlabel("probability of the next token", fontsize=8)
        return save(figure, path)


def _most_probable(step: np.ndarray, top: int, chosen: int | None) -> list[int]:
    """The ids of the `top` most probable tokens; the chosen one replaces the last if it is not among them."""
    ids = np.argsort(-step, kind="stable")[:top].tolist()
    return ids if chosen is None or chosen in ids else [*ids[:-1], chosen]


def _percent(probability: float) -> str:
    return f"{100 * probability:.0f}%" if probability >= 0.01 else f"{100 * probability:.1g}%"
