"""Callbacks: code that runs during training, without changes to the trainer.

class Printer(Callback):
    def on_validation_end(self, trainer, scores):
        print(trainer.step, scores)

Trainer(model, task, config, folder, callbacks=[Printer()]).train()
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import UserError, check_choice, truncated_repr


class Callback:
    """The base class of callbacks, whose methods do nothing. Any object with some of these methods works.

    Callbacks run on rank 0, between steps. They may draw random numbers without affecting the training, but
    must not change the model. `trainer.step` is the number of completed steps.
    """

    def on_train_begin(self, trainer: Any) -> None:
        """Called before the first step of `Trainer.train`, also after `resume`."""

    def on_step_end(self, trainer: Any, entry: dict[str, float]) -> None:
        """Called after each step, with the gradients still in the parameters.

        If `trainer.due("log_every")`, `entry` is logged, with the numbers that this method has added to it.
        """

    def on_validation_end(self, trainer: Any, scores: dict[str, float]) -> None:
        """Called after each validation."""

    def on_checkpoint(self, trainer: Any, path: Path) -> None:
        """Called after a checkpoint is written to the folder `path`."""

    def on_train_end(self, trainer: Any) -> None:
        """Called after the last step, or after a signal stops training, but not after an error."""


EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_"))


class Callbacks:
    """A list of callbacks. `notify` calls an event's method on each callback that has it."""

    def __init__(self, callbacks: Iterable[Any]) -> None:
        self.callbacks = list(callbacks)
        self.methods = {
            event: [getattr(callback, event) for callback in self.callbacks if hasattr(callback, event)]
            for event in EVENTS
        }
        for callback in self.callbacks:
            self._check(callback)

    def notify(self, event: str, *arguments: Any) -> None:
        for method in self.methods[event]:
            method(*arguments)

    def _check(self, callback: Any) -> None:
        """Raise a UserError for a class, an object without callback methods, or an unknown method."""
        named = [name for name in dir(callback) if name.startswith("on_")]
        if isinstance(callback, type) or not named:
            raise UserError(
                f"{truncated_repr(callback)} is not an object with callback methods.\n"
                f"Pass objects with some of {', '.join(EVENTS)}, as in callbacks=[Printer()]."
            )
        for name in named:
            check_choice(f"callback method of {type(callback).__name__}", name, EVENTS)
