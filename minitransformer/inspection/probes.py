"""Linear probes: how well logistic regression predicts a property of words from the states of each layer.

    states = layer_states(model, ids)
    print(probe_layers(states, labels, mask=ids != 0, words=ids))

If a linear classifier of a layer's states predicts a property of held-out words, the layer represents it in a
form that the next layer can use (Alain and Bengio 2016, "Understanding intermediate layers using linear
classifier probes"). Accuracy alone says little, so it is compared with the share of the most frequent label,
and with the accuracy of the same probe on random labels, which it can only memorize (Hewitt and Liang 2019,
"Designing and Interpreting Probes with Control Tasks").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from rich.console import Group
from rich.table import Table

import minigrad as mg
from minigrad import Tensor, optim
from minigrad.nn import functional as F

from ..errors import UserError, counted
from ..module_names import readable_name
from .printing import table_text

STEPS = 100  # the most steps of L-BFGS, which needs fewer


@dataclass(frozen=True, repr=False)
class ProbeScores:
    """The held-out accuracy of probes by layer, with a control on random labels, and the majority's share."""

    layers: list[str]
    accuracy: Float[np.ndarray, " L"]
    control: Float[np.ndarray, " L"]
    majority: float
    examples: tuple[int, int]  # the numbers of examples for training, and held out

    @property
    def selectivity(self) -> Float[np.ndarray, " L"]:
        """How much the accuracy exceeds the control's, by layer."""
        return self.accuracy - self.control

    def __rich__(self) -> Group:
        table = Table("states", box=None, pad_edge=False)
        for name in ("accuracy", "control", "selectivity"):
            table.add_column(name, justify="right")
        for name, *scores in zip(self.layers, self.accuracy, self.control, self.selectivity, strict=True):
            table.add_row(readable_name(name), *(f"{score:.2f}" for score in scores))
        trained, held_out = self.examples
        sizes = f"{trained:,} examples for training, {held_out:,} held out"
        return Group(table, f"majority {self.majority:.2f}; {sizes}")

    def __repr__(self) -> str:
        return table_text(self)


def probe_layers(
    states: Mapping[str, Any],
    labels: Any,
    mask: Any = None,
    words: Any = None,
    held_out: float = 0.25,
    seed: int = 0,
) -> ProbeScores:
    """Train a linear probe on the states of each layer, and score it on sentences that are held out.

    `states` are (B, T, D) by name, as `layer_states` returns them. `labels` are integers or strings, (B, T)
    for tokens or (B,) for sentences, whose vectors are the mean of their tokens' states. `mask` (B, T) is
    True for the tokens to include. `held_out` is the share of the sentences that are used for scoring.

    The control has random labels. If `words` (B, T) are given, a label is drawn for each distinct word, which
    a probe can memorize as easily as a true property of words. Otherwise the labels are shuffled.
    """
    if not 0 < held_out < 1:
        raise UserError(
            f"held_out = {held_out!r} is out of range.\nChoose a share between 0 and 1, such as 0.25."
        )
    labels = _array(labels)
    mask = None if mask is None else _array(mask).astype(bool)
    vectors = {name: _features(name, _array(x), labels, mask) for name, x in states.items()}
    chosen = mask if mask is not None and labels.ndim == 2 else np.ones(labels.shape, dtype=bool)
    names, y = np.unique(labels[chosen], return_inverse=True)
    random = np.random.default_rng(seed)
    is_held_out = _held_out_sentences(len(labels), held_out, random)[chosen.nonzero()[0]]
    counts = np.bincount(y[~is_held_out], minlength=len(names))
    if np.count_nonzero(counts) < 2 or not is_held_out.any():
        raise UserError(
            f"{counted(len(y), 'label')} of {counted(len(names), 'kind')} cannot be split: a probe needs two "
            f"kinds for training, and some labels that are held out.\nPass more sentences."
        )
    drawn = random.permutation(y) if words is None else _labels_of_words(_array(words)[chosen], y, random)
    pairs = [
        [held_out_accuracy(x, each, len(names), is_held_out) for each in (y, drawn)] for x in vectors.values()
    ]
    accuracy, control = np.array(pairs).T
    majority = float((y[is_held_out] == counts.argmax()).mean())
    sizes = int((~is_held_out).sum()), int(is_held_out.sum())
    return ProbeScores([*vectors], accuracy, control, majority, sizes)


