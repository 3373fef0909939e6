"""Batches: sentence pairs of like length up to a number of tokens, and blocks of a long text.

Which examples a batch holds is a function of the seed and of its place in the run, so that a run can go on
exactly where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from ..tokenizers import Tokenizer

IGNORE = -100  # the target id that counts nothing in the loss
SHUFFLE, BLOCKS = 1, 2  # streams of random numbers


def _generator(seed: int, stream: int, counter: int) -> np.random.Generator:
    key = np.array([seed, stream], np.uint64)  # a list would become floats, and large seeds fall together
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, counter, 0]))


@dataclass(frozen=True)
class PairBatch:
    """Padded sentence pairs. <END> ends a source and a `target_out`; <START> begins a `target_in`.

    `target_out` is `target_in` shifted left by one, IGNORE where `target_in` is padding.
    """

    source: Int[Any, "B S"]
    target_in: Int[Any, "B T"]
    target_out: Int[Any, "B T"]

    @property
    def n_tokens(self) -> int:
        """How many target tokens count."""
        return int((self.target_out != IGNORE).sum())

    def __getitem__(self, rows: slice) -> PairBatch:
        return PairBatch(self.source[rows], self.target_in[rows], self.target_out[rows])


def collate(pairs: Sequence[tuple[list[int], list[int]]], tokenizer: Tokenizer) -> PairBatch:
    """Pairs of ids as one batch."""
    start, end, pad = tokenizer.start_id, tokenizer.end_id, tokenizer.pad_id
    return PairBatch(
        _padded([[*source, end] for source, _ in pairs], pad),
        _padded([[start, *target] for _, target in pairs], pad),
        _padded([[*target, end] for _, target in pairs], IGNORE),
    )


def _padded(rows: Sequence[Sequence[Any]], padding: int | None) -> Int[np.ndarray, "B T"]:
    out = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


class TokenBatches:
    """Each epoch's batches: every example once, those of like length together, in random order.

    `lengths` (N, 2) are the tokens of each source and target. A batch's rows times its longest side are at
    most `max_tokens`, for sources and targets alike; an example longer than that is a batch of its own.
    """

    def __init__(self, lengths: Int[np.ndarray, "N 2"], max_tokens: int, seed: int) -> None:
        self.lengths, self.max_tokens, self.seed = lengths, max_tokens, seed

    def epoch(self, number: int) -> list[Int[np.ndarray, " rows"]]:
        """The batches of an epoch, as rows of the data set."""
        rng = _generator(self.seed, SHUFFLE, number)
        ties = rng.random(len(self.lengths))
        order = np.lexsort(
            (ties, self.lengths[:, 0], self.lengths[:, 1])
        )  # by target, then source, then at random
        batches: list[np.ndarray] = []
        first, longest = 0, 0
        for i, row in enumerate(order):
            longest = max(longest, int(self.lengths[row].max()))
            if i > first and longest * (i - first + 1) > self.max_tokens:
                batches.append(order[first:i])
                first, longest = i, int(self.lengths[row].max())
        if len(order):
            batches.append(order[first:])
        return [batches[i] for i in rng.permutation(len(batches))]


class BatchStream:
    """The batches of epoch after epoch; `state` says where it is, and `restore` goes there."""

    def __init__(self, batches: TokenBatches) -> None:
        self.batches, self.epoch, self.place = batches, 0, 0
        self._order = batches.epoch(0)

    def __iter__(self) -> Iterator[np.ndarray]:
        return self

    def __next__(self) -> Int[np.ndarray, " rows"]:
        if self.place == len(self._order):
            self._go(self.epoch + 1, 0)
        self.place += 1
        return self._order[self.place - 1]

    def _go(self, epoch: int, place: int) -> None:
        self.epoch, self.place, self._order = epoch, place, self.batches.epoch(epoch)

    def state(self) -> dict[str, int]:
        return {"epoch": self.epoch, "batch": self.place}

    def restore(self, state: dict[str, int]) -> None:
        self._go(state["epoch"], state["batch"])


class BlockBatches:
    """Blocks of a long text at random places; the batch of a step is a function of seed and step alone."""

    def __init__(self, ids: Int[np.ndarray, " n"], block_size: int, batch_size: int, seed: int) -> None:
        self.ids, self.block_size, self.batch_size, self.seed = ids, block_size, batch_size, seed

    def batch(self, step: int) -> tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B T"]]:
        """x and y, y the tokens after x's."""
        starts = _generator(self.seed, BLOCKS, step).integers(
            0, len(self.ids) - self.block_size, self.batch_size
        )
        places = starts[:, None] + np.arange(self.block_size)
        return self.ids[places], self.ids[places + 1]


def all_blocks(
    ids: Int[np.ndarray, " n"], block_size: int, batch_size: int
) -> Iterator[tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B T"]]]:
    """A whole text in blocks: each token but the first is a target once; the last block ends in IGNORE."""
    targets = len(ids) - 1
    number = -(-targets // block_size)
    x, y = np.zeros(number * block_size, np.int64), np.full(number * block_size, IGNORE)
    x[:targets], y[:targets] = ids[:-1], ids[1:]
    for start in range(0, number, batch_size):
        rows = slice(start * block_size, (start + batch_size) * block_size)
        yield x[rows].reshape(-1, block_size), y[rows].reshape(-1, block_size)
