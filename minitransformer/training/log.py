"""The log of a run: a line of JSON for each logged step and each validation."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from minigrad.io import write_atomically

from ..files import read_text, to_json


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
    """Appends records to a file. What a full disk refuses is kept in memory, and written later."""

    def __init__(self, path: Path | str, warn: Callable[[str], None]) -> None:
        self.path, self.warn, self.unwritten, self.warned = path, warn, b"", False
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)

    def __enter__(self) -> Log:
        return self

    def write(self, record: dict[str, Any]) -> None:
        """Append a record."""
        self.unwritten += to_json(record).encode() + b"\n"
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
        while self.unwritten:
            self.unwritten = self.unwritten[os.write(self.file, self.unwritten) :]

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._flush()
        os.close(self.file)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log; a truncated last line is skipped, as is any other that is not a record.

    A record has numbers and, of a validation, perhaps `samples`, a list of texts.
    """
    records = []
    for line in read_text(path).split("\n"):
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and _is_record(**record):
                records.append(record)
    return records


def _is_record(step: Any = None, samples: Any = (), **numbers: Any) -> bool:
    types = {type(value) for value in numbers.values()}
    texts = isinstance(samples, list | tuple) and all(isinstance(text, str) for text in samples)
    return type(step) is int and texts and types <= {int, float, type(None)}


def truncate_log(path: Path, step: int) -> None:
    """Remove the records after a step, and lines that are not records."""
    if not path.is_file():
        return
    records = [record for record in read_log(path) if record["step"] <= step]
    content = "".join(to_json(record) + "\n" for record in records).encode()
    if content != path.read_bytes():
        write_atomically(path, content)
