"""The log of a run: one JSON object per line, an entry for each logged step and each validation."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import UserError
from ..files import read_bytes, to_json
from .lock import open_folder


def disk_is_full(error: BaseException) -> bool:
    """Whether the error means that the disk, or the user's quota, is full."""
    return getattr(error, "errno", None) in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


@contextmanager
def suppress_full_disk() -> Iterator[None]:
    """A context that suppresses errors of a full disk."""
    try:
        yield
    except OSError as error:
        if not disk_is_full(error):
            raise


class Log:
    """Appends entries to a log file; with path None, discards them.

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
        """Append an entry. Raises a UserError for values that JSON cannot represent."""
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
        """Write all unwritten entries. Creates the file, even if there are none."""
        if self.path is None:
            self.unwritten = b""
            return
        with open_folder(self.path.parent, create=True) as folder:
            self.unwritten = self.unwritten[folder.append(self.path.name, self.unwritten) :]
            while self.unwritten:
                self.unwritten = self.unwritten[folder.append(self.path.name, self.unwritten) :]

    def __exit__(self, *error: object) -> None:
        with suppress(OSError, UserError):
            if self.unwritten:
                self._flush()


def read_log(path: Path, thinned: bool = False) -> list[dict[str, Any]]:
    """Read the entries of a log: their numbers, and the `samples` (a list of texts) of validations.

    Other values are skipped, as is a truncated last line. From a log larger than MAX_WHOLE bytes, only
    validations are read; with `thinned`, evenly spaced parts instead, which are enough for a plot.
    """
    return [
        {name: value for name, value in entry.items() if name == "samples" or _is_number(value)}
        for _, entry in _entries(path, thinned)
    ]


def training_loss(entry: dict[str, Any]) -> float | None:
    """The training loss of an entry: without label smoothing, like `val_loss`, if it is logged.

    Older versions logged only the `loss` that is trained. None if the entry has neither.
    """
    return entry.get("nll_loss", entry.get("loss"))


def truncate_log(path: Path, step: int) -> None:
    """Remove the entries after a step, and lines that are not entries.

    A log larger than MAX_WHOLE bytes is truncated after its last entry of this step or before; other lines
    stay, and are skipped when it is read.
    """
    if not path.is_file():
        return
    if path.stat().st_size > MAX_WHOLE:
        with open_folder(path.parent) as folder:
            folder.truncate(path.name, _end_of_step(path, step))
        return
    content = "".join(f"{line}\n" for line, entry in _entries(path) if entry["step"] <= step).encode()
    if content != path.read_bytes():
        with open_folder(path.parent) as folder:
            folder.write(path.name, content)


def _is_number(value: Any) -> bool:
    return value is None or type(value) is float or (type(value) is int and abs(value) < 2**63)


MAX_WHOLE = 2**23  # bytes of a log that is read as a whole
PARTS = 128  # that are read of a larger log, when it is thinned
MAX_SEARCHED = 2**34  # bytes of a log that is searched, which takes about ten seconds
BLOCK = 2**22  # bytes of a larger log in memory at a time
MAX_LINE = 2**20  # bytes of a line


def _entries(path: Path, thinned: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines that are entries, each with its content."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size <= MAX_WHOLE:
        yield from _parse_lines(read_bytes(path).split(b"\n"))
    else:
        yield from _parse_lines(_parts(path) if thinned else _validations(path))


def _parse_lines(lines: Iterable[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in lines:
        if b'"step"' not in line:  # much faster than to parse it
            continue
        text = line.decode(errors="replace")
        if entry := _parse_entry(text):
            yield text, entry


def _parse_entry(line: str) -> dict[str, Any]:
    """The entry in a line; empty if it is not one."""
    with suppress(ValueError, RecursionError):
        entry = json.loads(line)
        if isinstance(entry, dict) and type(entry.get("step")) is int:
            return entry
    return {}


def _parts(path: Path) -> Iterator[bytes]:
    """The lines in evenly spaced parts of a large log, including its start and end."""
    size = path.stat().st_size
    length = MAX_WHOLE // PARTS
    with path.open("rb") as file:
        for i in range(PARTS):
            file.seek(start := (size - length) * i // (PARTS - 1))
            first, *lines = file.read(length).split(b"\n")
            yield from ([first] if start == 0 else []) + lines


def _validations(path: Path) -> Iterator[bytes]:
    """The lines of a large log that have a validation loss."""
    with path.open("rb") as file:
        for start in range(0, _searched_size(path), BLOCK):
            _, block = _lines_from(file, start)
            at = 0
            while (at := block.find(b'"val_loss"', at)) >= 0:
                first, end = _line_around(block, at)
                yield block[first:end]
                at = end


def _searched_size(path: Path) -> int:
    """The size of a log; raises a UserError if it is too large to search."""
    size = path.stat().st_size
    if size > MAX_SEARCHED:
        raise UserError(
            f"{path} has {size / 2**30:,.0f} GiB, more than any training writes: it is damaged.\n"
            f"Move it away; the run does not need it."
        )
    return size


def _end_of_step(path: Path, step: int) -> int:
    """The end of the last entry of this step or before."""
    # skips most entries of later steps without parsing them
    candidate = re.compile(rb'"step"\s*:\s*(-\d|\d{1,%d}(?!\d))' % len(str(step)))
    with path.open("rb") as file:
        for start in reversed(range(0, _searched_size(path), BLOCK)):
            place, block = _lines_from(file, start)
            found = [match.start() for match in candidate.finditer(block) if int(match[1]) <= step]
            for at in reversed(found):
                first, end = _line_around(block, at)
                entry = _parse_entry(block[first:end].decode(errors="replace"))
                if entry and entry["step"] <= step and block[end - 1 : end] == b"\n":
                    return place + end
    return 0


def _lines_from(file: BinaryIO, start: int) -> tuple[int, bytes]:
    """The start of the first line that begins in the BLOCK bytes from `start` on, and all these lines.

    The last one is left out if it is longer than MAX_LINE bytes.
    """
    before = min(start, 1)  # a line begins at `start` if the byte before is a line feed
    file.seek(start - before)
    content = file.read(before + BLOCK - 1)
    first = content.find(b"\n") + 1 if before else 0
    if before and not first:
        return start, b""
    last = content.rfind(b"\n") + 1  # where the last line begins
    rest = file.read(MAX_LINE)
    end = rest.find(b"\n") + 1
    is_too_long = not end and len(rest) == MAX_LINE
    lines = content[first:last] if is_too_long else content[first:] + rest[: end or None]
    return start - before + first, lines


def _line_around(block: bytes, at: int) -> tuple[int, int]:
    """The start and the end of the line at `at`, or of a part of it if it is too long."""
    first = block.rfind(b"\n", max(at - MAX_LINE, 0), at) + 1
    end = block.find(b"\n", at, at + MAX_LINE) + 1
    return max(first, at - MAX_LINE), end or min(at + MAX_LINE, len(block))
