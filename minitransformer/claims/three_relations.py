"""A synthetic task that needs three relations at once, and a model with a single attention layer for it.

A sentence has six letters, each twice, and a full stop, in any order; each of its 13 tokens has one of 8
colours. For each token the model names three colours: that of the previous token, of the same letter
elsewhere, and of the full stop.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

import minigrad as mg
from minigrad import Tensor, nn, optim
from minigrad.nn import functional as F

from ..layers.attention import MultiHeadAttention

LETTERS = np.array(list("abcdef."))
STOP, COLOURS, LENGTH = 6, 8, 13
NAMES = ["previous token", "same word", "punctuation"]  # inspection/relations.py has the same names
IGNORED = -100  # the loss ignores tokens without an answer


def make_batch(n: int, random: np.random.Generator) -> tuple[Int[np.ndarray, "N T"], Int[np.ndarray, "N T"]]:
    """Draw n sentences. Return their letters and their colours, each (n, 13)."""
    order = random.random((n, LENGTH)).argsort(-1)  # sorting random numbers shuffles each sentence
    letters = np.array([*range(6), *range(6), STOP])[order]
    return letters, random.integers(COLOURS, size=(n, LENGTH))


def answers(letters: Int[np.ndarray, "N T"], colours: Int[np.ndarray, "N T"]) -> Int[np.ndarray, "3 N T"]:
    """Return the colours to predict for each relation, with IGNORED where there is no answer."""
    right = np.full((3, *letters.shape), IGNORED)
    right[0, :, 1:] = colours[:, :-1]  # the colour of the previous token
    row = np.arange(len(letters))
    for letter in range(6):
        first, second = np.nonzero(letters == letter)[1].reshape(-1, 2).T  # its positions in each sentence
        right[1, row, first] = colours[row, second]
        right[1, row, second] = colours[row, first]
    right[2] = colours[letters == STOP][:, None]  # one for each sentence
    right[2, letters == STOP] = IGNORED
    return right


class OneLayer(nn.Module):
    """A single attention layer between embeddings and a linear output. Nothing else can move a colour."""

    def __init__(self, width: int, attention: MultiHeadAttention) -> None:
        super().__init__()
        self.letter = nn.Embedding(7, width)
        self.colour = nn.Embedding(COLOURS, width)
        self.position = nn.Embedding(LENGTH, width)
        self.self_attention = attention
        self.output = nn.Linear(width, 3 * COLOURS)

    def forward(
        self, letters: Int[np.ndarray, "B T"], colours: Int[np.ndarray, "B T"]
    ) -> Float[Tensor, "3 B T C"]:
        x = self.letter(letters) + self.colour(colours) + self.position(np.arange(LENGTH))  # (B, T, d)
        logits = self.output(x + self.self_attention(x))  # (B, T, 3 * 8)
        return logits.reshape(*letters.shape, 3, COLOURS).permute(2, 0, 1, 3)


def train_layer(model: nn.Module, rate: float, steps: int, seed: int) -> nn.Module:
    """Train with Adam on random sentences, which depend on the seed only. The rate falls linearly to 0."""
    random = np.random.default_rng(seed)
    optimizer = optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        loss = colour_loss(model, *make_batch(48, random))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def colour_loss(model: nn.Module, letters: Int[np.ndarray, "B T"], colours: Int[np.ndarray, "B T"]) -> Tensor:
    """The mean cross-entropy over all colours to predict, in nats."""
    target = answers(letters, colours)
    return F.cross_entropy(
        model(letters, colours).reshape(-1, COLOURS), target.reshape(-1), ignore_index=IGNORED
    )


def held_out(seed: int, n: int = 300) -> tuple[Int[np.ndarray, "N T"], Int[np.ndarray, "N T"]]:
    """Draw sentences with other random numbers than those of the training data."""
    return make_batch(n, np.random.default_rng([seed, 1]))


@mg.no_grad()
def layer_scores(model: nn.Module, seed: int) -> dict[str, float]:
    """The loss and the fraction of wrong colours, on held-out sentences."""
    sentences = held_out(seed)
    return {
        "loss": colour_loss(model, *sentences).item(),
        "error": float(errors(model, *sentences).mean()),
    }


@mg.no_grad()
def errors(model: nn.Module, letters: Int[np.ndarray, "B T"], colours: Int[np.ndarray, "B T"]) -> np.ndarray:
    """The fraction of colours that are wrong, for each relation (3,)."""
    right = answers(letters, colours)
    said = model(letters, colours).argmax(-1).numpy()
    return np.array([(said[r] != right[r])[right[r] != IGNORED].mean() for r in range(3)])
