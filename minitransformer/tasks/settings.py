"""What the [data] sections of several tasks have in common: tokenizers, and checks of settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import UserError, did_you_mean
from ..text.tokenizer import Tokenizer


def text_tokenizer(
    kind: str,
    vocab_size: int,
    texts: Sequence[str],
    held_out: Sequence[str],
    special_tokens: bool = True,
    added: Sequence[str] = (),
) -> Tokenizer:
    """Train a tokenizer of one of KINDS; vocab_size 0 means all words or characters, or 8,000 pieces.

    The `held_out` texts must round-trip too: how spaces and unknown characters are encoded depends on them.
    `added` are special tokens of the task.
    """
    if kind == "word":
        return Tokenizer.train_word(texts, vocab_size=vocab_size or None, held_out=held_out, added=added)
    if kind == "bpe":
        return Tokenizer.train_bpe(texts, vocab_size or 8000, held_out=held_out, added=added)
    if kind == "wordpiece":
        return Tokenizer.train_wordpiece(texts, vocab_size or 8000, added=added)
    if kind == "unigram":
        return Tokenizer.train_unigram(texts, vocab_size or 8000, added)
    if kind == "char":
        return Tokenizer.train_char(texts if special_tokens else [*texts, *held_out], special_tokens, added)
    raise UserError(
        f"unknown tokenizer {kind!r}.{did_you_mean(kind, KINDS)}\nChoose one of {', '.join(KINDS)}."
    )


KINDS = ("word", "bpe", "wordpiece", "unigram", "char")


def check_dataset(dataset: str, known: Sequence[str]) -> None:
    """Raise a UserError for an unknown data set."""
    if dataset not in known:
        own = " (with --data FILE)" if "file" in known else ""
        raise UserError(
            f"unknown dataset {dataset!r}.{did_you_mean(dataset, known)}\n"
            f"Choose one of {', '.join(known)}{own}."
        )


def check_positions(length: str, n: int, model: Any) -> None:
    """Raise a UserError if the model has fewer than n learned positions."""
    if getattr(model, "positions", "learned") != "learned":
        return
    for name in ("n_positions", "max_positions", "max_position_embeddings"):
        if n > (limit := getattr(model, name, math.inf)):
            raise UserError(
                f"{length} = {n} is more than {name} = {limit}.\nLower {length}, or raise {name}."
            )


def check_one_vocabulary(task: str, model: Any) -> None:
    """Raise a UserError for a model with a separate target vocabulary: only one tokenizer is trained."""
    if (size := getattr(model, "target_vocab_size", None)) is not None:
        raise UserError(
            f"target_vocab_size = {size}, but the task {task} has one tokenizer for source and target.\n"
            f"Leave target_vocab_size out: vocab_size is the size of both."
        )
