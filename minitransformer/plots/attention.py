"""Plots of attention: heat maps of all heads, arrows between words, and the alignment of two texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError, counted
from ..module_names import split_names
from .style import (
    COLOURS,
    COLUMN,
    LINE,
    PAGE,
    PALE,
    as_array,
    colour_map,
    label_ticks,
    labels_of,
    length,
    new_figure,
    plot_style,
    save,
    write_numbers,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def attention_heads(
    weights: Any,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    row: int = 0,
    path: str | Path | None = None,
) -> Figure:
    """Draw a heat map for each head: a row for each query, a column for each key, dark for large weights.

    `weights` is (H, T, S), or (B, H, T, S), of which batch row `row` is drawn; or a list of such arrays, one
    for each call of a generation. It may also be a dict of these by name, as `record_attention` returns; then
    each name gets a row of heads. If `keys` is not given, the queries are also the keys.
    """
    keys = queries if keys is None else keys
    layers = weights if isinstance(weights, Mapping) else {"": weights}
    module, names = split_names(list(layers))
    layers = {
        name: _heads(each, queries, keys, row) for name, each in zip(names, layers.values(), strict=True)
    }
    if not layers:
        raise UserError("there are no attention weights to draw.\nRun the model within record_attention.")
    most = max(map(len, layers.values()))
    columns = most if len(layers) > 1 else min(most, 4)
    grid = [
        (name, i, heads[i : i + columns])
        for name, heads in layers.items()
        for i in range(0, len(heads), columns)
    ]
    with plot_style(queries, keys):
        across, down = labels_of(keys), labels_of(queries)
        margins = length(down) + 1.1, length(across) + 0.35
        width = min(LINE * len(keys) + 0.05, (PAGE - margins[0]) / columns - GAP)
        height = min(max(width * len(queries) / len(keys), 0.4), 2.0)
        size = columns * (width + GAP) + margins[0], len(grid) * (height + 0.2) + margins[1]
        where = f" ({module})" if module else ""
        figure = new_figure(*size, f"What each head attends to{where}: each row is a token that looks")
        panels = figure.subplots(len(grid), columns, squeeze=False)
        largest = max(float(heads.max()) for heads in layers.values())
        for i, (line, (name, first, heads)) in enumerate(zip(panels, grid, strict=True)):
            for column, panel in enumerate(line):
                if column >= len(heads):
                    panel.set_visible(False)
                    continue
                image = panel.imshow(
                    heads[column], cmap=colour_map("weights"), vmin=0, vmax=largest, aspect="auto"
                )
                panel.spines[:].set(visible=True, color=PALE)
                if len(layers) == 1 or i == 0:
                    panel.set_title(f"head {first + column + 1}", fontsize=7, pad=3)
                label_ticks(panel.xaxis, across if i == len(grid) - 1 else [], width, rotation=90)
                label_ticks(panel.yaxis, down if column == 0 else [], height)
            if name:
                line[0].set_ylabel(name, fontsize=6, parse_math=False)
        bar = figure.colorbar(
            image, ax=panels, shrink=min(1, 2.5 / size[1]), aspect=20, pad=0.02, label="weight"
        )
        bar.outline.set_visible(False)
        figure.supxlabel("key (attended to)", fontsize=8)
        figure.supylabel("query", fontsize=8)
        return save(figure, path)


def attention_arcs(
    weights: Any,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    row: int = 0,
    threshold: float = 0.1,
    path: str | Path | None = None,
) -> Figure:
    """Draw arrows from each word to the words it attends to, as thick as the weight, in one colour per head.

    `weights` is as in `attention_heads` but not a dict, or (T, S) for one head. Within a text, arrows above
    it point to earlier words, arrows below it to later ones, and a dot shows a word's weight on itself. With
    `keys`, arrows point down to another text. Weights below the `threshold` are not drawn.
    """
    from matplotlib.lines import Line2D

    heads = _heads(weights, queries, queries if keys is None else keys, row)
    heads = np.where(heads < threshold, 0, heads)
    with plot_style(queries, keys or ()):
        rows = [_WordRow(queries, "center" if keys is None else "bottom")]
        rows += [] if keys is None else [_WordRow(keys, "top")]
        width = max(COLUMN, *(words.width for words in rows))
        if keys is None:
            above, below = (0.9 if part(heads).any() else 0.08 for part in (_earlier, _later))
            rows[0].bottom = below
            height = below + rows[0].height + above
        else:
            rows[0].bottom = rows[1].height + 1.1
            height = rows[0].bottom + rows[0].height
        legend = 0.2 if len(heads) > 1 else 0.0
        figure = new_figure(
            width, height + legend, "From each token to those it attends to (thick: much)", "none"
        )
        panel = figure.add_axes(
            (0, 0, 1, (height + legend) / figure.get_figheight()), xlim=(0, width), ylim=(0, height + legend)
        )
        panel.axis("off")
        for words in rows:
            words.draw(panel, width)
        colours = [COLOURS[i % len(COLOURS)] for i in range(len(heads))]
        for i, (head, colour) in enumerate(zip(heads, colours, strict=True)):
            shift = 0.035 * (i - (len(heads) - 1) / 2) if len(heads) < 8 else 0.0
            for query, key in zip(*head.nonzero(), strict=True):
                _arrow(panel, rows[0], rows[-1], query, key, float(head[query, key]), colour, shift)
        if legend:
            lines = [Line2D([], [], color=colour, linewidth=2) for colour in colours]
            names = [f"head {i + 1}" for i in range(len(heads))]
            panel.legend(lines, names, loc="upper center", ncols=min(len(heads), 8), handlelength=1)
        return save(figure, path)


def _earlier(heads: np.ndarray) -> np.ndarray:
    return np.tril(heads, -1)


def _later(heads: np.ndarray) -> np.ndarray:
    return np.triu(heads, 1)


GAP = 0.06  # inches between panels


class _WordRow:
    """Words side by side, each as wide as its label. They are rotated if they are too many for a page."""

    def __init__(self, words: Sequence[str], side: str) -> None:
        """`side` is where labels are aligned: "bottom", "center" or "top"."""
        self.labels = labels_of(words)
        self.bottom = 0.0
        self.side = side
        widths = np.array([len(label) * 0.072 + 0.14 for label in self.labels])
        self.is_upright = widths.sum() > PAGE - 0.2
        if self.is_upright:
            widths = np.full(len(self.labels), min(0.14, (PAGE - 0.2) / len(self.labels)))
        self.at = np.cumsum(widths) - widths / 2
        self.width = widths.sum() + 0.2
        self.height = 1.2 * length(self.labels) + 0.1 if self.is_upright else 0.2

    def draw(self, panel: Any, width: float) -> None:
        self.at = self.at + (width - self.at[0] - self.at[-1]) / 2
        step = math.ceil(0.13 * len(self.at) / max(self.at[-1] - self.at[0], 0.13)) if self.is_upright else 1
        for x, label in list(zip(self.at, self.labels, strict=True))[::step]:
            style: dict[str, Any] = {"rotation": 90, "fontsize": 7} if self.is_upright else {}
            y = (
                self.bottom
                + {"bottom": 0.05, "center": self.height / 2, "top": self.height - 0.05}[self.side]
            )
            panel.text(x, y, label, ha="center", va=self.side, parse_math=False, **style)


def _arrow(
    panel: Any,
    above: _WordRow,
    below: _WordRow,
    query: int,
    key: int,
    weight: float,
    colour: str,
    shift: float,
) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    start = above.at[query] + shift
    end = below.at[key] + shift
    if above is not below:
        high = above.bottom
        low = below.bottom + below.height
        points = [(start, high), (start, (high + low) / 2), (end, (high + low) / 2), (end, low)]
    elif query == key:
        panel.plot(
            start,
            above.bottom + above.height,
            ".",
            color=colour,
            markersize=10 * weight**0.5,
            markeredgewidth=0,
        )
        return
    else:
        side = 1 if key < query else -1
        base = above.bottom + (above.height if side > 0 else 0)
        height = side * 1.1 * (abs(end - start) / (above.at[-1] - above.at[0])) ** 0.6
        points = [(start, base), (start, base + height), (end, base + height), (end, base)]
    curve = Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
    panel.add_patch(
        FancyArrowPatch(
            path=curve, arrowstyle="-|>", mutation_scale=5, color=colour, linewidth=0.3 + 2 * weight,
            alpha=0.35 + 0.6 * weight, shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip


def alignment(
    weights: Any,
    target: Sequence[str],
    source: Sequence[str],
    row: int = 0,
    path: str | Path | None = None,
) -> Figure:
    """Draw the source words that each target word attends to: the mean weight of the heads, with numbers.

    `weights` is (T, S) for T target and S source words, (H, T, S), or (B, H, T, S), of which batch row `row`
    is drawn. `record_attention` returns it for a decoder's cross-attention (Bahdanau et al. 2015, figure 3).
    """
    mean = _heads(weights, target, source, row).mean(0)
    with plot_style(target, source):
        across, down = labels_of(source), labels_of(target)
        margins = length(down) + 0.35, length(across) + 0.3
        upright = max(map(len, across)) > 6
        width = max(min((0.24 if upright else 0.46) * len(source), PAGE - margins[0]), 1.2)
        height = min(max(0.24 * len(target), 0.4), PAGE)
        title = "What each target token attends to, on average over heads"
        figure = new_figure(width + margins[0], height + (margins[1] if upright else 0.5), title)
        panel = figure.subplots()
        panel.imshow(mean, cmap=colour_map("weights"), vmin=0, vmax=1, aspect="auto")
        panel.xaxis.tick_top()
        panel.xaxis.set_label_position("top")
        label_ticks(panel.xaxis, across, width, rotation=90 if upright else 0)
        label_ticks(panel.yaxis, down, height)
        panel.spines[:].set_visible(False)
        cell = min(width / len(source), height / len(target))
        write_numbers(panel, np.where(mean < 0.1, np.nan, mean), cell)
        panel.set_xlabel("source (attended to)")
        panel.set_ylabel("target")
        return save(figure, path)


def _join_calls(calls: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate the weights of several calls, such as those of a generation with a cache, over queries.

    Earlier calls have weight 0 for the keys that only later calls have.
    """
    keys = max(call.shape[-1] for call in calls)
    if len({call.shape[:-2] for call in calls}) > 1:
        raise UserError(
            f"weights of {counted(len(calls), 'call')} with the shapes {[call.shape for call in calls]}.\n"
            f"Pass an element of the list, or calls with the same batch and heads."
        )
    widen = lambda call: [(0, 0)] * (call.ndim - 1) + [(0, keys - call.shape[-1])]
    return np.concatenate([np.pad(call, widen(call)) for call in calls], -2)


def _heads(
    weights: Any, queries: Sequence[str], keys: Sequence[str], row: int = 0
) -> np.ndarray[tuple[int, int, int], Any]:
    """Return the weights (H, T, S) of one text. Raise a UserError if they do not fit these tokens."""
    is_list = isinstance(weights, (list, tuple)) and weights and getattr(weights[0], "ndim", 0) >= 3
    array = _join_calls([as_array(call) for call in weights]) if is_list else as_array(weights)
    array = array[row] if array.ndim == 4 else array[None] if array.ndim == 2 else array
    expected = len(queries), len(keys)
    if array.ndim != 3 or array.shape[1:] != expected or not array.size:
        raise UserError(
            f"attention weights of shape {array.shape} for {counted(expected[0], 'query')} and "
            f"{counted(expected[1], 'key')}.\n".replace("querys", "queries")
            + f"Pass (heads, {expected[0]}, {expected[1]}), and a label for each query and each key."
        )
    return array
