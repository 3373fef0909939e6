"""Writes the line counts in `docs/reading.md`, the page with the reading order.

python -m tools.reading
"""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reading.md"
ROW = re.compile(r"^\| \[([^]]+)\]\(\.\./[^)]+\) \| ([\d,]+) \|", re.MULTILINE)
SUM = re.compile(r"^\| \*\*sum\*\* \| \*\*[\d,]+\*\* \|", re.MULTILINE)


def lines_of(file: str) -> int:
    return (PAGE.parents[1] / file).read_bytes().count(b"\n")


def core_lines(text: str) -> int:
    """The lines of all files in the first table that ends with a sum."""
    return sum(lines_of(match[1]) for match in ROW.finditer(text.partition("| **sum** |")[0]))


def updated(text: str) -> str:
    """The page with each file's line count, and their sum."""
    text = ROW.sub(lambda m: f"{m[0].rpartition(' | ')[0]} | {lines_of(m[1]):,} |", text)
    return SUM.sub(f"| **sum** | **{core_lines(text):,}** |", text)


def main() -> None:
    text = updated(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8", newline="\n")
    print(f"{PAGE}: the core has {core_lines(text):,} lines")


if __name__ == "__main__":
    main()
