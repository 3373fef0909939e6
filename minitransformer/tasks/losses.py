"""Losses of targets: their sum, for training, and the loss of each target, for scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, no_grad
from minigrad.nn import functional as F

from ..data.batching import IGNORE, is_classes
from ..errors import UserError
from .scores import Score

_unsmoothed: ContextVar[list[Tensor] | None] = ContextVar("_unsmoothed", default=None)


@contextmanager
def record_unsmoothed_losses() -> Iterator[list[Tensor]]:
    """A context manager that gives a list; `loss_sum` appends its losses to it, without label smoothing."""
    found: list[Tensor] = []
    token = _unsmoothed.set(found)
    try:
        yield found
    finally:
        _unsmoothed.reset(token)


def loss_sum(logits: Tensor, target: np.ndarray, label_smoothing: float) -> Tensor:
    """The cross-entropy of logits (..., V), summed over the targets (...) that are not IGNORE."""
    rows = logits.reshape(-1, logits.shape[-1])
    loss = partial(F.cross_entropy, ignore_index=IGNORE, reduction="sum")
    if (unsmoothed := _unsmoothed.get()) is not None:
        with no_grad():
            unsmoothed.append(loss(rows.detach(), target.reshape(-1)))
    return loss(rows, target.reshape(-1), label_smoothing=label_smoothing)


def squared_errors(predictions: Tensor, target: Any) -> Tensor:
    """The mean squared error of each example, a tensor (examples,). Raise a UserError if shapes differ."""
    target = target if isinstance(target, Tensor) else Tensor(target)
    if predictions.shape != target.shape:
        raise UserError(
            f"the model's output has shape {tuple(predictions.shape)}, "
            f"but the targets {tuple(target.shape)}.\n"
            f"Give them the same shape, or pass a loss."
        )
    return ((predictions - target) ** 2).reshape(len(target), -1).mean(1)


def target_statistics(logits: Tensor, target: np.ndarray) -> Float[np.ndarray, "*target sums"]:
    """Return the loss, whether the prediction is correct, and 1 for each target; all are 0 for IGNORE.

    The logits of classes are (..., V). If the targets are numbers, all numbers of an example count as one
    target, with two statistics: its mean squared error and 1.
    """
    if not is_classes(target):
        errors = squared_errors(logits, target).numpy()
        return np.stack([errors, np.ones_like(errors)], -1, dtype=np.float64)
    losses = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), target.reshape(-1), ignore_index=IGNORE, reduction="none"
    )
    correct = logits.argmax(-1).numpy() == target
    return np.stack([losses.numpy().reshape(target.shape), correct, target != IGNORE], -1, dtype=np.float64)


def target_scores(
    statistics: Float[np.ndarray, "examples sums"], accuracy: str = "accuracy"
) -> dict[str, Score]:
    """The mean loss and, for classes, the accuracy, given `target_statistics` summed over each example."""
    if not statistics[:, -1].any():
        raise UserError(
            "there is nothing to score: no target is in the training data.\n"
            "Pass examples with targets of the training data."
        )
    scores = {"loss": Score(statistics[:, [0, -1]])}
    return scores if statistics.shape[1] == 2 else scores | {accuracy: Score(statistics[:, 1:])}
