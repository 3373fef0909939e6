"""Denoising: T5's span corruption (Raffel et al. 2020, 3.1.4), BART's infilling (Lewis et al. 2019, 2.2).

Both remove spans from a text. T5 replaces each span with a sentinel, and its target is the spans. BART
replaces each span with one mask, and its target is the whole text.

    Thank you <extra_id_0> me to your party <extra_id_1> week
        -> <extra_id_0> for inviting <extra_id_1> last <extra_id_2>
    Thank you <MASK> me to your party <MASK> week
        -> Thank you for inviting me to your party last week
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

DENOISING = 8  # the number of the random stream

Span = tuple[int, int]  # start, end


def corrupted_spans(
    length: int, random: np.random.Generator, rate: float = 0.15, mean_span: float = 3.0
) -> list[Span]:
    """T5's spans: a fraction `rate` of the tokens, in spans of `mean_span` tokens on average.

    Spans do not touch. The length of the text determines the number of spans and of tokens in them; the
    lengths of the spans and of the gaps between them are random.
    """
    if length < 2:
        return []
    noise = min(max(round(length * rate), 1), length - 1)
    count = min(max(round(noise / mean_span), 1), noise, length - noise + 1)
    spans = _partition(noise, count, random)
    between = _partition(length - noise + 2, count + 1, random)
    between[0] -= 1  # the first and the last gap may be empty
    starts = np.cumsum(between[:-1]) + np.cumsum([0, *spans[:-1]])
    return [(int(start), int(start) + size) for start, size in zip(starts, spans, strict=True)]


def _partition(total: int, parts: int, random: np.random.Generator) -> list[int]:
    """Draw `parts` integers >= 1 whose sum is `total`."""
    cuts = np.sort(random.permutation(total - 1)[: parts - 1]) + 1
    return np.diff([0, *cuts, total]).tolist()


def infilled_spans(
    length: int, random: np.random.Generator, rate: float = 0.3, mean_span: float = 3.0
) -> list[Span]:
    """BART's spans: a fraction `rate` of the tokens, in spans whose lengths have a Poisson distribution.

    Where a span has length 0, a mask is inserted. There is at least one token between two spans.
    """
    budget = round(length * rate)
    lengths: list[int] = []
    while budget > 0:
        lengths.append(min(int(random.poisson(mean_span)), budget))
        budget -= max(lengths[-1], 1)  # an inserted mask counts as a token, so that the loop ends
    free = length - sum(lengths) - max(len(lengths) - 1, 0)  # tokens that are not needed between spans
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
    """T5's (source, target): sentinel i replaces span i in the source, and precedes it in the target.

    The target ends with one more sentinel, so there must be more sentinels than spans.
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
    """BART's (source, target): a mask replaces each span in the source, and the target is the whole text."""
    source: list[int] = []
    end = 0
    for start, stop in spans:
        source += [*ids[end:start], mask_id]
        end = stop
    return [*source, *ids[end:]], list(ids)


def fill_spans(source: Sequence[int], target: Sequence[int], sentinels: Container[int]) -> list[int]:
    """Replace the sentinels of a source with the spans of a target, which a model may have generated."""
    spans: dict[int, list[int]] = {}
    current: list[int] = []
    for i in target:
        if i in sentinels:
            current = spans.setdefault(i, [])
        else:
            current.append(i)
    return [token for i in source for token in (spans.get(i, []) if i in sentinels else [i])]
