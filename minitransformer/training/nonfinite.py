"""Errors for a loss or gradients that are not finite. They name the first module with such an output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minigrad.core import random
from minigrad.core.errors import NonFiniteError


def nonfinite_step(
    trainer: Any, step: int, batch: Any, loss: float, norm: float, note: str = ""
) -> NonFiniteError:
    """The error for a step whose loss or gradient norm is not finite."""
    problem = f"the loss is {loss:.4g}, the gradient norm {norm:.4g}{note}"
    forward = lambda: trainer.task.loss(trainer.model, batch, trainer.config.label_smoothing)
    return nonfinite_error(trainer, step, problem, forward)


def nonfinite_error(trainer: Any, step: int, problem: str, forward: Callable[[], Any]) -> NonFiniteError:
    """The error for a failed step. It runs `forward` again to find the first module that is not finite."""
    from minigrad.debug import first_nonfinite  # slow to import

    random.set_step(step)
    with trainer.matmul_precision():
        module = first_nonfinite(trainer.model, trainer.autocast(forward))
    where = (
        f"first in module {module}"
        if module
        else "in the backward pass only: the forward pass is finite"
        if module is None
        else "first outside of the modules: in the logits or the loss"
    )
    return NonFiniteError(
        f"step {step}: {problem}, {where}; {trainer.describe_last_checkpoint()}.\n"
        f"Lower the learning rate (--lr) or increase --warmup-steps, and start over with --overwrite."
    )
