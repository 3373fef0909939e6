"""`python -m benchmarks overhead`: print a table, ours beside theirs, measured in one run."""

from __future__ import annotations

import platform

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from .overhead import OPS, overhead


def main(which: tyro.conf.Positional[str] = "overhead", repeats: int = 50) -> None:
    """Measure.

    Args:
        which: What to measure: overhead.
        repeats: How many times; medians are shown.
    """
    if which != "overhead":
        raise SystemExit(f"there is no benchmark {which!r}.\nThere is: overhead.")
    found = overhead(repeats)
    table = Table(title=f"forward + backward of {OPS:,} operations on 4x4 float32 arrays")
    for column in ("engine", "us per operation", "ratio ours / theirs"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    for name, us in found.items():
        table.add_row(name, f"{us:.2f}", f"{found['minigrad'] / us:.2f}")
    if len(found) == 1:
        table.caption = "torch is not installed: pip install torch==2.13.0 to compare"
    console = Console()
    console.print(table)
    console.print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}, one thread",
        highlight=False,
    )


if __name__ == "__main__":
    tyro.cli(main, prog="python -m benchmarks")
