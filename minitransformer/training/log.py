"""The log of a run, with one JSON object per line: an entry for each logged step and each validation."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from minigrad.io import write_atomically

from ..errors import UserError
from ..files import to_json
from .storage import check_owner


def disk_is_full(error: BaseException) -> bool:
    """Whether the error means that the disk, or the user's quota, is full."""
    return getattr(error, "errno", None) in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


class Log:
    """Appends entries to a log file, or discards them if `path` is None.

    If the disk is full, entries are kept in memory and written later.
    """

    def __init__(self, path: Path | None, warn: Callable[[str], None]) -> None:
        self.path = path
        self.warn = warn
        self.unwritten = b""
        self.warned = False
        self._flush()

    def __enter__(self) -> Log:
        return self

    def write(self, entry: dict[str, Any]) -> None:
        """Append an entry. Raise a UserError for values that JSON cannot represent."""
        try:
            self.unwritten += to_json(entry).encode() + b"\n"
        except TypeError as error:
            kinds = ", ".join(f"{name} ({type(value).__name__})" for name, value in entry.items())
            raise UserError(
                f"log entries must be numbers and strings: {error}. The entry has {kinds}.\n"
                f"Convert the values that a callback adds, for example with .item()."
            ) from None
        try:
            self._flush()
            self.warned = False
        except OSError as error:
            if not disk_is_full(error):
                raise
            if not self.warned:
                self.warn(f"{self.path}: {error.strerror}; its lines are kept in memory until they fit")
            self.warned = True

    def _flush(self) -> None:
        """Write all unwritten entries. The file is created even if there are none."""
        if self.path is None:
            self.unwritten = b""
            return
        check_owner(self.path.parent)
        with open(self.path, "ab", buffering=0) as file:
            while self.unwritten:  # if the disk is almost full, only a part is written
                self.unwritten = self.unwritten[file.write(self.unwritten) :]

    def __exit__(self, *error: object) -> None:
        if self.unwritten:
            with suppress(OSError, UserError):
                self._flush()


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the entries of a log: their numbers, and the `samples` (a list of texts) of validations.

    Other values are skipped, as are lines that are not entries, such as a truncated last line.
    """
    return [
        {name: value for name, value in entry.items() if name == "samples" or _is_number(value)}
        for _, entry in _entries(path)
    ]


def training_loss(entry: Mapping[str, Any]) -> float | None:
    """The training loss of an entry, without label smoothing if that is logged; None if there is none."""
    return entry.get("nll_loss", entry.get("loss"))


def sync_log(path: Path) -> None:
    """Flush all entries to the disk, so that they survive a power failure."""
    if path.is_file():
        with open(path, "rb+") as file:
            os.fsync(file)


def truncate_log(path: Path, step: int) -> None:
    """Remove the entries of later steps than `step`, and lines that are not entries."""
    if path.is_file():
        kept = b"".join(line.rstrip(b"\n") + b"\n" for line, entry in _entries(path) if entry["step"] <= step)
        if kept != path.read_bytes():
            write_atomically(path, kept)


def _is_number(value: Any) -> bool:
    return value is None or type(value) is float or (type(value) is int and abs(value) < 2**63)


def _entries(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the lines that are entries, each with its parsed content."""
    with open(path, "rb") as file:
        for line in file:
            with suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if isinstance(entry, dict) and type(entry.get("step")) is int:
                    yield line, entry
