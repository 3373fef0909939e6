"""BERT's objectives: masked tokens, and next sentences (Devlin et al. 2018, section 3.1).

Random numbers depend only on (seed, step, row). So masks change in each step (dynamic masking, Liu et al.
2019, section 4.1), and a resumed run draws the same masks as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from .batching import IGNORE

MASKING, PAIRING = 6, 7  # numbers of random streams
RATE = 0.15  # the share of tokens that are chosen
MASKED = 0.8  # the share of chosen tokens that are masked
RANDOM = 0.1  # the share of chosen tokens that are replaced at random; the others do not change


def row_generator(seed: int, stream: int, step: int, row: int) -> np.random.Generator:
    """The random generator for a row of a step's batch."""
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
    """Mask tokens. Return the ids that the model reads, and the targets, with IGNORE at tokens not chosen.

    A fraction `rate` of the maskable tokens is chosen, but at least one. 80% of these become `mask_id`, 10%
    become a random token from `words` (first id, end), and 10% do not change.
    """
    read = ids.copy()
    targets = np.full(ids.shape, IGNORE, np.int64)
    places = np.flatnonzero(maskable)
    if not len(places):
        return read, targets
    # rounded at random, so that the fraction is exact on average
    number = max(1, int(rate * len(places) + random.random()))
    chosen = random.permutation(places)[:number]
    targets[chosen] = ids[chosen]
    kind = random.random(number)
    read[chosen[kind < MASKED]] = mask_id
    replaced = chosen[(kind >= MASKED) & (kind < MASKED + RANDOM)]
    read[replaced] = random.integers(*words, len(replaced))
    return read, targets


Example = tuple[str, ...]  # a sentence, the sentence after it, and the name of their document


def next_or_other(
    example: Example, others: Sequence[Example], random: np.random.Generator
) -> tuple[Example, bool]:
    """Return the example and True, or with probability 1/2 an example with a wrong second sentence and False.

    The wrong sentence is from another document in `others`. If 100 random tries find none, the example is
    returned with True.
    """
    if random.random() < 0.5:
        return example, True
    for i in random.integers(0, len(others), 100).tolist():
        if others[i][2] != example[2]:
            return (example[0], others[i][1], example[2]), False
    return example, True