def _array(values: Any) -> np.ndarray:
    return values.numpy() if isinstance(values, Tensor) else np.asarray(values)


def _features(
    name: str, x: np.ndarray, labels: np.ndarray, mask: np.ndarray | None
) -> Float[np.ndarray, "N D"]:
    """The vector that belongs to each label: the state of a token, or the mean state of a sentence."""
    has_mean = labels.ndim == 1 and x.ndim == 3
    fits = x.ndim == labels.ndim + 1 + has_mean and x.shape[: labels.ndim] == labels.shape
    if labels.ndim not in (1, 2) or not fits or (mask is not None and mask.shape != x.shape[:-1]):
        of_mask = "" if mask is None else f" and a mask {mask.shape}"
        raise UserError(
            f"labels {labels.shape}{of_mask} for the states {name!r}, {x.shape}.\n"
            f"Pass states (B, T, D), labels (B, T) or (B,), and a mask (B, T)."
        )
    x = x.astype(np.float64)
    if has_mean:
        weights = np.ones(x.shape[:2]) if mask is None else mask
        return np.einsum("btd,bt->bd", x, weights) / np.maximum(weights.sum(1, keepdims=True), 1)
    return x[np.ones(labels.shape, dtype=bool) if mask is None else mask]


def _held_out_sentences(count: int, share: float, random: np.random.Generator) -> Bool[np.ndarray, " B"]:
    """Which sentences are held out. Sentences are not split, as their words are not independent."""
    is_held_out = np.zeros(count, dtype=bool)
    is_held_out[random.permutation(count)[: round(share * count)]] = True
    return is_held_out


def _labels_of_words(
    words: np.ndarray, y: Int[np.ndarray, " N"], random: np.random.Generator
) -> Int[np.ndarray, " N"]:
    """The label of each word, where every distinct word gets a random label, as frequent as in y."""
    kinds, kind_of = np.unique(words, return_inverse=True)
    return random.choice(y, len(kinds))[kind_of]


def held_out_accuracy(
    x: Float[np.ndarray, "N D"], y: Int[np.ndarray, " N"], classes: int, is_held_out: Bool[np.ndarray, " N"]
) -> float:
    """The share of the held-out labels that a probe predicts after training on the others."""
    weight, bias = fit_logistic_regression(x[~is_held_out], y[~is_held_out], classes)
    predicted = (x[is_held_out] @ weight.T + bias).argmax(-1)
    return float((predicted == y[is_held_out]).mean())


@mg.enable_grad()
def fit_logistic_regression(
    x: Float[np.ndarray, "N D"], y: Int[np.ndarray, " N"], classes: int
) -> tuple[Float[np.ndarray, "classes D"], Float[np.ndarray, " classes"]]:
    """The weight and the bias that minimize the mean cross-entropy + |weight|^2 / 2N.

    The penalty applies to the weight of standardized features, with mean 0 and variance 1. The loss is convex
    and L-BFGS starts at zeros, so the result is deterministic.
    """
    mean = x.mean(0)
    spread = np.where(x.std(0) > 0, x.std(0), 1)
    inputs = mg.tensor((x - mean) / spread)
    target = mg.tensor(y)
    weight = mg.zeros(classes, x.shape[1], dtype=mg.float64, requires_grad=True)
    bias = mg.zeros(classes, dtype=mg.float64, requires_grad=True)
    optimizer = optim.LBFGS([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(F.linear(inputs, weight, bias), target)
        loss = loss + weight.square().sum() / (2 * len(x))
        loss.backward()
        return loss

    optimizer.step(closure)
    scaled = weight.numpy() / spread
    return scaled, bias.numpy() - scaled @ mean
