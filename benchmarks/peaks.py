"""Peak memory of training steps, and of generation: by how much a process's resident memory grows.

Counted after the library is loaded and the model built: gradients, the optimizer's moments, and what the
passes need. Loaded means that smaller models have taken as many steps, or have written as much text: a
library's code is loaded when it first runs, some of it in the second step. The peak of the whole process is
also shown, including libraries, weights and this benchmark. Each library has its own process.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from .children import in_child
from .generation import SMALLER, TOKENS, writer
from .peers import KINDS, missing, peer, settings_of, step_of
from .tables import Table
from .works import row_name, weights_of, work_of

MIB = 2**20
STEPS = 3
Peak = tuple[float | None, float | None]  # the maximum growth of a process, and its size then, in MiB


def peak(name: str, key: str, threads: int) -> tuple[float, float] | None:
    """The maximum growth of this process during three training steps, and its size then, in MiB."""
    module = peer(name)
    work = work_of(key)
    if hasattr(module, "set_threads"):
        module.set_threads(threads)
    if key in module.CANNOT or not hasattr(module, KINDS[type(work)]):
        return None
    run_smaller(name)
    weights = weights_of(work.model())
    step: Any = step_of(name, work, weights)
    return memory_growth(lambda: steps(step))


def run_smaller(name: str) -> None:
    """Train smaller models for as many steps, which loads the library's code."""
    for smaller in ("mlp", "micro"):
        warm = step_of(name, work_of(smaller), weights_of(work_of(smaller).model()))
        if warm is not None:
            steps(warm)


def steps(step: Any) -> None:
    for _ in range(STEPS):
        step()


def peak_of_text(name: str, threads: int) -> tuple[float, float] | None:
    """The maximum growth of this process while it writes a text, and its size then, in MiB."""
    module = peer(name)
    if hasattr(module, "set_threads"):
        module.set_threads(threads)
    write = writer(name)
    if write is None:
        return None
    writer(name, SMALLER)(TOKENS)
    return memory_growth(lambda: write(TOKENS))


def memory_growth(run: Callable[[], object], before: int | None = None) -> tuple[float, float]:
    """The maximum growth of this process during `run` (from `before` bytes), and its size then, in MiB."""
    now = resident()
    run()
    most = highest()
    return max(most - (now if before is None else before), 0) / MIB, most / MIB


def resident() -> int:
    """The bytes of this process, after freeing all that can be freed."""
    gc.collect()
    _trim()
    return _start()


def _trim() -> None:
    """Give freed memory back, so that steps cannot reuse memory from building the model."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _start() -> int:
    """The bytes resident now; resets the peak if the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return highest()


def highest() -> int:
    """The peak number of resident bytes."""
    try:
        return _status("VmHWM")
    except OSError:
        import resource  # not on Windows

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def peaks(
    works: Iterable[str],
    peers: Sequence[str] = ("torch",),
    threads: Sequence[int] = (1,),
    kernels: str | None = None,
) -> list[Table]:
    """A table for each number of threads."""
    return [_table(list(works), peers, n, kernels) for n in threads]


def _table(works: list[str], peers: Sequence[str], threads: int, kernels: str | None) -> Table:
    plural = "s" if threads > 1 else ""
    table = Table(f"peak memory beyond the model, {threads} thread{plural}: MiB")
    present = [name for name in peers if missing(name) is None]
    table.notes += [note for name in peers if (note := missing(name))]
    for key in works:
        found = {name: _in_child("peak", name, threads, kernels, key) for name in ("ours", *present)}
        table.rows[row_name(key)] = _row(found)
    found = {name: _in_child("peak_of_text", name, threads, kernels) for name in ("ours", *present)}
    table.rows[f"generation: nano, {TOKENS} tokens, with a cache"] = _row(found)
    return table


def _row(found: dict[str, Peak]) -> dict[str, float | None]:
    """The growth of each, the ratios of ours to the others', and whole processes."""
    ours, _ = found["ours"]
    row: dict[str, float | None] = {}
    for name, (growth, _) in found.items():
        row[peer(name).LABEL] = growth
        if name != "ours":
            row[f"ratio to {peer(name).LABEL}"] = ours / growth if ours and growth else None
    return row | {f"{peer(name).LABEL}, whole process": whole for name, (_, whole) in found.items()}


def _in_child(function: str, name: str, threads: int, kernels: str | None, *arguments: str) -> Peak:
    settings = settings_of(name, threads)
    found = in_child(
        "peaks", function, name, *arguments, threads, threads=threads, kernels=kernels, **settings
    )
    return (None, None) if found is None else tuple(found)
