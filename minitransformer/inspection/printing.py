"""Results that print as a table."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

WIDTH = 110  # columns


def table_text(table: Any) -> str:
    """The text of a table of `rich`, without colours."""
    text = io.StringIO()
    Console(file=text, width=WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())
