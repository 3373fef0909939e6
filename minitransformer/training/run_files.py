"""The files of a run folder, and its lock, which removes the leftovers of a killed process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minigrad.io import LEFTOVER

from .checkpoint import Checkpoints
from .directory import Directory
from .lock import OWNER, Held, acquire_lock

METRICS = "metrics.json"
STATISTICS = "statistics.safetensors"
PREDICTIONS = ("predictions.txt", "predictions.hyp", "predictions.ref", "predictions.src")
EVALUATION_FILES = (METRICS, *PREDICTIONS, STATISTICS)
RUN_FILES = (
    "run.json", "config.toml", "tokenizer.json", "log.jsonl", "curves.png", "diagnostics.png",
    *EVALUATION_FILES,
)  # fmt: skip
README = "README.md"  # see runs/readme.py; it is deleted with no run, since somebody may have edited it
WRITTEN = (*RUN_FILES, OWNER, README)


@contextmanager
def lock(path: Path) -> Iterator[Held]:
    """Lock the folder, which is created if missing. A RunError names the process that already has the
    lock."""
    with acquire_lock(path) as held:
        _remove_leftovers(held)
        yield held


def _remove_leftovers(folder: Directory) -> None:
    """Remove the leftovers of a killed training or evaluation: temporary files, and incomplete
    checkpoints."""
    with folder.exclusive():
        folder.delete_leftovers(WRITTEN)
    Checkpoints(folder.path / "checkpoints").remove_leftovers()


def is_leftover(name: str) -> bool:
    found = LEFTOVER.fullmatch(name)
    return found is not None and found["name"] in WRITTEN
