"""Functions for experiments with a small BERT on labelled English sentences of the phrasebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

from ..data.batching import IGNORE, pad_rows
from ..data.labels import tag_sentences
from ..data.masking import mask_tokens
from ..data.phrasebook import sentence_splits
from ..models.bert import BERT, BERTConfig
from ..text.tokenizer import Tokenizer
from .translating import minimize

SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
    "max_position_embeddings": 24, "initializer_range": 0.1, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}  # fmt: skip

Batch = tuple[np.ndarray, np.ndarray]  # ids (B, T), and the class to predict at each position, or IGNORE


@dataclass(frozen=True)
class Read:
    """A sentence as ids between <START> and <END>, the type of its object, and the tag of each word."""

    ids: list[int]
    object: int | None  # an index into Texts.objects; None if the sentence has no object
    tags: list[int]  # indices into Texts.tags


@dataclass(frozen=True)
class Texts:
    """Sentences to train on, held-out sentences, and the names of their ids, objects and tags."""

    train: list[Read]
    held_out: list[Read]
    tokenizer: Tokenizer
    objects: list[str]
    tags: list[str]

    @property
    def mask_id(self) -> int:
        return self.tokenizer.special_id("<MASK>")


@cache
def texts(seed: int, longest: int = 10, count: int = 4000) -> Texts:
    """Split the sentences of at most `longest` words and signs randomly: `count` to train, the rest not."""
    sentences, tokenizer, objects, tags = pool(longest)
    order = np.random.default_rng(seed).permutation(len(sentences))
    drawn = [sentences[i] for i in order]
    return Texts(drawn[:count], drawn[count:], tokenizer, objects, tags)


@cache
def pool(longest: int) -> tuple[list[Read], Tokenizer, list[str], list[str]]:
    known = [sentence for sentence in sentence_splits()["train"] if sentence.tags]
    tagged = list(zip(known, tag_sentences(known), strict=True))
    short = [(sentence, tags) for sentence, (words, tags) in tagged if len(words) <= longest]
    tokenizer = Tokenizer.train_word([sentence[0] for sentence, _ in short], added=["<MASK>"])
    kinds = [sentence.object for sentence, _ in short]
    objects = sorted({kind for kind in kinds if kind})
    names = sorted({tag for _, tags in short for tag in tags})
    found = [
        Read(
            [tokenizer.start_id, *tokenizer.encode(sentence[0]), tokenizer.end_id],
            objects.index(kind) if kind else None,
            [names.index(tag) for tag in tags],
        )
        for (sentence, tags), kind in zip(short, kinds, strict=True)
    ]
    return [each for each in found if len(each.ids) == len(each.tags) + 2], tokenizer, objects, names


def reader(data: Texts, head: str, labels: int = 2) -> BERT:
    """Create a small BERT for these sentences, with width 64 and two layers."""
    return BERT(
        BERTConfig(
            data.tokenizer.vocab_size,
            head=head,
            num_labels=labels,
            pad_token_id=data.tokenizer.pad_id,
            **SMALL,
        )
    )


def pad(data: Texts, ids: Sequence[Sequence[int]], asked: Sequence[Sequence[int]]) -> Batch:
    return pad_rows(ids, data.tokenizer.pad_id), pad_rows(asked, IGNORE)


def masked_words(data: Texts, rows: Sequence[Read], random: np.random.Generator) -> Batch:
    """Make a batch of BERT's task, in which 30% of the words, at least one, must be predicted.

    (BERT's 15% would be one word in sentences this short.)
    """
    words = (data.tokenizer.first_ordinary_id, data.tokenizer.vocab_size)
    read, asked = [], []
    for row in rows:
        maskable = np.arange(len(row.ids)) % (len(row.ids) - 1) != 0  # all but the first and the last
        hidden, targets = mask_tokens(np.array(row.ids), maskable, data.mask_id, words, random, rate=0.3)
        read.append(hidden.tolist())
        asked.append(targets.tolist())
    return pad(data, read, asked)


def with_object(rows: Sequence[Read]) -> list[Read]:
    """Return the sentences that have an object."""
    return [row for row in rows if row.object is not None]


def objects(data: Texts, rows: Sequence[Read], _: np.random.Generator | None = None) -> Batch:
    """Make a batch of a classifier's task, to predict the type of each sentence's object."""
    return pad_rows([row.ids for row in rows], data.tokenizer.pad_id), np.array([row.object for row in rows])


def loss_of(logits: mg.Tensor, asked: np.ndarray) -> mg.Tensor:
    """The mean cross-entropy, in nats, of logits (..., C) and classes (...) that are not IGNORE."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), asked.reshape(-1), ignore_index=IGNORE)


def train(
    model: BERT, rows: Sequence[Read], question: Callable[[Sequence[Read], np.random.Generator], Batch],
    rate: float, steps: int, seed: int, size: int = 32,
) -> list[float]:  # fmt: skip
    """Train on batches of `size` sentences, and return the losses (see `minimize`).

    `question` makes a batch of ids and classes from sentences.
    """
    random = np.random.default_rng(seed)

    def loss() -> mg.Tensor:
        ids, asked = question([rows[i] for i in random.integers(len(rows), size=size)], random)
        return loss_of(model(ids), asked)

    return minimize(loss, model, rate, steps)


@mg.no_grad()
def scores(model: BERT, batch: Batch) -> dict[str, float]:
    """The loss of a batch, and the fraction of wrong classes."""
    ids, asked = batch
    model.eval()
    logits = model(ids)
    model.train()
    chosen = asked != IGNORE
    wrong = logits.numpy().argmax(-1)[chosen] != asked[chosen]
    return {"loss": loss_of(logits, asked).item(), "error": float(wrong.mean())}
