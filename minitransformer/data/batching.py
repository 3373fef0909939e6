"""Batches: sentence pairs of similar length, up to a number of tokens, and blocks of a long text.

The examples of a batch are a function of the seed and the batch number, so a resumed run continues exactly
where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

IGNORE = -100  # the target id that the loss ignores
SHUFFLE, BLOCKS = 1, 2  # random streams


def generator(seed: int, stream: int, counter: int) -> np.random.Generator:
    """A random generator for a stream (a constant of the file that draws) and a place in a run."""
    key = np.array([seed, stream], np.uint64)  # a list would become floats, where large seeds are equal
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, counter, 0]))


class Batch(dict[str, Any]):
    """Arrays by name, whose first axis is the example.

    "target" has what is to be predicted: classes, IGNORE where there is none, or other numbers. Only if they
    are not classes, or there are more of them in other arrays, "counts" has the number of each row's targets.
    """

    @property
    def n_tokens(self) -> int:
        """The number of targets."""
        return int(self["counts"].sum() if "counts" in self else (self["target"] != IGNORE).sum())

    def rows(self, rows: slice) -> Batch:
        """Some of the examples."""
        return Batch({name: array[rows] for name, array in self.items()})


def collate(pairs: Sequence[tuple[list[int], list[int]]], tokenizer: Any) -> Batch:
    """Pad pairs of ids to a batch: "source" (B, S), "target_in" and "target" (B, T).

    "source" and "target" end with <END>. "target" is "target_in", which starts with <START>, shifted left by
    one, with IGNORE for padding.
    """
    start = tokenizer.start_id
    end = tokenizer.end_id
    pad = tokenizer.pad_id
    prefix = getattr(tokenizer, "prefix", [])  # your own tokenizer may have none
    return Batch(
        source=pad_rows([[*prefix, *source, end] for source, _ in pairs], pad),
        target_in=pad_rows([[start, *prefix, *target] for _, target in pairs], pad),
        target=pad_rows([[*prefix, *target, end] for _, target in pairs], IGNORE),
    )


def pad_rows(rows: Sequence[Sequence[Any]], padding: int | None) -> Int[np.ndarray, "B T"]:
    """The rows as an array, padded on the right."""
    out = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


class TokenBatches:
    """The batches of an epoch: each example once, sorted by length, the batches in random order.

    `lengths` (N, 2) are the lengths of sources and targets. The number of rows of a batch times its longest
    side is at most `max_tokens`; a longer example is a batch on its own.
    """

    def __init__(self, lengths: Int[np.ndarray, "N 2"], max_tokens: int, seed: int) -> None:
        self.lengths = lengths
        self.max_tokens = max_tokens
        self.seed = seed

    def epoch(self, number: int) -> list[Int[np.ndarray, " rows"]]:
        """The batches of an epoch, as indices into the data set."""
        rng = generator(self.seed, SHUFFLE, number)
        ties = rng.random(len(self.lengths))
        sources, targets = self.lengths.T
        order = np.lexsort((ties, sources, targets))  # by target, then source, then at random
        batches: list[np.ndarray] = []
        start, longest = 0, 0
        for i, row in enumerate(order):
            longest = max(longest, int(self.lengths[row].max()))
            if i > start and longest * (i - start + 1) > self.max_tokens:
                batches.append(order[start:i])
                start = i
                longest = int(self.lengths[row].max())
        if len(order):
            batches.append(order[start:])
        return [batches[i] for i in rng.permutation(len(batches))]


class BatchStream:
    """An endless iterator over the batches of successive epochs; `state` and `restore` handle its
    position."""

    def __init__(self, batches: TokenBatches) -> None:
        self.batches = batches
        self.epoch = 0
        self.next_batch = 0
        self._order = batches.epoch(0)

    def __iter__(self) -> Iterator[np.ndarray]:
        return self

    def __next__(self) -> Int[np.ndarray, " rows"]:
        if self.next_batch == len(self._order):
            self._seek(self.epoch + 1, 0)
        self.next_batch += 1
        return self._order[self.next_batch - 1]

    def _seek(self, epoch: int, batch: int) -> None:
        self.epoch, self.next_batch, self._order = epoch, batch, self.batches.epoch(epoch)

    def state(self) -> dict[str, int]:
        return {"epoch": self.epoch, "batch": self.next_batch}

    def restore(self, state: dict[str, int]) -> None:
        self._seek(state["epoch"], state["batch"])
        if not 0 <= self.next_batch <= len(self._order):
            raise IndexError(f"there is no batch {self.next_batch} in an epoch of {len(self._order)}")


class BlockBatches:
    """Random blocks of a long text; the batch of a step is a function of seed and step alone."""

    def __init__(self, ids: Int[np.ndarray, " n"], block_size: int, batch_size: int, seed: int) -> None:
        self.ids = ids
        self.block_size = block_size
        self.batch_size = batch_size
        self.seed = seed

    def batch(self, step: int) -> tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B T"]]:
        """x and y, where y is x shifted by one token."""
        starts = generator(self.seed, BLOCKS, step).integers(
            0, len(self.ids) - self.block_size, self.batch_size
        )
        positions = starts[:, None] + np.arange(self.block_size)
        return self.ids[positions], self.ids[positions + 1]


def all_blocks(
    ids: Int[np.ndarray, " n"], block_size: int, batch_size: int
) -> Iterator[tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B T"]]]:
    """A whole text in blocks: each token except the first is a target once; IGNORE pads the last block."""
    targets = len(ids) - 1
    number = -(-targets // block_size)
    x = np.zeros(number * block_size, np.int64)
    y = np.full(number * block_size, IGNORE)
    x[:targets], y[:targets] = ids[:-1], ids[1:]
    for start in range(0, number, batch_size):
        rows = slice(start * block_size, (start + batch_size) * block_size)
        yield x[rows].reshape(-1, block_size), y[rows].reshape(-1, block_size)


def sliding_blocks(
    ids: Int[np.ndarray, " n"], window: int, stride: int, batch_size: int
) -> Iterator[tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B T"]]]:
    """A whole text in windows that move by `stride` tokens: each token except the first is a target once.

    A window scores the tokens that no earlier one has; the others are their context (see "Perplexity of
    fixed-length models" in the documentation of transformers).
    """
    starts = range(0, max(len(ids) - window, 0) + stride, stride)
    scored = 1  # the first token has no context
    for first in range(0, len(starts), batch_size):  # a batch at a time: with a small stride, there are many
        rows = starts[first : first + batch_size]
        x = np.zeros((len(rows), window - 1), np.int64)
        y = np.full((len(rows), window - 1), IGNORE)
        for row, start in enumerate(rows):
            end = min(start + window, len(ids))
            x[row, : end - 1 - start] = ids[start : end - 1]
            y[row, scored - 1 - start : end - 1 - start] = ids[scored:end]
            scored = end
        yield x, y
