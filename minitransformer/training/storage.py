"""The files of a run folder: their names, who may write them, and how.

Only one process at a time trains in a folder. It holds `.lock`, which the system releases when the process
ends, even if it is killed. It also writes its process id to `.owner.json`, so that it notices if somebody
deletes or replaces the folder (`check_owner`). An evaluation may run during a training, and holds
`.evaluation.lock` while it writes.
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
README = "README.md"  # see cli/readme.py; never deleted, as the user may have edited it
WRITTEN = (*RUN_FILES, OWNER, README)


class RunError(UserError):
    """The error for a folder that is missing or in use, has another run, or is not a run folder."""


class FolderLostError(UserError):
    """The error for a training whose folder was deleted or replaced. The exit code is 1."""

    exit_code = 1


# ---------------------------------------------------------------- who may write


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """A context in which no other process trains in the folder. It may be nested.

    The folder is created if it does not exist, and temporary files of a killed process are deleted. If
    another process trains there, a RunError names it.
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
        check_owner(folder)  # if the folder is lost, that is the error to report
        raise
    finally:
        if held.lock_counter == 1 and _is_owner(folder):
            (folder / OWNER).unlink()
        held.release()


def check_owner(folder: Path) -> None:
    """Raise a FolderLostError if this process has locked a folder that is no longer at its path.

    Somebody may have deleted or moved it, and even have started another training there.
    """
    if _lock_of(folder).is_locked and not _is_owner(folder):
        raise FolderLostError(
            f"{folder} no longer belongs to this training: it was deleted, moved or replaced. "
            f"The training stops, and changes nothing there.\n"
            f"Train in a folder that nobody else changes; --resume continues one that was moved."
        )


def _lock_of(folder: Path) -> FileLock:
    """The lock of a folder. While it is held, all calls return the same object."""
    return FileLock(folder.resolve() / LOCK, timeout=0, is_singleton=True)


def _owner(folder: Path) -> dict[str, Any]:
    """The process that trains in a folder, from `.owner.json`; empty if the file cannot be read."""
    with suppress(UserError):
        return read_json(folder / OWNER, {"pid": int, "host": str, "since": str})
    return {}


def _is_owner(folder: Path) -> bool:
    owner = _owner(folder)
    return (owner.get("pid"), owner.get("host")) == (os.getpid(), platform.node())


def _describe_owner(folder: Path) -> str:
    """Describe the process that has locked a folder. Wait up to 2.5 s for it to write its id."""
    for _ in range(50):
        if owner := _owner(folder):
            return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
        time.sleep(0.05)
    return "another process"


@contextmanager
def lock_evaluation(folder: Path) -> Iterator[None]:
    """A context in which no other evaluation writes to a run folder, and no new training starts there.

    Raises an OSError if another process holds the lock for 10 seconds.
    """
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
    """Raise an OSError unless the folder contains the run with this id."""
    with suppress(UserError):
        if read_json(folder / RECORD, {"id": str})["id"] == expected:
            return
    raise OSError(errno.ENOENT, "the folder no longer contains that run", str(folder))


def check_links(folder: Path) -> None:
    """Raise a RunError if a file of the run is a link: in somebody else's run, it may point anywhere."""
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
    """Write files that belong together. All are written to temporary files before the first is replaced.

    The files in `marks` are deleted before the first file is replaced, and written last. So if the last mark
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
    """Whether this is the name of a temporary file of one of the files `of`."""
    found = LEFTOVER.fullmatch(name)
    return found is not None and found["name"] in of


def delete_leftovers(folder: Path, of: Collection[str]) -> None:
    """Delete the temporary files of the files `of` that a killed process left in a folder."""
    for path in folder.iterdir():
        if is_leftover(path.name, of):
            path.unlink()


def now() -> str:
    """The local time with the time zone, such as 2026-01-31 14:00:00+01:00."""
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
