"""A synthetic task that needs depth: each token names a position, which must be looked up twice.

Token i is a number x[i]. One layer of attention can look up x[x[i]], the token at the position x[i]. The
answer is x[x[x[i]]], which needs a second look-up that depends on the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import minigrad as mg
from minigrad import Tensor, nn, optim
from minigrad.nn import functional as F

from ..layers.config import LayerConfig
from ..layers.encoder_decoder import EncoderLayer
from .sublayers import put_around

T = 6  # the number of tokens, and of values that a token may have
D = 32  # the width of the model


def examples(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw tokens and answers, both (count, T)."""
    x = random.integers(0, T, (count, T))
    once = np.take_along_axis(x, x, axis=1)  # x[x[i]]
    return x, np.take_along_axis(x, once, axis=1)  # x[x[x[i]]]


class Looker(nn.Module):
    """An encoder of `depth` layers with one of `sublayers.WAYS` around each sub-layer, and a last norm."""

    def __init__(self, way: str, depth: int) -> None:
        super().__init__()
        self.words = nn.Embedding(T, D)
        self.positions = nn.Embedding(T, D)
        config = LayerConfig(D, num_heads=4, d_ff=4 * D)
        self.layers = nn.ModuleList([EncoderLayer(config) for _ in range(depth)])
        self.output = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, T))
        put_around(self, D, way)

    def embed(self, ids: np.ndarray) -> Tensor:  # (B, T) -> (B, T, D)
        return self.words(ids) + self.positions(mg.arange(T))

    def forward(self, ids: np.ndarray) -> Tensor:  # (B, T) -> logits (B, T, T)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


def new_loss(losses: Sequence[float]) -> float:
    """The mean loss of the last 20 steps in nats per token, at most log T, that of a uniform guess.

    Each step has new examples, so this is a held-out loss.
    """
    loss = float(np.mean(losses[-20:]))
    return min(loss, math.log(T)) if math.isfinite(loss) else math.log(T)


def train(
    model: nn.Module, rate: float, steps: int, seed: int, warmup: int = 50
) -> tuple[list[float], list[float]]:
    """Train with AdamW on new examples in each step. Return the loss and accuracy of each step."""
    random = np.random.default_rng(seed)
    optimizer = optim.AdamW(model.parameters(), lr=rate)
    losses, right = [], []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / max(warmup, 1))
        x, y = examples(random, 48)
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), mg.tensor(y.reshape(-1)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        right.append(float((logits.numpy().argmax(-1) == y).mean()))
    return losses, right
