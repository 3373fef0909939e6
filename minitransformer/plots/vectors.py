"""Plots of vectors: the sinusoidal positional encoding, and embeddings in two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError, counted
from ..layers.positions import positional_encoding as sinusoids
from ..projection import principal_components
from .style import (
    BLUE,
    COLOURS,
    COLUMN,
    MARKERS,
    ORANGE,
    PAGE,
    TOKEN_SIZE,
    as_array,
    colour_map,
    label,
    labels_of,
    new_figure,
    plot_style,
    save,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def positional_encoding(length: int = 64, d_model: int = 64, path: str | Path | None = None) -> Figure:
    """Draw the sinusoidal positional encoding (section 3.5): its table, some dimensions, all wavelengths."""
    table = sinusoids(length, d_model)
    with plot_style():
        figure = new_figure(PAGE, 2.2, f"Sinusoidal positions: {length} positions of width {d_model}")
        heat, waves, lengths = figure.subplots(1, 3, width_ratios=(1.25, 1, 1))
        image = heat.imshow(
            table, cmap=colour_map("signed"), vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
        )
        heat.set(xlabel="dimension", ylabel="position", title="the encoding")
        heat.spines[:].set_visible(True)
        figure.colorbar(image, ax=heat, ticks=(-1, 0, 1)).outline.set_visible(False)
        shown = sorted({min(2 * (d_model * part // 16), d_model - 1) for part in (0, 1, 2, 4)})
        finer = np.linspace(0, length - 1, 400)
        for dim, colour in zip(shown, COLOURS, strict=False):
            angle = finer / 10000 ** ((dim - dim % 2) / d_model)
            waves.plot(finer, np.cos(angle) if dim % 2 else np.sin(angle), color=colour, label=str(dim))
        waves.set(xlabel="position", title="dimensions as waves", ylim=(-1.1, 1.1))
        waves.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=4, handlelength=1, columnspacing=1
        )
        dims = np.arange(0, d_model, 2)
        lengths.semilogy(dims, 2 * np.pi * 10000 ** (dims / d_model), ".-", color=BLUE, markersize=4)
        lengths.axhline(length, color=ORANGE, linewidth=0.8, linestyle="--")
        lengths.annotate(
            f"{length} positions", (1, length), xytext=(0, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", color=ORANGE, fontsize=7,
        )  # fmt: skip
        lengths.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        lengths.set(xlabel="dimension", ylabel="positions", title="wavelengths")
        return save(figure, path)


def embeddings(
    vectors: Any,
    labels: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw vectors (N, D) on the plane of their first two principal components, computed by SVD.

    Points of the same group in `groups` have the same colour. A label is drawn unless it would cover another.
    """
    x = as_array(vectors)
    for name, each in (("labels", labels), ("groups", groups)):
        if each is not None and len(each) != len(x):
            raise UserError(f"{len(each)} {name} for {counted(len(x), 'vector')}.\nPass one for each.")
    if x.ndim != 2 or len(x) < 2:
        raise UserError(f"vectors of shape {x.shape}.\nPass (N, D), at least two.")
    points, shares = principal_components(x, 2)
    names = () if labels is None else labels
    group_of = [None] * len(x) if groups is None else [*groups]
    kinds = [*dict.fromkeys(group_of)]
    with plot_style(names, kinds):
        figure = new_figure(COLUMN, 0.85 * COLUMN, "The plane in which these vectors vary most")
        panel = figure.subplots()
        for i, kind in enumerate(kinds):
            x, y = points[[group == kind for group in group_of]].T
            colour = COLOURS[i % len(COLOURS)]
            marker = MARKERS[i % len(MARKERS)]
            panel.scatter(x, y, s=12, color=colour, marker=marker, linewidths=0, label=label(kind, 30))
        if groups is not None:
            for text in panel.legend(handletextpad=0.2).get_texts():
                text.set_parse_math(False)
        first, second = (f"{100 * share:.0f}% of the variance" for share in shares)
        panel.set(xlabel=f"first component ({first})", ylabel=f"second component ({second})")
        panel.set_xticks([])
        panel.set_yticks([])
        panel.margins(0.1)
        _label_points(figure, panel, points, labels_of(names))
        return save(figure, path)


def _label_points(figure: Figure, panel: Any, points: np.ndarray, labels: Sequence[str]) -> None:
    """Label the points whose labels do not cover an earlier label."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    FigureCanvasAgg(figure).draw()  # so that positions are computed
    boxes: list[Any] = []
    for (x, y), name in zip(points, labels, strict=False):
        text = panel.annotate(
            name, (x, y), xytext=(3, 2), textcoords="offset points", fontsize=TOKEN_SIZE, parse_math=False
        )
        box = text.get_window_extent()
        if Bbox.union([box, panel.bbox]).width > panel.bbox.width + 1:  # beyond the right edge
            text.set(ha="right", position=(-3, 2))
            box = text.get_window_extent()
        if any(box.overlaps(other) for other in boxes):
            text.remove()
        else:
            boxes.append(box)
