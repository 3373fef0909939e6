"""The lock of a run folder, which a training holds while it writes there.

A training owns its folder as long as the path leads to the same folder, `.lock` is the file that was locked,
and run.json names the run. `LockedFolder.check` tests this before each change: a training whose folder was
deleted, moved, or taken by another run stops, and changes nothing more.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import UserError
from ..files import JSON_LIMIT, json_bytes, printable, read_json
from .directory import Directory, DirectoryError, fcntl, inode

LOCK = ".lock"
OWNER = ".owner.json"
RECORD = "run.json"


class RunError(UserError):
    """Raised for a folder that is missing, in use, of another run, or not a run folder."""


class FolderLostError(UserError):
    """Raised when a training has lost its folder; the training stops with exit code 1."""

    exit_code = 1


def run_id(folder: Directory) -> str:
    """The id of the run, from run.json; empty if it cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(folder.read(RECORD, JSON_LIMIT))
        return str(content.get("id", "")) if isinstance(content, dict) else ""
    return ""


def check_run(folder: Directory, expected: str) -> None:
    """Raise an OSError unless the folder has the expected run. Runs of older versions have an empty id."""
    if expected and run_id(folder) != expected:
        raise DirectoryError(
            folder.path,
            "no longer contains that run",
            "Start the command again when nobody else changes that folder.",
            errno.ESTALE,
        )


class LockedFolder(Directory):
    """A run folder that the current thread of this process has locked.

    `run` is the id of the run that it is locked for; empty while there is no run.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.owner = (os.getpid(), threading.get_ident())
        self.run = ""
        self._file: int | None = None
        self._lock: tuple[int, ...] = ()
        self._record: tuple[int, ...] = ()

    def acquire(self) -> bool:
        """Lock the folder; returns False if another process has locked it."""
        if fcntl is None:
            self._windows = FileLock(self.path / LOCK)
            with suppress(Timeout):
                self._windows.acquire(blocking=False)
                return True
            return False
        self._check_plain(LOCK)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        with self._naming(LOCK):
            self._file = os.open(self._at(LOCK), flags, 0o644, dir_fd=self.fd)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        self._lock = inode(os.fstat(self._file))
        return not self._problem()  # somebody may just have deleted or replaced it

    def close(self) -> None:
        """Release the lock, unless this process is a fork of the owner."""
        if fcntl is None:
            self._windows.release()
        elif self._file is not None:
            if os.getpid() == self.owner[0]:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = None
        super().close()

    def check(self) -> None:
        if problem := self._problem():
            raise self._lost_error(problem)

    def replaced_error(self, path: Path) -> UserError:
        return self._lost_error(f"{printable(path)} was deleted, moved or replaced")

    def _lost_error(self, problem: str) -> FolderLostError:
        return FolderLostError(
            f"{printable(self.path)} no longer belongs to this training: {problem}. "
            f"The training stops, and changes nothing there.\n"
            f"Train in a folder that nobody else changes; --resume continues one that was moved."
        )

    def _problem(self) -> str:
        """Why the folder no longer belongs to this training; empty if it does."""
        if os.getpid() != self.owner[0]:
            return f"process {self.owner[0]} locked it, and this process is a fork of that one"
        if not self.is_there():
            return "it was deleted, moved or replaced"
        if fcntl is not None and self._stamp(LOCK)[:2] != self._lock:
            return f"its {LOCK} was deleted or replaced"
        if self.run and self._stamp(RECORD) != self._record:  # rewritten, perhaps by this training
            if run_id(self) != self.run:
                return f"its {RECORD} is missing, or names another run"
            self._record = self._stamp(RECORD)
        return ""

    def _stamp(self, name: str) -> tuple[int, ...]:
        """A value that changes when a file is replaced or written to."""
        with suppress(OSError):
            status = self.stat(name)
            return (*inode(status), status.st_mtime_ns, status.st_size)
        return ()

    def is_at(self, path: Path) -> bool:
        """Whether a path leads to this folder, or led to it when it was locked."""
        if os.path.abspath(path) == self._absolute:
            return True
        with suppress(OSError):
            return inode(os.stat(path)) == self.inode
        return False

    def describe_owner(self) -> str:
        """The process that locked the folder; empty if unknown."""
        with suppress(UserError):
            known = read_json(self.path / OWNER, {"pid": int, "host": str, "since": str})
            return f"process {known['pid']} on {known['host']} since {known['since']}"
        return ""


_held: list[LockedFolder] = []  # folders that this process, or one that it is a fork of, has locked


def _held_at(path: Path) -> LockedFolder | None:
    """The locked folder that a path leads to, or led to."""
    for held in _held:
        if held.is_at(path):
            return held
    return None


@contextmanager
def acquire_lock(path: Path) -> Iterator[LockedFolder]:
    """A context with a run folder locked; the folder is created if missing.

    Raises a RunError that names the owner if another process has the lock.
    """
    held = _held_at(path)
    if held is not None and held.owner == (os.getpid(), threading.get_ident()):
        held.check()
        yield held
        return
    try:
        held = _acquire(path)
    except DirectoryError:
        raise
    except OSError as error:
        raise RunError(
            f"cannot write to {printable(path)}: {printable(error.strerror)}.\n"
            f"Choose another with --run-dir DIR."
        ) from None
    _held.append(held)
    try:
        yield held
        held.check()
    except (UserError, OSError):
        held.check()  # the folder may be lost, which is then the error to report
        raise
    finally:
        if os.getpid() == held.owner[0]:
            with suppress(OSError, FolderLostError):
                held.delete(OWNER)
            _held.remove(held)
            held.close()


def _acquire(path: Path) -> LockedFolder:
    """Lock a folder, or raise a RunError that names the owner, which may not have written its name yet."""
    deadline = time.monotonic() + 5
    while True:
        path.mkdir(parents=True, exist_ok=True)
        held = LockedFolder(path)
        try:
            if held.acquire():
                owner = {"pid": os.getpid(), "host": platform.node(), "since": now()}
                held.write(OWNER, json_bytes(owner))
                return held
            holder = held.describe_owner()
        except BaseException:
            held.close()
            raise
        held.close()
        if holder or time.monotonic() > deadline:
            raise RunError(
                f"{printable(path)} is in use by {holder or 'another process'}.\n"
                f"Wait until it ends, stop it, or choose another folder with --run-dir DIR."
            )
        time.sleep(0.05)


@contextmanager
def open_folder(path: Path, create: bool = False) -> Iterator[Directory]:
    """Open the run folder at a path for writing: the locked one, if this process has locked it."""
    held = _held_at(path)
    if held is not None:
        yield held
        return
    if create:
        path.mkdir(parents=True, exist_ok=True)
    with Directory(path) as folder:
        yield folder


def now() -> str:
    """The local time, such as 2026-01-31 14:00:00+01:00."""
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
