"""Batches: sentence pairs of similar length, up to a number of tokens, and blocks of a long text.

The examples of a batch are a function of the seed and the step, so a resumed run continues exactly where it
stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
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

    "target" has what is to be predicted: classes, IGNORE where there is none; or numbers, which count as one
    target for each example. If that is not how many targets there are, "counts" has their number in each row.
    """

    @property
    def n_tokens(self) -> int:
        """The number of targets."""
        if "counts" in self:
            return int(self["counts"].sum())
        return int((self["target"] != IGNORE).sum()) if is_classes(self["target"]) else len(self["target"])

    def rows(self, rows: slice) -> Batch:
        """Some of the examples."""
        return Batch({name: array[rows] for name, array in self.items()})


def is_classes(target: Any) -> bool:
    """Whether an array has integers, which are taken for classes."""
    return np.issubdtype(target.dtype, np.integer)


def pad(rows: Sequence[Mapping[str, Any]], pad_id: int | None) -> Batch:
    """The arrays of rows as a batch. Lists of ids are padded on the right; arrays and numbers are stacked.

    Padding is IGNORE in "target", 0 in "token_types", and `pad_id` (None: 0) in others.
    """
    padding = {"target": IGNORE, "token_types": 0}
    batch = Batch()
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        if isinstance(first, list):
            batch[name] = pad_rows(values, padding.get(name, pad_id or 0))
        else:
            array = np.array(values)
            batch[name] = array.astype(np.float32) if isinstance(first, float) else array
    return batch


def collate(pairs: Sequence[tuple[list[int], list[int]]], tokenizer: Any) -> Batch:
    """The batch of pairs of ids, see `pair_row`."""
    return pad([pair_row(source, target, tokenizer) for source, target in pairs], tokenizer.pad_id)


def pair_row(source: Sequence[int], target: Sequence[int], tokenizer: Any) -> dict[str, list[int]]:
    """What an encoder-decoder reads, "source" and "target_in", and what it predicts, "target".

    "source" and "target" end with <END>. "target" is "target_in", which starts with <START>, shifted by one.
    """
    prefix = getattr(tokenizer, "prefix", [])  # your own tokenizer may have none
    return {
        "source": [*prefix, *source, tokenizer.end_id],
        "target_in": [tokenizer.start_id, *prefix, *target],
        "target": [*prefix, *target, tokenizer.end_id],
    }


def pad_rows(rows: Sequence[Sequence[Any]], padding: int | None) -> Int[np.ndarray, "B T"]:
    """The rows as an array, padded on the right."""
    out = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


class Batches:
    """Which examples are in the batch of each step: a function of the seed and the step."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._epoch: tuple[int, list[np.ndarray]] | None = None  # the latest, since drawing it takes a while

    def epoch(self, number: int) -> list[Int[np.ndarray, " rows"]]:
        """The batches of an epoch, as indices into the data set. Each epoch has as many."""
        raise NotImplementedError

    def rows(self, step: int) -> Int[np.ndarray, " rows"]:
        """The examples of a step, counted from 0, as indices into the data set."""
        number, batch = divmod(step, self.per_epoch)
        if self._epoch is None or self._epoch[0] != number:
            self._epoch = number, self.epoch(number)
        return self._epoch[1][batch]

    @cached_property
    def per_epoch(self) -> int:
        """The number of batches of an epoch."""
        return len(self.epoch(0))

    @property
    def largest(self) -> int:
        """The number of rows of the largest batch."""
        return max(map(len, self.epoch(0)))


class ShuffledBatches(Batches):
    """Batches of `batch_size` of n examples, in random order; the last, too few for one, are left out."""

    def __init__(self, n: int, batch_size: int, seed: int) -> None:
        super().__init__(seed)
        self.n = n
        self.batch_size = batch_size

    def epoch(self, number: int) -> list[Int[np.ndarray, " rows"]]:
        order = generator(self.seed, SHUFFLE, number).permutation(self.n)
        ends = range(self.batch_size, self.n + 1, self.batch_size)
        return [order[end - self.batch_size : end] for end in ends] or [order]


class TokenBatches(Batches):
    """Batches of examples of similar length, in random order.

    `lengths` (N, 2) are the lengths of sources and targets. The number of rows of a batch times its longest
    side is at most `max_tokens`; a longer example is a batch on its own.
    """

    def __init__(self, lengths: Int[np.ndarray, "N 2"], max_tokens: int, seed: int) -> None:
        super().__init__(seed)
        self.lengths = lengths
        self.max_tokens = max_tokens

    def epoch(self, number: int) -> list[Int[np.ndarray, " rows"]]:
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


class BlockBatches:
    """Random blocks of a long text; the batch of a step is a function of seed and step alone."""

    def __init__(self, ids: Int[np.ndarray, " n"], block_size: int, batch_size: int, seed: int) -> None:
        self.ids = ids
        self.block_size = block_size
        self.batch_size = batch_size
        self.seed = seed

    def batch(self, step: int) -> Batch:
        """The "input" and "target" (B, T), which is the input shifted by one token."""
        starts = generator(self.seed, BLOCKS, step).integers(
            0, len(self.ids) - self.block_size, self.batch_size
        )
        positions = starts[:, None] + np.arange(self.block_size)
        return Batch(input=self.ids[positions], target=self.ids[positions + 1])

    @property
    def per_epoch(self) -> int:
        """The number of batches with as many tokens as the text; blocks start anywhere."""
        return max(len(self.ids) // (self.block_size * self.batch_size), 1)

    @property
    def largest(self) -> int:
        return self.batch_size


def all_blocks(ids: Int[np.ndarray, " n"], block_size: int, batch_size: int) -> Iterator[Batch]:
    """A whole text in blocks: each token except the first is a target once; IGNORE pads the last block."""
    targets = len(ids) - 1
    number = -(-targets // block_size)
    x = np.zeros(number * block_size, np.int64)
    y = np.full(number * block_size, IGNORE)
    x[:targets], y[:targets] = ids[:-1], ids[1:]
    for start in range(0, number, batch_size):
        rows = slice(start * block_size, (start + batch_size) * block_size)
        yield Batch(input=x[rows].reshape(-1, block_size), target=y[rows].reshape(-1, block_size))


def sliding_blocks(ids: Int[np.ndarray, " n"], window: int, stride: int, batch_size: int) -> Iterator[Batch]:
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
        yield Batch(input=x, target=y)
