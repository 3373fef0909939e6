"""A task that only needs positions: predict the word before each word of a sentence.

A sentence has different words in random order, so a word says nothing about the previous word.
"""

from __future__ import annotations

import numpy as np

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F

from ..layers.config import LayerConfig
from ..layers.embeddings import TokenEmbedding
from ..layers.encoder_decoder import Encoder
from ..layers.positions import Positions


class WordBefore(nn.Module):
    """Word and position embeddings, encoder layers, and a linear layer that predicts each previous word."""

    def __init__(
        self, positions: Positions, words: int = 32, width: int = 32, d_ff: int = 64, layers: int = 1,
        word_width: int | None = None, is_causal: bool = False, start: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.words = words
        self.start = start  # the position of the first word
        self.embedding = TokenEmbedding(words, word_width or width)
        self.positions = positions
        self.encoder = Encoder(layers, LayerConfig(d_model=width, num_heads=2, d_ff=d_ff), is_causal)
        self.output = nn.Linear(width, words)

    def forward(self, ids: np.ndarray) -> mg.Tensor:  # (B, T)
        return self.output(self.encoder(self.positions(self.embedding(ids), self.start)))  # (B, T, words)


def spare_d_ff(count: int, width: int = 32) -> int:
    """The width that must be added to d_ff for a feed-forward network to have `count` more parameters."""
    return round(count / (2 * width + 1))


def draw(random: np.random.Generator, count: int, length: int, words: int = 32) -> np.ndarray:
    """Draw sentences (count, length), each of different words."""
    return random.permuted(np.tile(np.arange(words), (count, 1)), axis=1)[:, :length]


def loss_of(model: WordBefore, ids: np.ndarray, back: int = 1) -> mg.Tensor:
    """The cross-entropy of the words `back` positions before each word, in nats."""
    return F.cross_entropy(model(ids)[:, back:].flatten(0, 1), ids[:, :-back].flatten())


def train(
    model: WordBefore, random: np.random.Generator, rate: float, steps: int,
    lengths: tuple[int, int] = (12, 12), back: int = 1,
) -> list[float]:  # fmt: skip
    """Train with Adam, at each step on 32 new sentences of a random length in the range `lengths`.

    The rate rises over the first tenth of the steps, and falls linearly to 0. Return the loss of each step.
    """
    optimizer = optim.Adam(model.parameters(), lr=rate)
    losses = []
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = rate * min(1, 10 * step / steps) * (1 - (step - 1) / steps)
        length = random.integers(lengths[0], lengths[1], endpoint=True)
        loss = loss_of(model, draw(random, 32, length, model.words), back)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


@mg.no_grad()
def held_out_loss(
    model: WordBefore, random: np.random.Generator, lengths: tuple[int, int] = (12, 12), back: int = 1
) -> float:
    """The mean loss over 100 new sentences of each length."""
    each = range(lengths[0], lengths[1] + 1)
    return float(np.mean([loss_of(model, draw(random, 100, n, model.words), back).item() for n in each]))


@mg.no_grad()
def errors(model: WordBefore, random: np.random.Generator, length: int, back: int = 1) -> np.ndarray:
    """The fraction of wrong predictions at each position that has a previous word."""
    ids = draw(random, 400, length, model.words)
    return (model(ids).numpy()[:, back:].argmax(-1) != ids[:, :-back]).mean(0)
