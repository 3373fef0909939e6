"""The files of a run folder, and the lock of one, which removes what a killed process left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minigrad.io import LEFTOVER

from .checkpoint import Checkpoints
from .directory import Directory
from .lock import OWNER, Held, hold

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
    """Hold the folder, which is made if it is missing. A RunError names the process that holds it already."""
    with hold(path) as held:
        _remove_leftovers(held)
        yield held


def _remove_leftovers(folder: Directory) -> None:
    """Remove what a killed training or evaluation left: temporary files, and half-written checkpoints."""
    with folder.exclusive():
        folder.delete_leftovers(WRITTEN)
    Checkpoints(folder.path / "checkpoints").remove_leftovers()


def is_leftover(name: str) -> bool:
    found = LEFTOVER.fullmatch(name)
    return found is not None and found["name"] in WRITTEN
