"""The walk-through's first picture, an SVG: seen at once, and where scripts do not run.

Words in, what the model attends to, words out with their probabilities.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.nn import functional as F

from ..files import printable
from ..generation import generate
from ..generation.attentions import attentions_of

MOST = 12  # words of a side that are drawn
CELL, MARGIN, BAR = 54, 110, 190


def static_picture(run: Any, text: str) -> str:
    """The picture of a run on a text; of an image, none."""
    if run.tokenizer is None:
        return ""
    model, tokenizer = run.model, run.tokenizer
    if not model.is_encoder_decoder:
        return ""
    source = run.task.source_ids(run, text)
    source = source if source[-1] == tokenizer.end_id else [*source, tokenizer.end_id]
    answer = generate(model, [source], MOST)[0]
    written = [*answer, tokenizer.end_id]
    maps = attentions_of(model, source, [], answer)
    name = [name for name in maps if name.endswith("cross_attention")][-1]
    logits = model([source], [[model.decoder_start_token_id, *answer]])
    shares = F.softmax(logits, -1).numpy()[0][np.arange(len(written)), written]
    words = lambda ids: [tokenizer.id_to_token[i] for i in ids]
    return draw(maps[name].mean(0), shares, words(source), words(written))


def draw(weights: np.ndarray, shares: np.ndarray, source: Sequence[str], written: Sequence[str]) -> str:
    """Attention weights (T, S), beside the probability of each word that is written."""
    weights = weights[:MOST, :MOST]
    rows, columns = weights.shape
    right = MARGIN + columns * CELL + 30
    width, height = right + BAR + 90, 100 + rows * CELL
    parts = [
        _text(MARGIN, 26, "The sentence, and what each new word attends to", "start"),
        _text(right, 26, "How sure the model is", "start"),
        *(_text(MARGIN + (u + 0.5) * CELL, 66, word) for u, word in enumerate(source[:MOST])),
    ]
    for t in range(rows):
        y = 80 + t * CELL
        parts.append(_text(MARGIN - 12, y + CELL / 2 + 5, written[t], "end"))
        for u in range(columns):
            w = float(weights[t, u])
            x = MARGIN + u * CELL
            parts.append(
                f'<rect x="{x}" y="{y}" width="{CELL - 3}" height="{CELL - 3}" rx="5" fill="#d9822b" '
                f'fill-opacity="{0.06 + 0.6 * w:.2f}"/>'
            )
            parts.append(_text(x + CELL / 2 - 1.5, y + CELL / 2 + 4, f"{w:.2f}"))
        share = float(shares[t])
        parts.append(
            f'<rect x="{right}" y="{y + 14}" width="{max(1.0, BAR * share):.0f}" height="24" rx="4" '
            f'fill="#d9822b"/>'
        )
        parts.append(_text(right + BAR + 12, y + CELL / 2 + 4, f"{100 * share:.1f} %", "start"))
    title = html.escape(printable(f"{' '.join(source)} becomes {' '.join(written)}"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" font-family="system-ui, sans-serif" font-size="16" '
        f'fill="currentColor"><title>{title}</title>{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    shown = printable(text) if len(text) <= 12 else printable(text[:11]) + "…"
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{html.escape(shown)}</text>'
