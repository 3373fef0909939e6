"""`python -m benchmarks TABLE`: measure minigrad and other libraries, and print tables."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from minigrad import MinigradError
from minigrad.core.devices import check_device
from minitransformer.cli.parsing import parse
from minitransformer.errors import UserError

from . import machine
from .children import choose
from .generation import generation
from .memory import against_torch, checkpoints
from .ops import ops
from .overhead import overhead
from .peaks import peaks
from .peers import ON_CPU, ON_GPU, missing
from .steps import steps, steps_on_gpu
from .tables import Table, markdown
from .works import GPU_WORKS, WORKS, Decoder, work_of

Which = Literal["overhead", "ops", "steps", "generate", "memory", "all"]
Peer = Literal["torch", "compile", "reduce-overhead", "jax"]
PACKAGES = (
    "numpy", "numba", "torch", "jax", "cupy-cuda13x", "cupy-cuda12x", "nvmath-python",
    "nvidia-cudnn-frontend", "triton",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Measure speed and memory of minigrad and other libraries.

    minigrad and another library run in turns (training steps in separate processes) after both have taken
    the same first step; values are medians [quartiles]. A ratio is ours / theirs, turn by turn: below 1,
    minigrad is faster or smaller.
    """

    which: tuple[Which, ...] = field(default=("overhead",), metadata={"positional": True})
    """What to measure: the engine's overhead per operation, fused operations, training steps, generation, or
    the memory of graphs and steps."""
    threads: tuple[int, ...] = (1,)
    """Thread counts, each in separate processes."""
    repeats: int = 50
    """The maximum number of turns (a tenth of it if one takes seconds)."""
    seconds: float = 20.0
    """The maximum time of a row; a tenth for `ops`."""
    device: Literal["cpu", "cuda"] = "cpu"
    """The device. A GPU is for `steps`."""
    works: tuple[str, ...] | None = None
    """The works of `steps` and of peak memory: by name, or sizes as "L2 H4 d64 T32 B8 V65", followed by
    "tf32" or "bfloat16". The default is all works of the device."""
    peers: tuple[Peer, ...] | None = None
    """The libraries to compare with; by default torch, for `steps` also compile and jax, on a GPU compile and
    reduce-overhead. Libraries that are not installed are skipped, with a note."""
    clock: Literal["wall", "cpu"] = "wall"
    """The clock. "cpu", for one thread on a busy machine, does not count the time that a step waits for a
    core."""
    kernels: Literal["numpy", "jit"] | None = None
    """minigrad's kernels. By default NumPy's are measured, as of a default install, then numba's if it is
    installed; `memory` measures minigrad's own choice."""
    json: Path | None = None
    """A JSON file to write all figures to."""
    markdown: Path | None = None
    """A file to write the tables to."""


def main(o: Options) -> None:
    check(o)
    console = Console()
    load = machine.load_average()
    busy = machine.warning(load, o.threads)
    if busy:
        console.print(f"[bold red]{busy}")
    about = {**machine.describe(PACKAGES), "load average": load, "threads": list(o.threads)}
    about["command"] = command(sys.argv[1:])
    tables: list[Table] = []
    for name in selected(o):
        for kernels in kernel_sets(o, name):
            with console.status(f"measuring: {name}"):
                for table in TABLES[name](replace(with_defaults(o, name), kernels=kernels)):
                    table.title += f", {kernels} kernels" if kernels else ""
                    console.print(table.rich())
                    tables.append(table)
                    write(tables, about, o)  # after each table, so that none is lost
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    console.print(f"{about['cpu']}, Python {about['python']}, {versions}", highlight=False)
    if busy:
        console.print(f"[bold red]{busy}")


def selected(o: Options) -> tuple[str, ...]:
    return tuple(TABLES) if "all" in o.which else o.which


def with_defaults(o: Options, name: str) -> Options:
    """The options with the default works and peers of a table."""
    works = GPU_WORKS if o.device == "cuda" else WORKS
    peers = ON_GPU if o.device == "cuda" else ON_CPU if name == "steps" else ("torch",)
    return replace(o, works=tuple(works) if o.works is None else o.works, peers=o.peers or peers)


