"""BERT's objectives: masked tokens, and sentences that follow each other (Devlin et al. 2018, 3.1).

Every draw is a function of (seed, step, row): masks are new in each step (dynamic masking, Liu et al. 2019,
4.1), and a resumed run draws the same as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from .batching import IGNORE

MASKING, PAIRING = 6, 7  # random streams
# the rest of the chosen tokens are not changed
RATE = 0.15
MASKED = 0.8
RANDOM = 0.1


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
    """What the model reads, and its targets, IGNORE where nothing is predicted.

    A fraction `rate` of the maskable tokens is chosen, at least one. 80% of these become `mask_id`, 10% a
    random token of `words` (first id, end), and 10% do not change.
    """
    read = ids.copy()
    targets = np.full(ids.shape, IGNORE, np.int64)
    places = np.flatnonzero(maskable)
    if not len(places):
        return read, targets
    number = max(
        1, int(rate * len(places) + random.random())
    )  # rounded at random: the fraction is exact on average
    chosen = random.permutation(places)[:number]
    targets[chosen] = ids[chosen]
    kind = random.random(number)
    read[chosen[kind < MASKED]] = mask_id
    replaced = chosen[(kind >= MASKED) & (kind < MASKED + RANDOM)]
    read[replaced] = random.integers(*words, len(replaced))
    return read, targets


Example = tuple[str, ...]  # a sentence, the one that follows it, the name of their document


def next_or_other(
    example: Example, others: Sequence[Example], random: np.random.Generator
) -> tuple[Example, bool]:
    """The example and True; or, half of the time, its first sentence with one of another document, and False.

    If the first tries find no other document, there may be none, and the example does not change.
    """
    if random.random() < 0.5:
        return example, True
    for i in random.integers(0, len(others), 100).tolist():
        if others[i][2] != example[2]:
            return (example[0], others[i][1], example[2]), False
    return example, True
