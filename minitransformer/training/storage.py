"""The files of a run folder: their names, who may write them, and how.

One process at a time trains in a folder. It holds `.lock`, which the system frees when the process ends,
however it ends, and writes its name to `.owner.json`, by which it notices that somebody has deleted or
replaced the folder (`check_owner`). An evaluation, which may run beside a training, holds `.evaluation.lock`
while it writes.
"""

from __future__ import annotations

import errno
import os
import platform
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from minigrad.io import LEFTOVER, make_folder, replace, sync_folder, write_temporary

from ..errors import UserError
from ..files import read_json, write_json

LOCK = ".lock"
EVALUATION_LOCK = ".evaluation.lock"
OWNER = ".owner.json"
LOCKS = (LOCK, EVALUATION_LOCK, OWNER)

RECORD = "run.json"
LOG = "log.jsonl"
CHECKPOINTS = "checkpoints"
EVALUATIONS = "evaluations"
EVENTS = "tensorboard"
METRICS = "metrics.json"
STATISTICS = "statistics.safetensors"
PREDICTIONS = ("predictions.txt", "predictions.hyp", "predictions.ref", "predictions.src")
EVALUATION_FILES = (METRICS, *PREDICTIONS, STATISTICS)
RUN_FILES = (
    RECORD, "config.toml", "tokenizer.json", LOG, "curves.png", "diagnostics.png", *EVALUATION_FILES,
)  # fmt: skip
README = "README.md"  # see cli/readme.py; never deleted, since somebody may have edited it
WRITTEN = (*RUN_FILES, OWNER, README)


class RunError(UserError):
    """Raised for a folder that is missing, in use, of another run, or not a run folder."""


class FolderLostError(UserError):
    """Raised when a training has lost its folder; the training stops with exit code 1."""

    exit_code = 1


# ---------------------------------------------------------------- who may write


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """A context in which no other process trains in a folder. It is created if missing. May be nested.

    Raises a RunError that names the other process. Temporary files of a killed process are deleted.
    """
    held = _lock_of(folder)
    try:
        make_folder(folder)
        check_links(folder)
        held.acquire()
        if held.lock_counter == 1:
            write_json(folder / OWNER, {"pid": os.getpid(), "host": platform.node(), "since": now()})
            with lock_evaluation(folder):
                delete_leftovers(folder, WRITTEN)
    except Timeout:
        raise RunError(
            f"{folder} is in use by {_describe_owner(folder)}.\n"
            f"Wait until it ends, stop it, or choose another folder with --run-dir DIR."
        ) from None
    except OSError as error:
        held.release()
        raise RunError(
            f"cannot write to {folder}: {error.strerror}.\nChoose another with --run-dir DIR."
        ) from None
    except UserError:
        held.release()
        raise
    try:
        yield
    except OSError:
        check_owner(folder)  # the folder may be lost, which is then the error to report
        raise
    finally:
        if held.lock_counter == 1 and _is_owner(folder):
            (folder / OWNER).unlink()
        held.release()


def check_owner(folder: Path) -> None:
    """Raise a FolderLostError if this process has locked a folder that is no longer at its path.

    Somebody may have deleted it, and even have started another training there.
    """
    if _lock_of(folder).is_locked and not _is_owner(folder):
        raise FolderLostError(
            f"{folder} no longer belongs to this training: it was deleted, moved or replaced. "
            f"The training stops, and changes nothing there.\n"
            f"Train in a folder that nobody else changes; --resume continues one that was moved."
        )


def _lock_of(folder: Path) -> FileLock:
    """The lock of a folder, the same object for each call while it is held."""
    return FileLock(folder.resolve() / LOCK, timeout=0, is_singleton=True)


def _owner(folder: Path) -> dict[str, Any]:
    """The process that trains in a folder; empty if unknown."""
    with suppress(UserError):
        return read_json(folder / OWNER, {"pid": int, "host": str, "since": str})
    return {}


def _is_owner(folder: Path) -> bool:
    owner = _owner(folder)
    return (owner.get("pid"), owner.get("host")) == (os.getpid(), platform.node())


def _describe_owner(folder: Path) -> str:
    """The process that has locked a folder, which may not have written its name yet."""
    for _ in range(50):
        if owner := _owner(folder):
            return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
        time.sleep(0.05)
    return "another process"


@contextmanager
def lock_evaluation(folder: Path) -> Iterator[None]:
    """A context in which no other evaluation writes to a run folder, and no training starts there."""
    check_links(folder)
    held = FileLock(folder.resolve() / EVALUATION_LOCK, timeout=10)
    try:
        held.acquire()
    except Timeout:
        raise OSError(errno.EBUSY, "another evaluation is writing there", str(folder)) from None
    try:
        yield
    finally:
        held.release()


def check_run(folder: Path, expected: str) -> None:
    """Raise an OSError unless a folder has the run with this id."""
    with suppress(UserError):
        if read_json(folder / RECORD, {"id": str})["id"] == expected:
            return
    raise OSError(errno.ENOENT, "the folder no longer contains that run", str(folder))


def check_links(folder: Path) -> None:
    """Raise a RunError for links in place of a run's files: in a stranger's run, they may lead anywhere."""
    names = (*RUN_FILES, *LOCKS, CHECKPOINTS, EVALUATIONS, EVENTS)
    inner = [path for name in (CHECKPOINTS, EVALUATIONS) for path in (folder / name).glob("*")]
    for path in (*(folder / name for name in names), *inner):
        if path.is_symlink():
            raise RunError(
                f"{path} is a link; nothing was changed.\n"
                f"Replace it with a file or folder, or choose another folder with --run-dir DIR."
            )


# ---------------------------------------------------------------- writing


def write_all(folder: Path, files: Mapping[str, bytes], marks: Sequence[str] = ()) -> None:
    """Write files that belong together: first all to temporary files, then each replaces its old version.

    The files in `marks` are deleted before the first file is replaced, and written last: if the last mark
    exists, all files are from the same call.
    """
    temporary: dict[str, Path] = {}
    try:
        for name, content in files.items():
            temporary[name] = write_temporary(folder / name, content)
        for name in reversed(marks):
            (folder / name).unlink(missing_ok=True)
        sync_folder(folder)
        for name in sorted(files, key=lambda name: marks.index(name) if name in marks else -1):
            replace(temporary[name], folder / name)
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)


def is_leftover(name: str, of: Collection[str] = WRITTEN) -> bool:
    """Whether a name is that of a temporary file of one of these files."""
    found = LEFTOVER.fullmatch(name)
    return found is not None and found["name"] in of


def delete_leftovers(folder: Path, of: Collection[str]) -> None:
    """Delete the temporary files of these names that a killed process left in a folder."""
    for path in folder.iterdir():
        if is_leftover(path.name, of):
            path.unlink()


def now() -> str:
    """The local time, such as 2026-01-31 14:00:00+01:00."""
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
