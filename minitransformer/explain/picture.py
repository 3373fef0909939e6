"""The static picture of a walk-through, an SVG that is shown first, and if scripts do not run.

It shows the input, what the last layer attends to in it (the mean of its heads), and the output with its
probabilities. The numbers are computed by minigrad.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.palette import POSITIVE

from ..files import printable
from ..generation import generate
from .record import Record, record
from .tokenizers import shown_tokens

ABOUT = "attention weights: the last layer, mean of its heads"
CROSSED = "cross-attention weights: the last layer, mean of its heads"
PULL = "the length of its loss's gradient at each token, as a share"
MOST = 12  # maximum number of tokens drawn on a side
CONTINUED = 8  # how many tokens a language model generates
TOP = 5  # how many classes, or words for a gap, are shown
CELL = 54
NARROW = 46
MARGIN = 130
BAR = 190
LABEL = 130
FINEST = 32  # maximum number of squares in a row of an image


def static_picture(
    model: Any, tokenizer: Any, source: Sequence[Any], labels: Sequence[str] = (), marks: Sequence[str] = (),
    generation: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    """The picture of a model on token ids, or of a ViT on the pixels (C, H, W) of an image.

    `labels` are the names of the classes, `marks` the tokens of gaps. `generation` has options of `generate`.
    """
    if tokenizer is None:
        return _image(model, source, labels)
    shown = shown_tokens(tokenizer) or tokenizer.id_to_token
    words = [*labels] or [shown[i] for i in range(tokenizer.vocab_size)]
    tokens = lambda ids: [shown[i] for i in ids]
    if getattr(model.config, "head", None) is not None:
        return _encoder(model, tokens(source), source, words, marks)
    options = {**(generation or {}), "forced_eos_token_id": None}  # the text may go on after the picture
    if model.is_encoder_decoder:
        (answer,) = generate(model, [source], MOST, **options)
        written = [*answer, tokenizer.end_id][:MOST]
        found = record(model, source, [model.decoder_start_token_id, *written[:-1]])
        shares = found.arrays["probabilities"][np.arange(len(written)), written]
        return draw(_weights(found), shares, tokens(source), tokens(written))
    written = generate(model, [source], CONTINUED, **options)[0] or [tokenizer.end_id]
    read = [*source, *written[:-1]][-(model.max_length or 0) :]
    found = record(model, read)
    first = len(read) - len(written)  # row t predicts token t + 1
    shares = found.arrays["probabilities"][np.arange(first, len(read)), written]
    last = slice(max(0, len(read) - MOST), None)
    if hasattr(model, "rnn"):
        weights = _pull(found, [*read[1:], written[-1]], first)
        heads = ("What each new token depends on in the text before it", "Its probability")
        about = PULL
    else:
        weights = _weights(found)[first:]
        heads = ("What each new token attends to in the text before it", "Its probability")
        about = ABOUT
    return draw(
        weights[:, last], shares, tokens(read[last]), tokens(written), heads=heads, about=about,
        title=f"{''.join(tokens(source))} is continued with {''.join(tokens(written))}",
    )  # fmt: skip


def _encoder(
    model: Any, tokens: list[str], source: Sequence[int], words: Sequence[str], marks: Sequence[str]
) -> str:
    """The picture of an encoder: candidates for a gap, the classes of tokens, or the class of the text."""
    found = record(model, source)
    shares = found.arrays["probabilities"]
    gaps = [t for t, token in enumerate(tokens) if token in marks]
    if model.config.head == "similarity":
        rows = [*range(len(tokens))][:MOST]
        heads = ("What each token attends to", "The nearest sentences")
    elif len(shares) == 1:
        rows = [0]
        heads = ("What [CLS], which is classified, attends to", "What the model predicts")
    elif model.config.head == "masked_lm" and gaps:
        rows = gaps[:1]
        heads = ("What the gap attends to", "What the model predicts")
    else:
        rows = [*range(len(tokens))][:MOST]
        heads = ("What each token attends to", "What the model predicts")
    if len(rows) == 1 or len(shares) == 1:
        bars = _best(shares[rows[0] if len(shares) > 1 else 0], words)
    else:
        bars = [(words[shares[t].argmax()], float(shares[t].max())) for t in rows]
    weights = _weights(found)[rows, :MOST]
    title = f"{' '.join(tokens)}: {bars[0][0]}"
    return _heat_map_and_bars(weights, tokens[:MOST], [tokens[t] for t in rows], bars, heads, title)


def _best(shares: np.ndarray, words: Sequence[str]) -> list[tuple[str, float]]:
    """The most likely classes, with their probabilities."""
    return [(words[i], float(shares[i])) for i in np.argsort(-shares, kind="stable")[:TOP]]


def _weights(found: Record) -> np.ndarray:
    """The mean attention weights (T, S) of the last layer, of its cross-attention if it has one."""
    names = [name for name in found.tensors if name.endswith("attention.weights")]
    crossed = [name for name in names if name.endswith("cross_attention.weights")]
    return found.arrays[(crossed or names)[-1]].mean(0)


def _pull(found: Record, labels: Sequence[int], first: int) -> np.ndarray:
    """The norm of each loss's gradient at each input, with rows that sum to 1.

    Row i is for the loss at position `first` + i.
    """
    gradients = [found.backward(labels, [t]).activations["layers.input"] for t in range(first, len(labels))]
    sizes = np.linalg.norm(np.stack(gradients), axis=-1)
    return sizes / np.maximum(sizes.sum(1, keepdims=True), np.finfo(sizes.dtype).tiny)


def draw(
    weights: np.ndarray, shares: np.ndarray, source: Sequence[str], written: Sequence[str],
    heads: tuple[str, str] = ("What each new token attends to in the input", "Its probability"),
    title: str = "", about: str = CROSSED,
) -> str:  # fmt: skip
    """Draw attention weights (T, S), beside the probability of each word that is generated."""
    bars = [("", float(share)) for share in shares[:MOST]]
    title = title or f"{' '.join(source)} becomes {' '.join(written)}"
    return _heat_map_and_bars(weights[:MOST, :MOST], source[:MOST], written[:MOST], bars, heads, title, about)


def _heat_map_and_bars(
    weights: np.ndarray, columns: Sequence[str], rows: Sequence[str], bars: Sequence[tuple[str, float]],
    heads: tuple[str, str], title: str, about: str = ABOUT,
) -> str:  # fmt: skip
    """Draw a heat map with words at its sides, and bars beside it, with labels or in line with the rows."""
    cell = CELL if len(columns) <= 8 else NARROW
    right = max(MARGIN + len(columns) * cell, MARGIN + 9 * len(heads[0]), MARGIN + 7 * len(about)) + 30
    parts = [
        _text(MARGIN, 22, heads[0], "start"),
        _text(MARGIN, 42, about, "start", 13),
        _text(right, 22, heads[1], "start"),
        *(_word(MARGIN + (u + 0.5) * cell, 66, word, most=cell // 9) for u, word in enumerate(columns)),
    ]
    for t, word in enumerate(rows):
        y = 80 + t * CELL
        parts.append(_word(MARGIN - 12, y + CELL / 2 + 5, word, "end"))
        for u, weight in enumerate(weights[t]):
            parts.append(_square(MARGIN + u * cell, y, cell - 3, CELL - 3, float(weight)))
            if weight > 0:  # the weight of later tokens is 0
                parts.append(_text(MARGIN + u * cell + cell / 2 - 1.5, y + CELL / 2 + 4, f"{weight:.2f}"))
    parts.append(_bars(bars, right))
    height = 100 + max(len(rows), len(bars)) * CELL
    return _svg(parts, right + BAR + 90 + LABEL * any(label for label, _ in bars), height, title)


def _bars(bars: Sequence[tuple[str, float]], x: float) -> str:
    """Draw a bar and a number for each probability, CELL apart."""
    parts = []
    labels = LABEL * any(label for label, _ in bars)
    for t, (label, share) in enumerate(bars):
        y = 80 + t * CELL
        if label:
            parts.append(_word(x + labels - 12, y + CELL / 2 + 4, label, "end"))
        parts.append(
            f'<rect x="{x + labels}" y="{y + 14}" width="{max(1.0, BAR * share):.0f}" height="24" rx="4" '
            f'fill="{POSITIVE}"/>'
        )
        parts.append(_text(x + labels + BAR + 12, y + CELL / 2 + 4, f"{100 * share:.1f} %", "start"))
    return "".join(parts)


def _image(model: Any, pixels: Sequence[float], labels: Sequence[str]) -> str:
    """The picture of a ViT: the image, what [CLS] attends to in it, and the most likely classes."""
    found = record(model, pixels)
    config = model.config
    side = config.image_size // config.patch_size
    image = np.asarray(pixels, float).reshape(config.num_channels, config.image_size, config.image_size)
    grid = _weights(found)[0, 1:].reshape(side, side)
    drawn = CELL * TOP
    middle = 50 + drawn
    right = 80 + 2 * drawn
    unit = drawn / side
    bars = _best(found.arrays["probabilities"][0], [*labels] or [*map(str, range(config.num_labels))])
    parts = [
        _text(20, 22, "The image", "start"),
        *_pixels(image, 20, 80, drawn),
        _text(middle, 22, "What [CLS] attends to in it", "start"),
        _text(middle, 42, "the last layer, mean of its heads", "start", 13),
        _text(right, 22, "What the model predicts", "start"),
        _bars(bars, right),
    ]
    for (y, x), weight in np.ndenumerate(grid):
        at = middle + x * unit, 80 + y * unit
        parts.append(_square(*at, unit - 1, unit - 1, float(weight / grid.max())))
        if side <= 6:
            parts.append(_text(at[0] + unit / 2, at[1] + unit / 2 + 5, f"{weight:.2f}"))
    return _svg(parts, right + LABEL + BAR + 90, 100 + drawn, f"an image of {bars[0][0]}")


def _pixels(image: np.ndarray, left: float, top: float, size: float) -> list[str]:
    """Draw an image (C, H, W) as squares, at most FINEST in a row; of a larger image, every n-th pixel."""
    step = math.ceil(image.shape[-1] / FINEST)
    pooled = image[:, ::step, ::step]
    low = pooled.min()
    high = pooled.max()
    values = np.rint(255 * (pooled - low) / (high - low or 1)).astype(int)
    unit = size / values.shape[-1]
    return [
        f'<rect x="{left + x * unit:.1f}" y="{top + y * unit:.1f}" width="{unit + 0.3:.1f}" '
        f'height="{unit + 0.3:.1f}" fill="rgb({",".join(str(c) for c in np.resize(values[:, y, x], 3))})"/>'
        for y, x in np.ndindex(values.shape[1:])
    ]


def _square(x: float, y: float, width: float, height: float, weight: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5" fill="{POSITIVE}" '
        f'fill-opacity="{0.06 + 0.6 * weight:.2f}"/>'
    )


def _svg(parts: Sequence[str], width: float, height: float, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" font-family="system-ui, sans-serif" font-size="16" '
        f'fill="currentColor"><title>{html.escape(printable(title))}</title>{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "middle", size: int | None = None) -> str:
    small = "" if size is None else f' font-size="{size}"'
    text = html.escape(printable(text))
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{small}>{text}</text>'


def _word(x: float, y: float, word: object, anchor: str = "middle", most: int = 12) -> str:
    """Draw a token, with its spaces and line ends visible."""
    shown = re.sub("^ | $", "␣", str(word).replace("\n", "↵")) or "∅"
    return _text(x, y, shown if len(shown) <= most else f"{shown[: most - 1]}…", anchor)
