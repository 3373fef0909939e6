"""The log of a run: a line of JSON for each logged step and each validation."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import read_text, to_json
from .lock import opened


def disk_is_full(error: BaseException) -> bool:
    """Whether the error says that the disk, or the user's share of it, is full."""
    return getattr(error, "errno", None) in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


@contextmanager
def suppress_full_disk() -> Iterator[None]:
    """A context whose writing may fail because the disk is full."""
    try:
        yield
    except OSError as error:
        if not disk_is_full(error):
            raise


class Log:
    """Appends records to a file of a run; None: of no run. What a full disk refuses is kept in memory, and
    written later."""

    def __init__(self, path: Path | None, warn: Callable[[str], None]) -> None:
        self.path, self.warn, self.unwritten, self.warned = path, warn, b"", False
        self._flush()

    def __enter__(self) -> Log:
        return self

    def write(self, record: dict[str, Any]) -> None:
        """Append a record. A UserError for a value that is not JSON's."""
        try:
            self.unwritten += to_json(record).encode() + b"\n"
        except TypeError as error:
            kinds = ", ".join(f"{name} ({type(value).__name__})" for name, value in record.items())
            raise UserError(
                f"the log takes numbers and texts: {error}. The record has {kinds}.\n"
                f"Convert what a callback adds to it, for example with .item()."
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
        """Write what is not written yet; the file is there then, even if that is nothing."""
        if self.path is None:
            self.unwritten = b""
            return
        with opened(self.path.parent, create=True) as folder:
            self.unwritten = self.unwritten[folder.append(self.path.name, self.unwritten) :]
            while self.unwritten:
                self.unwritten = self.unwritten[folder.append(self.path.name, self.unwritten) :]

    def __exit__(self, *error: object) -> None:
        with suppress(OSError, UserError):
            if self.unwritten:
                self._flush()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log: their numbers and, of a validation, perhaps `samples`, a list of texts.

    What else a callback wrote is left out, as is a truncated last line.
    """
    return [
        {name: value for name, value in record.items() if name == "samples" or type(value) in NUMBERS}
        for _, record in _records(path)
    ]


def truncate_log(path: Path, step: int) -> None:
    """Remove the records after a step, and lines that are not records."""
    if not path.is_file():
        return
    content = "".join(f"{line}\n" for line, record in _records(path) if record["step"] <= step).encode()
    if content != path.read_bytes():
        with opened(path.parent) as folder:
            folder.write(path.name, content)


NUMBERS = (int, float, type(None))


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines that are records, each with what it says."""
    for line in read_text(path).split("\n"):
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and type(record.get("step")) is int:
                yield line, record
