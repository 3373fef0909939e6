"""`python -m benchmarks overhead|memory|graph`: print tables, ours beside theirs where there is a theirs."""

from __future__ import annotations

import json
import platform
from typing import Any, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from .graphs import graphs
from .memory import against_torch, checkpoints
from .overhead import OPS, overhead


def main(
    which: tyro.conf.Positional[Literal["overhead", "memory", "graph"]] = "overhead",
    repeats: int = 50,
    as_json: bool = False,
) -> None:
    """Measure.

    Args:
        which: What to measure: what the engine costs an operation, what a graph keeps in memory, or what
            it takes to draw one.
        repeats: How many times; medians are shown (of a tenth as many where one takes seconds).
        as_json: Print one JSON object instead of tables.
    """
    found = measured(which, repeats)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    console = Console()
    for title, rows in found.items():
        console.print(table(title, rows))
    if which != "graph" and not any(
        "torch" in name for rows in found.values() for row in rows for name in (row, *rows[row])
    ):
        console.print("torch is not installed: pip install torch==2.13.0 to compare")
    console.print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}, one thread",
        highlight=False,
    )


def measured(which: str, repeats: int) -> dict[str, dict[str, dict[str, float | None]]]:
    """Title -> row -> column -> number."""
    if which == "overhead":
        times = overhead(repeats)
        title = f"forward + backward of {OPS:,} operations on 4x4 float32 arrays"
        rows = {
            name: {"us per operation": us, "ratio ours / theirs": times["minigrad"] / us}
            for name, us in times.items()
        }
        return {title: rows}
    if which == "graph":
        return {"traces and pictures of a Transformer, the paper's base model": graphs(max(repeats // 10, 1))}
    return {
        "MiB that a graph keeps beyond inputs and weights": against_torch(),
        "MiB with each layer checkpointed, and what that costs": checkpoints(max(repeats // 10, 1)),
    }


def table(title: str, rows: dict[str, dict[str, Any]]) -> Table:
    result = Table(title=title)
    columns = list(next(iter(rows.values())))
    for name in ("", *columns):
        result.add_column(name, justify="right" if name else "left")
    for name, row in rows.items():
        result.add_row(name, *(_shown(row[c]) for c in columns))
    return result


def _shown(x: float | None) -> str:
    return "-" if x is None else f"{x:,}" if isinstance(x, int) else f"{x:.2f}"


if __name__ == "__main__":
    tyro.cli(main, prog="python -m benchmarks")
