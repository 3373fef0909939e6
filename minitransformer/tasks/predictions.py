"""Predictions for a user's input, as text for the terminal and as values for programs (`--json`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..files import one_line


class Prediction(NamedTuple):
    """A prediction as text and as JSON values. A text of several lines ends with a line feed."""

    text: str
    values: dict[str, Any]


def softmax(logits: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The softmax of logits, in float64."""
    powers = np.exp(logits - logits.max(), dtype=np.float64)
    return powers / powers.sum()


def likeliest(logits: Float[np.ndarray, " n"], names: Sequence[str], top: int) -> dict[str, float]:
    """The names of the `top` most likely classes, mapped to their probabilities."""
    probabilities = softmax(logits)
    return {names[i]: float(probabilities[i]) for i in np.argsort(-probabilities, kind="stable")[:top]}


def percentages(probabilities: dict[str, float]) -> str:
    """Format names and their probabilities: `statement 93.5%, question 6.5%`."""
    return ", ".join(f"{one_line(name)} {probability:.1%}" for name, probability in probabilities.items())


def unique_names(names: Sequence[str]) -> list[str]:
    """Append the class number to names that several classes have, such as ImageNet's two "crane"."""
    counts = Counter(names)
    return [name if counts[name] == 1 else f"{name} ({i})" for i, name in enumerate(names)]


def class_prediction(logits: Float[np.ndarray, " n"], names: Sequence[str], top: int) -> Prediction:
    """Return the likeliest class, with the `top` most likely classes as candidates."""
    probabilities = likeliest(logits, unique_names(names), top)
    name, probability = next(iter(probabilities.items()))
    return Prediction(
        percentages(probabilities),
        {"prediction": name, "probability": probability, "candidates": probabilities},
    )


def text_prediction(text: str) -> Prediction:
    """Return a text that the model generated as a prediction."""
    return Prediction(text, {"prediction": text})
