"""Tables of figures, shown in a terminal, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

Figure = (
    float | int | str | None | list[float] | tuple[float, ...]
)  # three numbers: a median in its quartiles


@dataclass
class Table:
    """Rows by name, figures by column, and notes."""

    title: str
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows.values() for name in row))

    def shown(self) -> list[list[str]]:
        """All figures as text, after the heading."""
        rows = [[name, *(text(row.get(c)) for c in self.columns)] for name, row in self.rows.items()]
        return [["", *self.columns], *rows]

    def rich(self) -> Group:
        """The rows, if there are any, and the notes."""
        notes = [Text(note) for note in self.notes]
        if not self.rows:
            return Group(Text(self.title, "italic"), *notes)
        result = RichTable(title=Text(self.title))
        heading, *rows = self.shown()
        for name in heading:
            result.add_column(name, justify="right" if name else "left")
        for row in rows:
            result.add_row(*row)
        return Group(result, *notes)

    def markdown(self) -> str:
        heading, *rows = self.shown()
        lines = [heading, ["---", *["---:"] * len(self.columns)], *rows]
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        notes = f"\n{'. '.join(self.notes)}.\n" if self.notes else ""
        return f"**{self.title[0].upper()}{self.title[1:]}**\n\n{body}\n{notes}"

    def json(self) -> dict[str, Any]:
        return asdict(self)


def text(figure: Figure) -> str:
    """A figure with three digits; a median with its quartiles."""
    if figure is None:
        return "-"
    if isinstance(figure, str):
        return figure
    if isinstance(figure, list | tuple):
        low, middle, high = figure
        return f"{digits(middle)} [{digits(low)}, {digits(high)}]"
    return digits(figure)


def digits(x: float) -> str:
    """At least three digits of x, with as few decimals as possible."""
    if isinstance(x, int) or abs(x) >= 100:
        return f"{x:,.0f}"
    return f"{x:.2f}" if abs(x) < 10 else f"{x:.1f}"


def markdown(tables: Iterable[Table], machine: dict[str, Any]) -> str:
    """A page of tables and the machine that they were measured on."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    graphics = f"{machine['gpu']}; " if machine.get("gpu") else ""
    head = (
        f"`{machine['command']}`\n\n{graphics}{machine['cpu']}, {machine['cores']} cores, "
        f"{machine['system']}, Python {machine['python']}, {versions}, NumPy on {machine['blas']}; "
        f"{machine['date']}"
    )
    load = machine.get("load average")
    head += "." if load is None else f", load average {load:.2f} before the start."
    return "\n".join([head, "", *(table.markdown() for table in tables)])
