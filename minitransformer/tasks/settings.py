"""Base classes of tasks' [data] sections, and functions to train tokenizers and check settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..base_config import Config
from ..data.rows import FileFormat
from ..errors import UserError, check_choice, did_you_mean
from ..text.tokenizer import Tokenizer

KINDS = ("word", "bpe", "wordpiece", "unigram", "char")


def text_tokenizer(
    kind: str,
    vocab_size: int,
    texts: Sequence[str],
    held_out: Sequence[str],
    special_tokens: bool = True,
    added: Sequence[str] = (),
) -> Tokenizer:
    """Train a tokenizer of one of KINDS. vocab_size 0 means all words or characters, or 8,000 subwords.

    `held_out` are texts that must round-trip too, though no words are learned from them: how spaces and
    unknown characters are encoded depends on them. `added` are special tokens of the task.
    """
    check_choice("tokenizer", kind, KINDS)
    if kind == "word":
        return Tokenizer.train_word(texts, vocab_size=vocab_size or None, held_out=held_out, added=added)
    if kind == "bpe":
        return Tokenizer.train_bpe(texts, vocab_size or 8000, held_out=held_out, added=added)
    if kind == "wordpiece":
        return Tokenizer.train_wordpiece(texts, vocab_size or 8000, added=added)
    if kind == "unigram":
        return Tokenizer.train_unigram(texts, vocab_size or 8000, added)
    return Tokenizer.train_char(texts if special_tokens else [*texts, *held_out], special_tokens, added)


@dataclass(frozen=True)
class DataSettings(Config):
    """Base class of [data] sections: the data set, either one of the package's or the user's file."""

    dataset: str = "phrasebook"  # "phrasebook" or "file" (--data FILE)

    datasets: ClassVar[tuple[str, ...]] = ("phrasebook", "file")

    def __post_init__(self) -> None:
        if self.dataset not in self.datasets:
            raise UserError(
                f"unknown dataset {self.dataset!r}.{did_you_mean(self.dataset, self.datasets)}\n"
                f"Choose one of {', '.join(self.datasets)} (with --data FILE)."
            )


@dataclass(frozen=True)
class TextSettings(FileFormat, DataSettings):
    """Base class of [data] sections for texts, which also have the format of the user's file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        DataSettings.__post_init__(self)


def check_positions(length: str, n: int, model: Any) -> None:
    """Raise a UserError if the model has fewer than n learned positions."""
    if getattr(model, "positions", "learned") != "learned":
        return
    for name in ("n_positions", "max_positions", "max_position_embeddings"):
        if n > (limit := getattr(model, name, math.inf)):
            raise UserError(
                f"{length} = {n} is more than {name} = {limit}.\nLower {length}, or raise {name}."
            )
