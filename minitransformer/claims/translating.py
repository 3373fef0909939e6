"""Training and scoring of small translators on sentences of the phrasebook, for experiments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F

from ..data.batching import IGNORE, Batch, collate
from ..data.phrasebook import phrasebook
from ..generation.generate import generate
from ..layers.attention import MultiHeadAttention
from ..models.transformer import Transformer, TransformerConfig
from ..text.tokenizer import Tokenizer

Ids = list[tuple[list[int], list[int]]]  # English and French

SMALL = {
    "d_model": 64, "num_heads": 4, "d_ff": 256, "num_encoder_layers": 2, "num_decoder_layers": 2,
    "dropout": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class Sentences:
    """Sentence pairs as token ids, and their tokenizer."""

    train: Ids
    held_out: Ids
    longer: Ids  # pairs with at least two English words more than any in `train`
    tokenizer: Tokenizer


@cache
def sentences(seed: int, longest: int = 8, count: int = 4000) -> Sentences:
    """Draw pairs of at most `longest` English words: `count` to train, 300 held out; and 300 longer pairs.

    They depend on the seed, so learning rates are not chosen on the sentences on which arms are compared.
    """
    short, long, tokenizer = pool(longest)
    random = np.random.default_rng(seed)
    drawn = [short[i] for i in random.permutation(len(short))[: count + 300]]
    longer = [long[i] for i in random.permutation(len(long))[:300]]
    return Sentences(drawn[:count], drawn[count:], longer, tokenizer)


@cache
def pool(longest: int) -> tuple[Ids, Ids, Tokenizer]:
    """Return all pairs of at most `longest` English words, longer pairs of known words, and the tokenizer."""
    pairs = phrasebook().train
    short = [pair for pair in pairs if len(pair[0].split()) <= longest]
    tokenizer = Tokenizer.train_word([text for pair in short for text in pair])
    ids = [(tokenizer.encode(english), tokenizer.encode(french)) for english, french in pairs]
    words = [len(english.split()) for english, _ in pairs]
    known = [tokenizer.unk_id not in [*english, *french] for english, french in ids]
    return (
        [pair for pair, n in zip(ids, words, strict=True) if n <= longest],
        [pair for pair, n, is_known in zip(ids, words, known, strict=True) if n >= longest + 2 and is_known],
        tokenizer,
    )


def translator(data: Sentences, **changes: Any) -> Transformer:
    """Create a small Transformer for these sentences: SMALL, with other settings in `changes`."""
    return Transformer(TransformerConfig(data.tokenizer.vocab_size, **(SMALL | changes)))


def train(
    model: nn.Module, data: Sentences, rate: float, steps: int, seed: int, rows: int = 32,
    smoothing: float = 0.0, warmup: int | None = None,
) -> list[float]:  # fmt: skip
    """Train on random batches, which depend on the seed only. Return the losses (see `minimize`)."""
    random = np.random.default_rng(seed)

    def loss() -> mg.Tensor:
        return token_loss(model, draw(data, random, rows), smoothing)

    return minimize(loss, model, rate, steps, warmup)


def draw(data: Sentences, random: np.random.Generator, rows: int = 32) -> Batch:
    """Draw a batch of the sentences to train on."""
    return collate([data.train[i] for i in random.integers(len(data.train), size=rows)], data.tokenizer)


def minimize(
    loss: Callable[[], mg.Tensor], model: nn.Module, rate: float, steps: int, warmup: int | None = None
) -> list[float]:
    """Train with Adam. Return the loss of each step; stop at a loss that is not finite.

    `loss` draws the batch of a step and returns its loss. The rate rises over the first tenth of the steps
    (or `warmup` steps), and falls linearly to 0.
    """
    warmup = max(1, steps // 10) if warmup is None else warmup
    optimizer = optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = rate * min(1, step / max(warmup, 1)) * (1 - (step - 1) / steps)
        value = loss()
        losses.append(value.item())
        if not math.isfinite(losses[-1]):
            break
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return losses


def token_loss(model: Any, batch: Batch, smoothing: float = 0.0) -> mg.Tensor:
    logits = model(batch["source"], batch["target_in"])  # (B, T, V)
    return F.cross_entropy(
        logits.flatten(0, 1), batch["target"].reshape(-1), ignore_index=IGNORE, label_smoothing=smoothing
    )


@mg.no_grad()
def held_out_loss(model: nn.Module, data: Sentences) -> float:
    """The loss on held-out sentences in nats per token, at most log V, that of a uniform guess."""
    model.eval()
    loss = token_loss(model, collate(data.held_out, data.tokenizer)).item()
    model.train()
    guess = math.log(data.tokenizer.vocab_size)
    return min(loss, guess) if math.isfinite(loss) else guess


@mg.no_grad()
def probabilities(model: Any, pairs: Ids, data: Sentences) -> tuple[np.ndarray, np.ndarray]:
    """Return each next word's distribution (N, V), given the right previous words; and right words (N,)."""
    batch = collate(pairs, data.tokenizer)
    model.eval()
    p = F.softmax(model(batch["source"], batch["target_in"]), -1).numpy()
    model.train()
    is_real = batch["target"] != IGNORE
    return p[is_real], batch["target"][is_real]


def token_error(model: Any, pairs: Ids, data: Sentences) -> float:
    """The fraction of next words that are wrong, given the right previous words."""
    p, right = probabilities(model, pairs, data)
    return float((p.argmax(-1) != right).mean())


def translations(model: nn.Module, pairs: Ids, data: Sentences) -> Any:
    """The translation of each pair's source by greedy decoding, as ids."""
    model.eval()
    sources = [[*source, data.tokenizer.end_id] for source, _ in pairs]
    written = generate(model, sources, max_new_tokens=24)
    model.train()
    return written


def sentence_error(model: nn.Module, pairs: Ids, data: Sentences) -> float:
    """The fraction of sentences that greedy decoding does not translate word for word."""
    written = translations(model, pairs, data)
    return float(np.mean([ids != target for ids, (_, target) in zip(written, pairs, strict=True)]))


def size(model: nn.Module) -> int:
    """The number of parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())


def attentions(model: nn.Module) -> Sequence[Any]:
    """All attention modules of a model."""
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
