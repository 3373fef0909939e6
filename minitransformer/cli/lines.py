"""Reads lines of standard input, for `translate`, `chat` and `predict`."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

from ..errors import UserError
from ..files import one_line

MAX_LINE = 1 << 20  # bytes of a line of standard input


def warn(where: str, what: str, error: UserError) -> None:
    """Warn that a text is not "read" or not "translated", and why."""
    reason = str(error).partition("\n")[0]
    print(one_line(f"warning: {where} is not {what}: {reason}"), file=sys.stderr)


def warn_line(message: str) -> None:
    """Print a warning on one line."""
    print(one_line(f"warning: {message}"), file=sys.stderr)


def read_lines(what: str, max_lines: int = 512) -> Iterator[list[bytes]]:
    """Yield lines of standard input as they arrive, at most `max_lines` at a time, without line ends.

    Of a line longer than MAX_LINE bytes, only the first MAX_LINE + 1 are kept. Raises a UserError if there is
    no line.
    """
    if sys.stdin and sys.stdin.isatty():
        print(f"type texts to {what}, one per line; end with Ctrl-D", file=sys.stderr)
    stream: Any = sys.stdin.buffer if sys.stdin else io.BytesIO()
    rest = b""
    empty = True
    while block := _read(stream):
        lines = block.split(b"\n")
        lines[0] = (rest + lines[0])[: MAX_LINE + 1]
        rest = lines.pop()
        for start in range(0, len(lines), max_lines):
            yield lines[start : start + max_lines]
        empty = False
    if empty:
        raise UserError(f"there is nothing to {what}.\nPass a text in quotes, or lines on standard input.")
    if rest:
        yield [rest]


def _read(stream: Any) -> bytes:
    try:
        return stream.read1(MAX_LINE)
    except OSError as error:
        problem = f"standard input cannot be read: {error.strerror}"
        raise UserError(f"{problem}.\nPass a text in quotes, or lines through a pipe.") from None


def decode_line(line: bytes, is_first: bool = False) -> str:
    """The text of a line; the first one may begin with a byte-order mark."""
    if len(line) > MAX_LINE:
        raise UserError(f"it is longer than {MAX_LINE:,} bytes.\nSplit it.")
    try:
        return line.decode("utf-8-sig" if is_first else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(f"it is not UTF-8 (byte {error.start}).\nConvert it to UTF-8.") from None
