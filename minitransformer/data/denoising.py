"""Denoising: T5's span corruption (Raffel et al. 2020, 3.1.4), BART's infilling (Lewis et al. 2019, 2.2).

Both remove spans from a text. T5 replaces each with a sentinel, and the target is the spans; BART replaces
each with one mask, and the target is the whole text.

    Thank you <extra_id_0> me to your party <extra_id_1> week
        -> <extra_id_0> for inviting <extra_id_1> last <extra_id_2>
    Thank you <MASK> me to your party <MASK> week
        -> Thank you for inviting me to your party last week
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

DENOISING = 8  # random stream

Span = tuple[int, int]  # start, end


def corrupted_spans(
    length: int, random: np.random.Generator, rate: float = 0.15, mean_span: float = 3.0
) -> list[Span]:
    """T5's spans: a fraction `rate` of the tokens, in spans of `mean_span` on average, none next to another.

    The length determines the number of tokens and spans; the lengths of the spans, and of the gaps between
    them, are random.
    """
    if length < 2:
        return []
    noise = min(max(round(length * rate), 1), length - 1)
    count = min(max(round(noise / mean_span), 1), noise, length - noise + 1)
    spans = _partition(noise, count, random)
    between = _partition(length - noise + 2, count + 1, random)
    between[0] -= 1  # a span may be at the start, or at the end
    starts = np.cumsum(between[:-1]) + np.cumsum([0, *spans[:-1]])
    return [(int(start), int(start) + size) for start, size in zip(starts, spans, strict=True)]


def _partition(total: int, parts: int, random: np.random.Generator) -> list[int]:
    """A random way to write `total` as a sum of `parts` numbers >= 1."""
    cuts = np.sort(random.permutation(total - 1)[: parts - 1]) + 1
    return np.diff([0, *cuts, total]).tolist()


def infilled_spans(
    length: int, random: np.random.Generator, rate: float = 0.3, mean_span: float = 3.0
) -> list[Span]:
    """BART's spans: lengths from a Poisson distribution, until they contain a fraction `rate` of the tokens.

    A span of length 0 is a place where a mask is inserted. There is at least one token between two spans.
    """
    budget = round(length * rate)
    lengths: list[int] = []
    while budget > 0:
        lengths.append(min(int(random.poisson(mean_span)), budget))
        budget -= max(lengths[-1], 1)  # an inserted mask counts as a token, so that this ends
    free = length - sum(lengths) - max(len(lengths) - 1, 0)  # tokens beyond one between two spans
    if not lengths or free < 0:
        return []
    gaps = np.sort(random.integers(0, free + 1, len(lengths)))
    spans = []
    taken = 0
    for i, (gap, size) in enumerate(zip(gaps.tolist(), lengths, strict=True)):
        start = gap + taken + i
        spans.append((start, start + size))
        taken += size
    return spans


def span_corruption(
    ids: Sequence[int], spans: Sequence[Span], sentinels: Sequence[int]
) -> tuple[list[int], list[int]]:
    """(source, target): sentinel i stands for span i in the source and before it in the target.

    A final sentinel ends the target, so one more sentinel than spans is needed.
    """
    source: list[int] = []
    target: list[int] = []
    end = 0
    for sentinel, (start, stop) in zip(sentinels, spans, strict=False):
        source += [*ids[end:start], sentinel]
        target += [sentinel, *ids[start:stop]]
        end = stop
    return [*source, *ids[end:]], [*target, sentinels[len(spans)]]


def text_infilling(ids: Sequence[int], spans: Sequence[Span], mask_id: int) -> tuple[list[int], list[int]]:
    """(source, target): one mask for each span in the source; the target is the text itself."""
    source: list[int] = []
    end = 0
    for start, stop in spans:
        source += [*ids[end:start], mask_id]
        end = stop
    return [*source, *ids[end:]], list(ids)


def fill_spans(source: Sequence[int], target: Sequence[int], sentinels: Container[int]) -> list[int]:
    """Fill the gaps of a source with the spans of a target, which a model may have generated."""
    spans: dict[int, list[int]] = {}
    current: list[int] = []
    for i in target:
        if i in sentinels:
            current = spans.setdefault(i, [])
        else:
            current.append(i)
    return [token for i in source for token in (spans.get(i, []) if i in sentinels else [i])]
