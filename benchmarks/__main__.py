"""`python -m benchmarks TABLE`: measure, ours beside others, and show tables."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import tyro
from rich.console import Console

from . import machine
from .children import choose
from .generation import generation
from .graphs import graphs
from .memory import against_torch, checkpoints
from .ops import ops
from .overhead import overhead
from .peaks import peaks
from .ranks import ranks
from .scale import AXES, plot, plot_steps, scale
from .steps import steps
from .tables import Table, markdown
from .training import training
from .works import WORKS, UnknownWorkError, work_of

Which = Literal["overhead", "ops", "steps", "generate", "memory", "scale", "graph", "trainer", "ranks", "all"]
Peer = Literal["torch", "compile", "jax", "tinygrad", "autograd", "mygrad", "dezero"]
Axis = Literal["attention", "length", "width", "layers", "vocabulary", "batch"]
PACKAGES = ("numpy", "numba", "torch", "jax", "tinygrad", "autograd", "mygrad", "dezero", "mpi4py", "mpich")


HEAD = """# Benchmarks

Each table stands below the command that measured it. Ours and another library take turns in one process, in
which both have taken the same first step; shown are medians [quartiles]. A ratio is ours / theirs, turn by
turn: below 1 where ours is faster, or smaller.
"""


@dataclass(frozen=True)
class Options:
    """Measure speed and memory, ours beside others'."""

    which: tyro.conf.Positional[tuple[Which, ...]] = ("overhead",)
    """What to measure: what the engine costs an operation, fused operations, training steps, a token of text,
    memory, how time and memory grow with sizes, what it takes to draw a graph, what the trainer adds to a
    step, or training on several ranks."""
    threads: tuple[int, ...] = (1,)
    """Thread counts, each in processes of its own."""
    repeats: int = 50
    """How many turns at most; medians are shown (of a tenth as many where one takes seconds)."""
    seconds: float = 20.0
    """After how long a row ends, with fewer turns than `repeats`; `ops` and `scale` after a tenth."""
    works: tuple[str, ...] = tuple(WORKS)
    """The rows of `steps` and of peak memory: by name, or sizes as "L2 H4 d64 T32 B8 V65". Of `ranks`: nano,
    phrasebook, or both."""
    axes: tuple[Axis, ...] = get_args(Axis)
    """The sizes that `scale` changes."""
    peers: tuple[Peer, ...] = ("torch",)
    """Whom to compare with. Who is not installed is left out, with a note."""
    clock: Literal["wall", "cpu"] = "wall"
    """What times are measured by. "cpu", for one thread where others use the machine, does not count how long
    a step waited for a core."""
    kernels: Literal["numpy", "jit"] | None = None
    """minigrad's kernels; its own choice if not given."""
    json: Path | None = None
    """A file to write all figures to."""
    markdown: Path | None = None
    """A file to write the tables to."""
    append: bool = False
    """Add to the Markdown file what this run measures, and keep what stands in it."""
    plots: Path | None = None
    """A folder to draw `steps` and `scale` in."""


def main(o: Options) -> None:
    console = Console()
    load = machine.load_average()
    busy = machine.warning(load, o.threads)
    if busy:
        console.print(f"[bold red]{busy}")
    about = {**machine.describe(PACKAGES), "load average": load, "threads": list(o.threads)}
    for name in o.works:
        work_of(name)
    about["command"] = command(sys.argv[1:])
    tables: list[Table] = []
    before = o.markdown.read_text() if o.append and o.markdown and o.markdown.exists() else HEAD
    for name in TABLES if "all" in o.which else o.which:
        with console.status(f"measuring: {name}"):
            found = TABLES[name](o)
        for table in found:
            table.title += f", {o.kernels} kernels" if o.kernels else ""
            console.print(table.rich())
        if o.plots is not None:
            draw(name, found, o.plots)
        tables += found
        write(tables, about, o, before)  # after each, so that what is measured is not lost
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    console.print(f"{about['cpu']}, Python {about['python']}, {versions}", highlight=False)
    if busy:
        console.print(f"[bold red]{busy}")


def command(arguments: list[str]) -> str:
    """What measures the same again: the command line without the files that it writes."""
    shown = [*arguments]
    for name in ("--json", "--markdown", "--plots"):
        if name in shown:
            del shown[shown.index(name) : shown.index(name) + 2]
    return shlex.join(["python", "-m", "benchmarks", *(a for a in shown if a != "--append")])


def write(tables: list[Table], about: dict[str, Any], o: Options, before: str) -> None:
    """Keep the tables in files."""
    if o.json is not None:
        found = {"machine": about, "tables": [table.json() for table in tables]}
        o.json.write_text(json.dumps(found, indent=2) + "\n")
    if o.markdown is not None:
        o.markdown.write_text(before + "\n" + markdown(tables, about))


def draw(name: str, tables: list[Table], folder: Path) -> None:
    if name == "steps":
        plot_steps(tables, folder / "steps.png")
    elif name == "scale":
        plot(tables, folder)


def memory(o: Options) -> list[Table]:
    """What graphs keep, what checkpoints save, and the peaks of training steps (beside torch's and JAX's)."""
    choose(o.kernels)
    return [
        Table("MiB that a graph keeps beyond inputs and weights", against_torch()),
        Table("MiB with each layer checkpointed, and what that costs", checkpoints(max(o.repeats // 10, 1))),
        *peaks(o.works, [name for name in o.peers if name in ("torch", "jax")], o.threads, o.kernels),
    ]


def pictures(o: Options) -> list[Table]:
    rows = graphs(max(o.repeats // 10, 1))
    return [Table("traces and pictures of a Transformer, the paper's base model", rows)]


TABLES: dict[str, Callable[[Options], list[Table]]] = {
    "overhead": lambda o: overhead(o.peers, o.repeats, o.clock, o.kernels),
    "steps": lambda o: steps(o.works, o.peers, o.threads, o.repeats, o.seconds, o.clock, o.kernels),
    "generate": lambda o: generation(o.threads, o.repeats, o.seconds, o.clock, o.kernels),
    "memory": memory,
    "ops": lambda o: ops(o.threads, o.repeats, o.seconds / 10, o.clock, o.kernels),
    "scale": lambda o: scale(
        {axis: AXES[axis] for axis in o.axes}, o.threads, o.repeats, o.seconds / 10, o.clock, o.kernels
    ),
    "graph": pictures,
    "trainer": lambda o: [training(o.repeats, o.clock)],
    "ranks": lambda o: ranks(o.works, o.repeats, o.kernels),
}


if __name__ == "__main__":
    try:
        main(tyro.cli(Options, prog="python -m benchmarks"))
    except UnknownWorkError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
