"""A training step that a `step_runner` runs, such as `minigrad.capture`, which replays it on a GPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad import Tensor

from ..data.batching import Batch
from ..errors import UserError
from .nonfinite import nonfinite_step

INTERVALS = ("log_every", "validate_every", "checkpoint_every")  # when one is due, the loss is read


class CapturedStep:
    """A trainer's step, from the batch to the update of the weights, run by a `step_runner`.

    The loss is read only when one of INTERVALS is due, because reading it waits for the GPU.
    """

    def __init__(self, trainer: Any, step_runner: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        if trainer.ranks.size > 1 or trainer.scaler.enabled:
            several = trainer.ranks.size > 1
            setting = "several ranks" if several else "float16 (its gradients are checked on the CPU)"
            raise UserError(
                f"a step with {setting} cannot be captured.\n"
                f"Leave --capture out, or train in one process and in bfloat16."
            )
        self.trainer = trainer
        self.run_step = step_runner(self._step)
        self._unread: tuple[Any, list[Any], Tensor] | None = None  # a step's batch, losses, norm
        self._timings: list[tuple[int, float]] = []  # tokens and seconds of each step since the loss was read
        self._metrics = {"loss": math.nan, "grad_norm": math.nan, "tokens_per_second": 0.0}

    def _step(self, parts: list[tuple[int, dict[str, Any]]], n_tokens: Any) -> tuple[list[Any], Tensor]:
        """Run the step as a function of arrays. Return the losses and the gradient norm."""
        trainer = self.trainer
        trainer.optimizer.zero_grad()
        losses = [trainer.forward_backward(Batch(arrays), first_row, n_tokens) for first_row, arrays in parts]
        norm = trainer.clip()
        trainer.optimizer.step()
        return losses, norm

    def run(self, batch: Any, parts: list[tuple[int, Any]], start: float) -> dict[str, float]:
        """Run one step, which began at the time `start`. Return the metrics that were read last."""
        trainer = self.trainer
        losses, norm = self.run_step(parts, np.array(max(batch.n_tokens, 1), np.float32))
        trainer.step += 1
        self._unread = batch, losses, norm
        due = any(map(trainer.due, INTERVALS))
        if due:
            self.read()
        seconds = time.perf_counter() - start
        self._timings.append((batch.n_tokens, seconds))
        trainer.seconds += seconds
        if due:
            tokens, seconds = map(sum, zip(*self._timings, strict=True))
            self._metrics["tokens_per_second"] = tokens / seconds
            self._timings = []
        return self._metrics

    def read(self) -> None:
        """Read the loss and gradient norm of the last step. Raise a NonFiniteError if they are not finite."""
        if self._unread is None:
            return
        batch, losses, norm = self._unread
        loss, nll = self.trainer.sum_losses(losses)
        grad_norm = norm.item()
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            raise nonfinite_step(self.trainer, self.trainer.step, batch, loss, grad_norm)
        self._metrics |= {"loss": loss, **self.trainer.comparable_loss(nll), "grad_norm": grad_norm}
        self._unread = None

    def forget(self) -> None:
        """Discard the unread loss, because the trainer is about to load another step."""
        self._unread = None
