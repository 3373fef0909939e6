"""TensorBoard files with the numbers of the log: `train --tensorboard`, then `tensorboard --logdir runs`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..errors import UserError
from .callbacks import Callback
from .storage import EVENTS


class TensorBoard(Callback):
    """Writes log entries and validation scores to a folder of event files.

    A resumed training adds a file, and TensorBoard hides the same and later steps of earlier files.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise UserError(
                "TensorBoard files are written by the package tensorboardX, which is not installed.\n"
                "Run pip install 'minitransformer[tensorboard]', or leave --tensorboard out."
            ) from None
        self.folder = folder
        self.new_writer = SummaryWriter

    def on_train_begin(self, trainer: Any) -> None:
        step = trainer.step  # part of the file's name, as files of the same second would have the same name
        self.writer = self.new_writer(
            str(self.folder), purge_step=step + 1, filename_suffix=f".step-{step}", flush_secs=10
        )

    def on_step_end(self, trainer: Any, entry: dict[str, float]) -> None:
        if trainer.due("log_every"):
            self._write("train", entry, trainer.step)

    def on_validation_end(self, trainer: Any, scores: dict[str, float]) -> None:
        self._write("validation", scores, trainer.step)

    def on_train_end(self, trainer: Any) -> None:
        self.writer.close()

    def _write(self, group: str, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            if name != "step" and math.isfinite(value):
                self.writer.add_scalar(f"{group}/{name}", value, step)


def clear(run: Path) -> None:
    """Delete the event files of a run, but no other files in their folder."""
    for path in (run / EVENTS).glob("events.out.tfevents.*.step-*"):
        path.unlink()
