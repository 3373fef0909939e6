"""The lock of a run folder, which a training process holds while it writes there, and other writers.

A training owns its folder as long as the path leads to the same folder, `.lock` is the file that was locked,
and run.json names the run. That is checked before each change (`Held.check`): a training whose folder was
deleted, moved, or given to another run stops, and changes nothing more.
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
    """Raised for a folder that is missing, in use, contains another run, or is not a run folder."""


class FolderLostError(UserError):
    """Raised when the folder of a training no longer belongs to it: the training stops (exit code 1)."""

    exit_code = 1


def run_id(folder: Directory) -> str:
    """The run that run.json names; an empty string if there is none that can be read."""
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(folder.read(RECORD, JSON_LIMIT))
        return str(content.get("id", "")) if isinstance(content, dict) else ""
    return ""


def check_run(folder: Directory, expected: str) -> None:
    """Raise an OSError unless the folder is that of a run. A run of an older version has no id."""
    if expected and run_id(folder) != expected:
        raise DirectoryError(
            folder.path,
            "is not the folder of that run any more",
            "Start the command again when nobody else changes that folder.",
            errno.ESTALE,
        )


class Held(Directory):
    """A run folder that this process, and in it this thread, has locked.

    `run` is the id of the run that it is locked for, or an empty string while it has none.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.owner = (os.getpid(), threading.get_ident())
        self.run = ""
        self._file: int | None = None
        self._lock: tuple[int, ...] = ()
        self._record: tuple[int, ...] = ()

    def acquire(self) -> bool:
        """Lock the folder; False if another has done so."""
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
        return not self._problem()  # else somebody has just deleted or replaced it

    def close(self) -> None:
        """Release the lock, unless this process is a fork of the one that has it."""
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
            raise self._lost(problem)

    def replaced(self, path: Path) -> UserError:
        return self._lost(f"{printable(path)} was deleted, moved or replaced")

    def _lost(self, problem: str) -> FolderLostError:
        return FolderLostError(
            f"{printable(self.path)} does not belong to this training any more: {problem}. "
            f"The training stops; what is there now was left as it is.\n"
            f"Train in a folder that nobody else changes; --resume continues one that was moved."
        )

    def _problem(self) -> str:
        """Why the folder is not this training's any more; empty if it is."""
        if os.getpid() != self.owner[0]:
            return f"process {self.owner[0]} has it, of which this one is a fork"
        if not self.is_there():
            return "it was deleted, moved or replaced"
        if fcntl is not None and self._stamp(LOCK)[:2] != self._lock:
            return f"its {LOCK} was deleted or replaced"
        if self.run and self._stamp(RECORD) != self._record:  # written again, perhaps by this training
            if run_id(self) != self.run:
                return f"its {RECORD} is missing, or names another run"
            self._record = self._stamp(RECORD)
        return ""

    def _stamp(self, name: str) -> tuple[int, ...]:
        """A value that changes when a file is replaced, or written to."""
        with suppress(OSError):
            status = self.stat(name)
            return (*inode(status), status.st_mtime_ns, status.st_size)
        return ()

    def is_named(self, path: Path) -> bool:
        """Whether a path leads to this folder, or has led to it when it was locked."""
        if os.path.abspath(path) == self._absolute:
            return True
        with suppress(OSError):
            return inode(os.stat(path)) == self.inode
        return False

    def owner_of(self) -> str:
        """The process that locked the folder, if known."""
        with suppress(UserError):
            known = read_json(self.path / OWNER, {"pid": int, "host": str, "since": str})
            return f"process {known['pid']} on {known['host']} since {known['since']}"
        return ""


_held: list[Held] = []  # the folders that this process has locked, or of which it is a fork


def _held_at(path: Path) -> Held | None:
    """The locked folder that a path leads to, or has led to."""
    for held in _held:
        if held.is_named(path):
            return held
    return None


@contextmanager
def acquire_lock(path: Path) -> Iterator[Held]:
    """Lock a run folder, which is created if missing. A RunError names the process that already has the
    lock."""
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
        held.check()  # the failure may be that the folder is another one
        raise
    finally:
        if os.getpid() == held.owner[0]:
            with suppress(OSError, FolderLostError):
                held.delete(OWNER)
            _held.remove(held)
            held.close()


def _acquire(path: Path) -> Held:
    """Lock a folder, or raise a RunError that names its owner, which may be just about to write its name."""
    deadline = time.monotonic() + 5
    while True:
        path.mkdir(parents=True, exist_ok=True)
        held = Held(path)
        try:
            if held.acquire():
                owner = {"pid": os.getpid(), "host": platform.node(), "since": now()}
                held.write(OWNER, json_bytes(owner))
                return held
            holder = held.owner_of()
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
    """The run folder at a path, to write there: the one that this process has locked, or else another."""
    held = _held_at(path)
    if held is not None:
        yield held
        return
    if create:
        path.mkdir(parents=True, exist_ok=True)
    with Directory(path) as folder:
        yield folder


def now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
