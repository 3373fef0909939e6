"""The log of a run: a line of JSON for each logged step and each validation."""

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
    """Appends records to a run's file (None: nowhere). If the disk is full, they are kept in memory and
    written later."""

    def __init__(self, path: Path | None, warn: Callable[[str], None]) -> None:
        self.path = path
        self.warn = warn
        self.unwritten = b""
        self.warned = False
        self._flush()

    def __enter__(self) -> Log:
        return self

    def write(self, record: dict[str, Any]) -> None:
        """Append a record. A UserError for a value that JSON cannot represent."""
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
        """Write what is not written yet; afterwards the file exists, even if it is empty."""
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
    """The records of a log: their numbers and, of a validation, perhaps `samples`, a list of texts.

    Anything else that a callback wrote is skipped, as is a truncated last line. From a log larger than WHOLE
    bytes, only validations are read; or with `thinned`, evenly spaced parts, which are enough for a picture.
    """
    return [
        {name: value for name, value in record.items() if name == "samples" or _is_number(value)}
        for _, record in _records(path, thinned)
    ]


def truncate_log(path: Path, step: int) -> None:
    """Remove the records after a step, and lines that are not records.

    A log that is larger than WHOLE bytes is cut after its last record of this step or before: what is not a
    record stays in it, and is passed over when it is read.
    """
    if not path.is_file():
        return
    if path.stat().st_size > WHOLE:
        with open_folder(path.parent) as folder:
            folder.truncate(path.name, _end_of_step(path, step))
        return
    content = "".join(f"{line}\n" for line, record in _records(path) if record["step"] <= step).encode()
    if content != path.read_bytes():
        with open_folder(path.parent) as folder:
            folder.write(path.name, content)


def _is_number(value: Any) -> bool:
    return value is None or type(value) is float or (type(value) is int and abs(value) < 2**63)


WHOLE = 2**23  # bytes of a log that is read whole
PARTS = 128  # of a larger one, when it is thinned
MOST = 2**34  # of one that is searched: that takes some ten seconds
BLOCK = 2**22  # bytes of a larger one that are in memory at a time
LINE = 2**20  # bytes of a line, at most


def _records(path: Path, thinned: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines that are records, each with its content."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size <= WHOLE:
        yield from _parsed(read_bytes(path).split(b"\n"))
    else:
        yield from _parsed(_parts(path) if thinned else _validations(path))


def _parsed(lines: Iterable[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in lines:
        if b'"step"' not in line:  # much faster than an error of the parser
            continue
        text = line.decode(errors="replace")
        if record := _record(text):
            yield text, record


def _record(line: str) -> dict[str, Any]:
    """The content of a line if it is a record."""
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
        if isinstance(record, dict) and type(record.get("step")) is int:
            return record
    return {}


def _parts(path: Path) -> Iterator[bytes]:
    """The lines in evenly spaced parts of a large log, and in its first and last one."""
    size = path.stat().st_size
    length = WHOLE // PARTS
    with path.open("rb") as file:
        for i in range(PARTS):
            file.seek(start := (size - length) * i // (PARTS - 1))
            first, *lines = file.read(length).split(b"\n")
            yield from ([first] if start == 0 else []) + lines


def _validations(path: Path) -> Iterator[bytes]:
    """The lines of a large log that have a validation's loss."""
    with path.open("rb") as file:
        for start in range(0, _searched_size(path), BLOCK):
            _, block = _lines_from(file, start)
            at = 0
            while (at := block.find(b'"val_loss"', at)) >= 0:
                first, end = _line_around(block, at)
                yield block[first:end]
                at = end


def _searched_size(path: Path) -> int:
    """The size of a log that is not too large to be searched."""
    size = path.stat().st_size
    if size > MOST:
        raise UserError(
            f"{path} has {size / 2**30:,.0f} GiB, which no training writes: it is damaged.\n"
            f"Move it elsewhere: the run's checkpoints do not depend on it."
        )
    return size


def _end_of_step(path: Path, step: int) -> int:
    """Where the last record of this step or before ends."""
    # most records of later steps are passed over without parsing them
    candidate = re.compile(rb'"step"\s*:\s*(-\d|\d{1,%d}(?!\d))' % len(str(step)))
    with path.open("rb") as file:
        for start in reversed(range(0, _searched_size(path), BLOCK)):
            place, block = _lines_from(file, start)
            found = [match.start() for match in candidate.finditer(block) if int(match[1]) <= step]
            for at in reversed(found):
                first, end = _line_around(block, at)
                record = _record(block[first:end].decode(errors="replace"))
                if record and record["step"] <= step and block[end - 1 : end] == b"\n":
                    return place + end
    return 0


def _lines_from(file: BinaryIO, start: int) -> tuple[int, bytes]:
    """The whole lines that begin in the BLOCK bytes from `start` on, and where the first one begins.

    The last of them is left out if it is longer than LINE bytes.
    """
    before = min(start, 1)  # a line begins at `start` if the byte before ends one
    file.seek(start - before)
    content = file.read(before + BLOCK - 1)
    first = content.find(b"\n") + 1 if before else 0
    if before and not first:
        return start, b""
    last = content.rfind(b"\n") + 1  # where the last line begins
    rest = file.read(LINE)
    end = rest.find(b"\n") + 1
    is_too_long = not end and len(rest) == LINE
    lines = content[first:last] if is_too_long else content[first:] + rest[: end or None]
    return start - before + first, lines


def _line_around(block: bytes, at: int) -> tuple[int, int]:
    """Where the line that a place is in begins, and where it ends; of one that is too long, a part."""
    first = block.rfind(b"\n", max(at - LINE, 0), at) + 1
    end = block.find(b"\n", at, at + LINE) + 1
    return max(first, at - LINE), end or min(at + LINE, len(block))
