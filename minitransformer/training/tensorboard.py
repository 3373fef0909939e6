"""TensorBoard files, beside log.jsonl: `train --tensorboard`, then `tensorboard --logdir runs`."""

from __future__ import annotations

import math
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Any

from ..errors import UserError
from .callbacks import Callback
from .directory import Directory
from .lock import open_folder

EVENTS = "tensorboard"  # the subfolder of the run folder
EVENT_FILE = re.compile(r"events\.out\.tfevents\.\d+\..*\.step-\d+(\.[0-9a-f]{16})?")


class TensorBoard(Callback):
    """Writes log entries and validation scores to a folder of event files.

    A resumed training adds a file: TensorBoard then hides later steps of earlier files.
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
        step = trainer.step  # in the name, since files created in the same second would have the same one
        unpredictable = secrets.token_hex(8)  # so that nobody can have created a link of this name
        with (
            open_folder(self.folder.parent, create=True) as run,
            run.folder(self.folder.name, create=True) as own,
        ):
            self.writer = self.new_writer(
                _path_of(own),
                purge_step=step + 1,
                filename_suffix=f".step-{step}.{unpredictable}",
                flush_secs=10,
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


def _path_of(folder: Directory) -> str:
    """A path to an open folder, which on Linux leads there even if the folder is moved."""
    path = f"/proc/self/fd/{folder.fd}"
    return path if folder.fd is not None and os.path.isdir(path) else str(folder.path)


def clear(run: Directory) -> None:
    """Delete the event files of a run, and nothing else in their folder."""
    if not run.kind(EVENTS):
        return
    with run.folder(EVENTS) as folder:
        for name in folder.names():
            if EVENT_FILE.fullmatch(name) and stat.S_ISREG(folder.kind(name)):
                folder.delete(name)
