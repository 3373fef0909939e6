"""`python -m benchmarks TABLE`: measure, ours beside others, and show tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from . import machine
from .generation import generation
from .graphs import graphs
from .memory import against_torch, checkpoints
from .ops import ops
from .overhead import overhead
from .steps import steps
from .tables import Table, markdown
from .works import WORKS

Which = Literal["overhead", "ops", "steps", "generate", "memory", "graph", "all"]
PACKAGES = ("numpy", "numba", "torch", "jax", "dezero", "mygrad", "autograd", "tinygrad")


def main(
    which: tyro.conf.Positional[Which] = "overhead",
    threads: tuple[int, ...] = (1,),
    repeats: int = 50,
    seconds: float = 20.0,
    works: tuple[str, ...] = tuple(WORKS),
    peers: tuple[str, ...] = ("torch",),
    clock: Literal["wall", "cpu"] = "wall",
    kernels: Literal["numpy", "jit"] | None = None,
    json: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Measure.

    Args:
        which: What to measure: what the engine costs an operation, training steps, a token of text, what a
            graph keeps in memory, or what it takes to draw one.
        threads: Thread counts, each in a process of its own.
        repeats: How many turns at most; medians are shown (of a tenth as many where one takes seconds).
        seconds: After how long a row of `steps` ends, with fewer turns than `repeats`.
        works: The rows of `steps`.
        peers: Whom to compare with: torch, compile, jax, tinygrad, autograd, mygrad, dezero; who is not installed is left out with a note.
        clock: What `steps` are timed by. "cpu", for one thread where others use the machine, does not count
            how long a step waited for a core.
        kernels: minigrad's kernels; its own choice if not given.
        json: A file to write all figures to.
        markdown: A file to write the tables to.
    """
    console = Console()
    load = machine.load_average()
    busy = machine.warning(load, threads)
    if busy:
        console.print(f"[bold red]{busy}")
    about = {**machine.describe(PACKAGES), "load average": load, "threads": list(threads)}
    tables: list[Table] = []
    for name in ("overhead", "ops", "steps", "generate", "memory", "graph") if which == "all" else (which,):
        for table in measured(name, threads, repeats, seconds, works, peers, clock, kernels):
            console.print(table.rich())
            tables.append(table)
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    console.print(f"{about['cpu']}, Python {about['python']}, {versions}", highlight=False)
    if busy:
        console.print(f"[bold red]{busy}")
    command = " ".join(["python -m benchmarks", *sys.argv[1:]])
    write(tables, {**about, "command": command}, json, markdown)


def write(tables: list[Table], about: dict[str, Any], to_json: Path | None, to_markdown: Path | None) -> None:
    """Keep the tables in files."""
    if to_json is not None:
        found = {"machine": about, "tables": [table.json() for table in tables]}
        to_json.write_text(json.dumps(found, indent=2) + "\n")
    if to_markdown is not None:
        to_markdown.write_text(markdown(tables, about, about["command"]))


def measured(
    which: str,
    threads: tuple[int, ...],
    repeats: int,
    seconds: float,
    works: tuple[str, ...],
    peers: tuple[str, ...],
    clock: str,
    kernels: str | None,
) -> list[Table]:
    """The tables of one kind of measurement."""
    few = max(repeats // 10, 1)
    if which == "overhead":
        return overhead(peers, repeats, clock, kernels)
    if which == "steps":
        return steps(works, peers, threads, repeats, seconds, clock, kernels)
    if which == "ops":
        return ops(threads, repeats, seconds / 10, clock, kernels)
    if which == "generate":
        return generation(threads, repeats, seconds, clock, kernels)
    if which == "graph":
        return [Table("traces and pictures of a Transformer, the paper's base model", graphs(few))]
    return [
        Table("MiB that a graph keeps beyond inputs and weights", against_torch()),
        Table("MiB with each layer checkpointed, and what that costs", checkpoints(few)),
    ]


if __name__ == "__main__":
    tyro.cli(main, prog="python -m benchmarks")
