"""The names of a run folder's files, and its lock, which removes the leftovers of a killed process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minigrad.io import LEFTOVER

from .checkpoint import Checkpoints
from .directory import Directory
from .lock import OWNER, LockedFolder, acquire_lock

METRICS = "metrics.json"
STATISTICS = "statistics.safetensors"
PREDICTIONS = ("predictions.txt", "predictions.hyp", "predictions.ref", "predictions.src")
EVALUATION_FILES = (METRICS, *PREDICTIONS, STATISTICS)
RUN_FILES = (
    "run.json", "config.toml", "tokenizer.json", "log.jsonl", "curves.png", "diagnostics.png",
    *EVALUATION_FILES,
)  # fmt: skip
README = "README.md"  # see cli/readme.py; never deleted, since somebody may have edited it
WRITTEN = (*RUN_FILES, OWNER, README)


@contextmanager
def lock(path: Path) -> Iterator[LockedFolder]:
    """A context with a run folder locked, and leftovers of a killed process removed (see `acquire_lock`)."""
    with acquire_lock(path) as held:
        _remove_leftovers(held)
        yield held


def _remove_leftovers(folder: Directory) -> None:
    """Remove the temporary files and incomplete checkpoints of a killed process."""
    with folder.exclusive():
        folder.delete_leftovers(WRITTEN)
    Checkpoints(folder.path / "checkpoints").remove_leftovers()


def is_leftover(name: str) -> bool:
    """Whether a name is that of a temporary file of a run's file."""
    found = LEFTOVER.fullmatch(name)
    return found is not None and found["name"] in WRITTEN