def check(o: Options) -> None:
    """Raise a UserError for options that cannot be measured or written, before anything is measured."""
    for flag in ("which", "works", "peers", "threads"):
        if getattr(o, flag) == ():
            raise UserError(f"--{flag} is empty.\nPass at least one value, or leave --{flag} out.")
    if o.repeats < 1:
        raise UserError(f"--repeats {o.repeats} is too few for a turn.\nPass 1 or more.")
    if not 0 < o.seconds < math.inf:
        raise UserError(f"--seconds {o.seconds} is out of range.\nPass a time above 0.")
    cores = os.cpu_count() or 1
    invalid = [n for n in o.threads if not 1 <= n <= cores]
    if invalid:
        raise UserError(
            f"--threads {invalid[0]} is out of range.\nPass numbers from 1 to {cores}, this machine's cores."
        )
    for name in o.works or ():
        work = work_of(name)
        if isinstance(work, Decoder):
            _ = work.config  # raises an error for invalid sizes
    for flag, path in (("json", o.json), ("markdown", o.markdown)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            problem = "is a folder" if path.is_dir() else f"is in a missing folder, {path.parent}"
            raise UserError(f"--{flag} {path} {problem}.\nPass a file in an existing folder.")
    if o.device == "cuda":
        check_gpu(o)
    notes = [missing(name) for name in with_defaults(o, "overhead").peers or ()]
    if o.device == "cpu" and all(notes) and set(o.which) == {"overhead"}:
        raise UserError(f"there is no library to compare with.\n{'; '.join(map(str, notes))}.")


def check_gpu(o: Options) -> None:
    """Raise an error for options that are not measured on a GPU, and for a missing GPU."""
    if selected(o) != ("steps",):
        others = ", ".join(selected(o))
        raise UserError(f"only steps are measured on a GPU, not {others}.\nPass steps.")
    for name in o.works or ():
        if not isinstance(work_of(name), Decoder):
            raise UserError(
                f"{name} is not measured on a GPU.\nChoose one of {', '.join(GPU_WORKS)}, or sizes."
            )
    others = [name for name in o.peers or () if name not in ON_GPU]
    if others:
        raise UserError(f"{', '.join(others)}: not measured on a GPU.\nChoose among {', '.join(ON_GPU)}.")
    if o.clock == "cpu" or o.threads != (1,):
        raise UserError("--clock cpu and --threads are for the CPU.\nLeave them out.")
    check_device("cuda")


def command(arguments: list[str]) -> str:
    """The command line without the files that it writes."""
    shown = [*arguments]
    for name in ("--json", "--markdown"):
        if name in shown:
            del shown[shown.index(name) : shown.index(name) + 2]
    return shlex.join(["python", "-m", "benchmarks", *shown])


def write(tables: list[Table], about: dict[str, Any], o: Options) -> None:
    """Write the tables to files."""
    if o.json is not None:
        content = {"machine": about, "tables": [table.json() for table in tables]}
        o.json.write_text(json.dumps(content, indent=2) + "\n")
    if o.markdown is not None:
        o.markdown.write_text(markdown(tables, about))


def kernel_sets(o: Options, name: str) -> list[Any]:
    """The sets of kernels that a table is measured with, one after the other."""
    if o.kernels or o.device == "cuda" or name == "memory":
        return [o.kernels]
    return ["numpy", "jit"] if find_spec("numba") else ["numpy"]


def memory(o: Options) -> list[Table]:
    """Memory of graphs, savings of checkpoints, peaks of training steps and of generation."""
    choose(o.kernels)
    return [
        Table("MiB of a graph beyond inputs and weights", against_torch()),
        Table("MiB with each layer checkpointed, and what that costs", checkpoints(max(o.repeats // 10, 1))),
        *peaks(o.works, [name for name in o.peers if name in ("torch", "jax")], o.threads, o.kernels),
    ]


def training_steps(o: Options) -> Iterable[Table]:
    if o.device == "cuda":
        return steps_on_gpu(o.works, o.peers, o.repeats, o.seconds, o.kernels)
    return steps(o.works, o.peers, o.threads, o.repeats, o.seconds, o.clock, o.kernels)


TABLES: dict[str, Callable[[Options], Iterable[Table]]] = {
    "overhead": lambda o: overhead(o.peers, o.repeats, o.clock, o.kernels),
    "ops": lambda o: ops(o.threads, o.repeats, o.seconds / 10, o.clock, o.kernels),
    "steps": training_steps,
    "generate": lambda o: generation(o.threads, o.repeats, o.seconds, o.clock, o.kernels),
    "memory": memory,
}


if __name__ == "__main__":
    try:
        main(parse(Options, prog="python -m benchmarks"))
    except (UserError, MinigradError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
