"""BERT's objectives: tokens that are masked, sentences that follow each other (Devlin et al. 2018, 3.1).

Every draw is a function of (seed, step, row): masks are new in each step (dynamic masking, Liu et al. 2019,
4.1), and a run that is resumed draws what it would have drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from .batching import IGNORE

MASKING, PAIRING = 6, 7  # random streams
RATE, MASKED, RANDOM = 0.15, 0.8, 0.1  # the rest of the chosen tokens stay as they are


def row_generator(seed: int, stream: int, step: int, row: int) -> np.random.Generator:
    """The random numbers of a row of a step's batch."""
    key = np.array([seed, stream], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, row, step, 0]))


def mask_tokens(
    ids: Int[np.ndarray, " T"],
    maskable: Bool[np.ndarray, " T"],
    mask_id: int,
    words: tuple[int, int],
    random: np.random.Generator,
    rate: float = RATE,
) -> tuple[Int[np.ndarray, " T"], Int[np.ndarray, " T"]]:
    """What the model reads, and its targets, IGNORE where nothing is predicted.

    Of the maskable tokens a share of `rate` is chosen, at least one. Of these 80% become `mask_id`, 10% a
    random token of `words` (first id, end), and 10% stay.
    """
    read, targets = ids.copy(), np.full(ids.shape, IGNORE, np.int64)
    places = np.flatnonzero(maskable)
    if not len(places):
        return read, targets
    number = max(
        1, int(rate * len(places) + random.random())
    )  # rounded at random: the share is exact on average
    chosen = random.permutation(places)[:number]
    targets[chosen] = ids[chosen]
    kind = random.random(number)
    read[chosen[kind < MASKED]] = mask_id
    replaced = chosen[(kind >= MASKED) & (kind < MASKED + RANDOM)]
    read[replaced] = random.integers(*words, len(replaced))
    return read, targets


class SentencePair(NamedTuple):
    """Two sentences (document, sentence), and whether the second follows the first."""

    first: tuple[int, int]
    second: tuple[int, int]
    follows: bool


def sentence_pair(documents: Sequence[Sequence[object]], random: np.random.Generator) -> SentencePair:
    """A sentence with the one that follows it, or, half of the time, with one of another document.

    The documents have at least two sentences each, and there are at least two of them.
    """
    lengths = np.array([len(document) - 1 for document in documents])
    document = int(random.choice(len(documents), p=lengths / lengths.sum()))  # each pair is equally likely
    first = int(random.integers(lengths[document]))
    if random.random() < 0.5:
        return SentencePair((document, first), (document, first + 1), True)
    other = int(random.integers(len(documents) - 1))
    other += other >= document
    return SentencePair((document, first), (other, int(random.integers(len(documents[other])))), False)
