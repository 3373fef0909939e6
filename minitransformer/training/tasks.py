"""Tasks: each gives the trainer batches, a loss and a validation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from minigrad import Tensor, no_grad
from minigrad.nn import functional as F

from ..data.batching import IGNORE, BatchStream, BlockBatches, PairBatch, TokenBatches, all_blocks, collate
from ..errors import UserError
from ..models import GPT, Transformer
from ..tokenizers import Tokenizer


class Task(Protocol):
    """The interface of a task. A batch has `n_tokens` and can be constructed from its arrays."""

    @property
    def largest_batch(self) -> int: ...

    def next_batch(self) -> Any: ...

    def split(self, batch: Any, parts: int) -> Iterator[tuple[int, Any]]: ...

    def loss(self, model: Any, batch: Any, label_smoothing: float) -> Tensor: ...

    def validate(self, model: Any) -> dict[str, float]: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


class Translation:
    """Sentence pairs, batched by length. The decoder's input is the target, shifted right."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: Sequence[tuple[str, str]],
        validation: Sequence[tuple[str, str]],
        max_tokens: int,
        seed: int,
    ) -> None:
        self.tokenizer, self.max_tokens, self.seed = tokenizer, max_tokens, seed
        self.train, self.validation = self.ids(train), self.ids(validation)
        self.stream = BatchStream(TokenBatches(_lengths(self.train), max_tokens, seed))

    def ids(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Both sides of each pair as token ids."""
        encode = self.tokenizer.encode
        return [(encode(source), encode(target)) for source, target in pairs]

    def batch(self, pairs: Sequence[tuple[list[int], list[int]]]) -> PairBatch:
        return collate(pairs, self.tokenizer)

    @property
    def largest_batch(self) -> int:
        """The number of rows in the largest batch."""
        return max(map(len, self.stream.batches.epoch(0)))

    def next_batch(self) -> PairBatch:
        return self.batch([self.train[i] for i in next(self.stream)])

    def split(self, batch: PairBatch, parts: int) -> Iterator[tuple[int, PairBatch]]:
        for rows in _split_rows(len(batch.source), parts):
            yield int(rows[0]), batch[rows[0] : rows[-1] + 1]

    def loss(self, model: Transformer, batch: PairBatch, label_smoothing: float) -> Tensor:
        """The sum of the losses of all target tokens."""
        logits = model(batch.source, batch.target_in)
        return _loss_sum(logits, batch.target_out, label_smoothing)

    @no_grad()
    def validate(self, model: Transformer) -> dict[str, float]:
        """Mean loss and token accuracy (teacher forced) over the validation split."""
        return self.score(model, self.validation)

    @no_grad()
    def score(self, model: Transformer, pairs: Sequence[tuple[list[int], list[int]]]) -> dict[str, float]:
        total, correct, tokens = 0.0, 0, 0
        for rows in TokenBatches(_lengths(pairs), self.max_tokens, self.seed).epoch(0):
            batch = self.batch([pairs[i] for i in rows])
            logits = model(batch.source, batch.target_in)
            total += _loss_sum(logits, batch.target_out, 0.0).item()
            correct += int((logits.argmax(-1).numpy() == batch.target_out).sum())
            tokens += batch.n_tokens
        return {"loss": total / tokens, "token_accuracy": correct / tokens}

    def state(self) -> dict[str, Any]:
        return self.stream.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.stream.restore(state)


class LanguageModelling:
    """Blocks of a long text; the target of each position is the next token."""

    def __init__(
        self, tokenizer: Tokenizer, train: str, validation: str, block_size: int, batch_size: int, seed: int
    ) -> None:
        self.tokenizer, self.block_size, self.batch_size = tokenizer, block_size, batch_size
        self.blocks = BlockBatches(tokenizer.encode_array(train), block_size, batch_size, seed)
        self.validation = tokenizer.encode_array(validation)
        self.step = 0
        for ids, minimum in ((self.blocks.ids, block_size), (self.validation, 1)):
            if len(ids) <= minimum:
                raise UserError(
                    f"{len(ids)} tokens of text are too few: a block has {block_size} tokens and a target.\n"
                    f"Pass a longer text, or lower --block-size."
                )

    @property
    def largest_batch(self) -> int:
        return self.batch_size

    def next_batch(self) -> TokenBlocks:
        x, y = self.blocks.batch(self.step)
        self.step += 1
        return TokenBlocks(x, y)

    def split(self, batch: TokenBlocks, parts: int) -> Iterator[tuple[int, TokenBlocks]]:
        for rows in _split_rows(len(batch.x), parts):
            yield int(rows[0]), TokenBlocks(batch.x[rows], batch.y[rows])

    def loss(self, model: GPT, batch: TokenBlocks, label_smoothing: float) -> Tensor:
        """The sum of the losses of all tokens."""
        return _loss_sum(model(batch.x), batch.y, label_smoothing)

    def validate(self, model: GPT) -> dict[str, float]:
        """Mean loss, token accuracy and bits per character over the validation split."""
        return score_text(model, self.tokenizer, self.validation, self.block_size, self.batch_size)

    def state(self) -> dict[str, Any]:
        return {"step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        self.step = state["step"]


@no_grad()
def score_text(
    model: GPT, tokenizer: Tokenizer, ids: np.ndarray, block_size: int, batch_size: int
) -> dict[str, float]:
    """Mean loss, token accuracy and, of characters, bits per character over a text."""
    check_text(ids)
    total, correct, tokens = 0.0, 0, 0
    for x, y in all_blocks(ids, block_size, batch_size):
        logits = model(x)
        total += _loss_sum(logits, y, 0.0).item()
        correct += int((logits.argmax(-1).numpy() == y).sum())
        tokens += int((y != IGNORE).sum())
    scores = {"loss": total / tokens, "token_accuracy": correct / tokens}
    if tokenizer.kind == "char":
        scores["bits_per_char"] = scores["loss"] / math.log(2)
    return scores


def check_text(ids: np.ndarray) -> None:
    """Raise a UserError for a text that has no token to predict."""
    if len(ids) < 2:
        raise UserError(f"a text of {len(ids)} tokens cannot be scored.\nPass a longer text.")


class TokenBlocks:
    """x and y, both (B, T): y is x shifted by one."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    @property
    def n_tokens(self) -> int:
        return int((self.y != IGNORE).sum())


def _split_rows(n: int, parts: int) -> list[np.ndarray]:
    """The numbers 0 to n - 1 in `parts` parts of similar sizes, without empty ones."""
    return np.array_split(np.arange(n), min(n, parts))


def _loss_sum(logits: Tensor, target: np.ndarray, label_smoothing: float) -> Tensor:
    """The sum of cross-entropies: logits (B, T, V), target (B, T)."""
    rows = logits.reshape(-1, logits.shape[-1])
    return F.cross_entropy(
        rows, target.reshape(-1), ignore_index=IGNORE, reduction="sum", label_smoothing=label_smoothing
    )


def _lengths(pairs: Sequence[tuple[list[int], list[int]]]) -> np.ndarray:
    """(N, 2): the lengths of source and target, each with its end or start token."""
    return np.array([(len(s) + 1, len(t) + 1) for s, t in pairs], dtype=np.int64).reshape(-1, 2)
