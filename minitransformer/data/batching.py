"""Batches of examples, of sentence pairs of similar lengths, and of blocks of a long text.

The examples of a batch depend only on the seed and the step, so a resumed run continues exactly where it
stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int

IGNORE = -100  # the target id that the loss ignores
SHUFFLE, BLOCKS = 1, 2  # numbers of random streams


def generator(seed: int, stream: int, counter: int) -> np.random.Generator:
    """A random generator that depends on the seed, a stream, and a counter, such as the step or the epoch.

    Each use of random numbers has its own stream, such as `SHUFFLE`.
    """
    key = np.array([seed, stream], np.uint64)  # a list becomes floats, which round large seeds
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, counter, 0]))


class Batch(dict[str, Any]):
    """Arrays by name. Their first axis is the examples.

    "target" is what the model should predict: integers are classes, with IGNORE where nothing is predicted;
    floats count as one target for each example. If the number of targets is different, "counts" has the
    number in each row.
    """

    @property
    def n_tokens(self) -> int:
        """The number of targets."""
        if "counts" in self:
            return int(self["counts"].sum())
        return int((self["target"] != IGNORE).sum()) if is_classes(self["target"]) else len(self["target"])

    def rows(self, rows: slice) -> Batch:
        """The batch of a slice of the examples."""
        return Batch({name: array[rows] for name, array in self.items()})


def is_classes(target: Any) -> bool:
    """Whether the targets are classes, which are integers."""
    return np.issubdtype(target.dtype, np.integer)


def pad(rows: Sequence[Mapping[str, Any]], pad_id: int | None) -> Batch:
    """Make a batch of rows. Lists of ids are padded on the right; arrays and numbers are stacked.

    The padding is IGNORE in "target", 0 in "token_types", and `pad_id` (None: 0) in other arrays.
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
    """Make a batch of pairs of ids (source, target). See `pair_row` for the arrays."""
    return pad([pair_row(source, target, tokenizer) for source, target in pairs], tokenizer.pad_id)


def pair_row(source: Sequence[int], target: Sequence[int], tokenizer: Any) -> dict[str, list[int]]:
    """The row of a pair: "source" and "target_in", which an encoder-decoder reads, and "target".

    "source" and "target" end with <END>. "target_in" starts with <START>, and is "target" shifted by one.
    """
    prefix = getattr(tokenizer, "prefix", [])  # the tokenizer may be a user's own class
    return {
        "source": [*prefix, *source, tokenizer.end_id],
        "target_in": [tokenizer.start_id, *prefix, *target],
        "target": [*prefix, *target, tokenizer.end_id],
    }


def pad_rows(rows: Sequence[Sequence[Any]], padding: int | None) -> Int[np.ndarray, "B T"]:
    """Make an array of rows, padded on the right."""
    out = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


class Batches:
    """The base class of batches: chooses the examples of each step from the seed and the step."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._epoch: tuple[int, list[np.ndarray]] | None = None  # the epoch that was drawn last

    def epoch(self, number: int) -> list[Int[np.ndarray, " rows"]]:
        """The batches of an epoch, as indices into the data set. All epochs have the same number."""
        raise NotImplementedError

    def rows(self, step: int) -> Int[np.ndarray, " rows"]:
        """The examples of a step, as indices into the data set. Steps count from 0."""
        number, batch = divmod(step, self.per_epoch)
        if self._epoch is None or self._epoch[0] != number:
            self._epoch = number, self.epoch(number)
        return self._epoch[1][batch]

    @cached_property
    def per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return len(self.epoch(0))

    @property
    def largest(self) -> int:
        """The number of rows of the largest batch."""
        return max(map(len, self.epoch(0)))


class ShuffledBatches(Batches):
    """Batches of `batch_size` examples in random order. The last incomplete batch of an epoch is dropped."""

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

    `lengths` (N, 2) are the lengths of sources and targets. The number of rows of a batch times the longest
    length in it is at most `max_tokens`, except that a longer example is a batch of its own.
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
    """Batches of random blocks of a long text. A batch depends only on the seed and the step."""

    def __init__(self, ids: Int[np.ndarray, " n"], block_size: int, batch_size: int, seed: int) -> None:
        self.ids = ids
        self.block_size = block_size
        self.batch_size = batch_size
        self.seed = seed

    def batch(self, step: int) -> Batch:
        """The batch of a step: "input" (B, T), and "target" (B, T), the input shifted by one token."""
        starts = generator(self.seed, BLOCKS, step).integers(
            0, len(self.ids) - self.block_size, self.batch_size
        )
        positions = starts[:, None] + np.arange(self.block_size)
        return Batch(input=self.ids[positions], target=self.ids[positions + 1])

    @property
    def per_epoch(self) -> int:
        """The number of batches that have as many tokens as the text. Blocks may start anywhere in it."""
        return max(len(self.ids) // (self.block_size * self.batch_size), 1)

    @property
    def largest(self) -> int:
        return self.batch_size


def all_blocks(ids: Int[np.ndarray, " n"], block_size: int, batch_size: int) -> Iterator[Batch]:
    """Yield a whole text in blocks, the last one padded. Each token except the first is a target once."""
    targets = len(ids) - 1
    number = -(-targets // block_size)
    x = np.zeros(number * block_size, np.int64)
    y = np.full(number * block_size, IGNORE)
    x[:targets], y[:targets] = ids[:-1], ids[1:]
    for start in range(0, number, batch_size):
        rows = slice(start * block_size, (start + batch_size) * block_size)
        yield Batch(input=x[rows].reshape(-1, block_size), target=y[rows].reshape(-1, block_size))


def sliding_blocks(ids: Int[np.ndarray, " n"], window: int, stride: int, batch_size: int) -> Iterator[Batch]:
    """Yield a whole text in windows that move by `stride` tokens.

    Each token except the first is a target once: a window scores the tokens that no earlier window has
    scored, and its other tokens are their context (see "Perplexity of fixed-length models" in the
    documentation of transformers).
    """
    starts = range(0, max(len(ids) - window, 0) + stride, stride)
    scored = 1  # the first token has no context
    for first in range(0, len(starts), batch_size):  # one batch at a time, as there may be many windows
        rows = starts[first : first + batch_size]
        x = np.zeros((len(rows), window - 1), np.int64)
        y = np.full((len(rows), window - 1), IGNORE)
        for row, start in enumerate(rows):
            end = min(start + window, len(ids))
            x[row, : end - 1 - start] = ids[start : end - 1]
            y[row, scored - 1 - start : end - 1 - start] = ids[scored:end]
            scored = end
        yield Batch(input=x, target=y)
