"""Text and tables that fit the terminal. Lines end between words; a table that is too wide becomes a list.

In a pipe or a file, tables have 80 columns at most, and lines of text are not wrapped, so that they can be
searched.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len

from ..files import one_line

FIXED = "\N{NO-BREAK SPACE}"  # a space at which no line is broken
NARROWEST = 20  # columns


def terminal_width() -> int:
    """The columns of the terminal, or of $COLUMNS; 80 in a pipe or a file."""
    return max(shutil.get_terminal_size((80, 24)).columns, NARROWEST)


def line_width() -> float:
    """The columns that a line of text may have: the terminal's, or $COLUMNS; infinite in a pipe or a file."""
    return terminal_width() if sys.stdout.isatty() or os.environ.get("COLUMNS") else math.inf


def wrap(text: str, indent: int = 0, width: float | None = None, end: str = "") -> list[str]:
    """Wrap a text to lines of at most `width` columns (default: `line_width()`), all but the first indented.

    A word longer than a line, such as a path, is broken after a slash, bar, dash or underscore, if it has
    one. Each line but the last ends with `end`, such as the backslash of a command; if `end` is not empty,
    words are not broken.
    """
    width = (line_width() if width is None else width) - len(end)
    start = " " * indent
    lines = [""]
    for word in re.findall(r" *[^ ]+", one_line(text)):
        is_whole = end or indent + cell_len(word.lstrip()) <= width
        for part in [word] if is_whole else re.findall(r" *[^/|_-]*[/|_-]+|[^/|_-]+", word):
            if lines[-1].strip() and cell_len(lines[-1] + part) > width:
                lines.append(start + part.lstrip())
            else:
                lines[-1] += part
    lines = [line.replace(FIXED, " ") for line in lines]
    return [*(line + end for line in lines[:-1]), lines[-1]]


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, with control characters escaped."""
    for line in lines:
        print(one_line(line), flush=True)


def wrap_list(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of (name, text) rows in two columns; long texts are wrapped in theirs."""
    rows = list(rows)
    longest = max(len(name) for name, _ in rows)
    for name, text in rows:
        yield from wrap(f"{name:<{longest}}  {text}", longest + 2)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose first row is the header.

    If the table is too wide, its widest columns are narrowed, and their cells wrapped. If that is not enough,
    each row becomes its first cell, as a title, and a list of the other cells.
    """
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    words = [
        max(cell_len(word) for cell in column for word in cell.split(" "))
        for column in zip(*rows, strict=True)
    ]
    while sum(widths) + 2 * (len(widths) - 1) > terminal_width():
        room = [width - word for width, word in zip(widths, words, strict=True)]
        if not any(room):
            yield from _records(rows)
            return
        widths[room.index(max(room))] -= 1
    for row in rows:
        cells = [wrap(cell, 0, width) for cell, width in zip(row, widths, strict=True)]
        for i in range(max(map(len, cells))):
            parts = [cell[i] if i < len(cell) else "" for cell in cells]
            padded = (
                part + " " * (width - cell_len(part)) for part, width in zip(parts, widths, strict=True)
            )
            yield "  ".join(padded).rstrip()


def _records(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    titles, *others = rows
    for first, *cells in others:
        yield from wrap(first, 2)
        named = (
            f"{title}{FIXED}{cell}".strip() for title, cell in zip(titles[1:], cells, strict=True) if cell
        )
        yield from wrap("  " + ", ".join(named), 2)
