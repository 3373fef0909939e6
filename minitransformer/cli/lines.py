"""Reads lines of standard input, for `translate`, `chat`, `predict` and `embed`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..errors import UserError
from ..files import one_line

BLOCK = 1 << 14  # bytes


def warn(where: str, what: str, error: UserError) -> None:
    """Warn that a text is not "read" or not "translated", and why."""
    reason = str(error).partition("\n")[0]
    warn_line(f"{where} is not {what}: {reason}")


def warn_line(message: str) -> None:
    """Print a warning on one line."""
    print(one_line(f"warning: {message}"), file=sys.stderr)


def read_lines(what: str) -> Iterator[list[bytes]]:
    """Yield lines of standard input as they arrive, without line ends; a UserError if there is none."""
    if sys.stdin.isatty():
        print(f"type texts to {what}, one per line; end with Ctrl-D", file=sys.stderr)
    stream: Any = sys.stdin.buffer
    block = stream.read1(BLOCK)
    if not block:
        raise UserError(f"there is nothing to {what}.\nPass a text in quotes, or lines on standard input.")
    parts: list[bytes] = []  # of a line whose end has not come
    while block:
        first, *others = block.split(b"\n")
        parts.append(first)
        if others:
            yield [b"".join(parts), *others[:-1]]
            parts = others[-1:]
        block = stream.read1(BLOCK)
    if rest := b"".join(parts):
        yield [rest]


def decode_line(line: bytes, is_first: bool = False) -> str:
    """The text of a line; the first one may begin with a byte-order mark."""
    try:
        return line.decode("utf-8-sig" if is_first else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(f"it is not UTF-8 (byte {error.start}).\nConvert it to UTF-8.") from None
