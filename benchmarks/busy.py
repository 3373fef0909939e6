"""A training step while another process computes on one of its cores, compared with the same step without it.

Threads that divide a product wait for the slowest. If one shares its core with another process, all wait for
it: the step takes about twice as long, and far longer if threads spin while they wait, which takes the core
from the thread with work. Turns with and without the other process alternate.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .comparison import Comparison
from .measuring import measure, ratios, spread
from .peers import missing, peer
from .tables import Table
from .worker import Worker
from .works import row_name

LIMIT = 2.2  # times a quiet step
# computes from the line "on" until the next one; ends with its parent, which closes its input
OTHER = """
import sys, threading
on = threading.Event()
def compute():
    while on.wait():
        sum(range(10_000))
threading.Thread(target=compute, daemon=True).start()
for line in sys.stdin:
    on.set() if line == "on\\n" else on.clear()
"""


class Other:
    """Another process, which computes on `core` within a `with`."""

    def __init__(self, core: int | None) -> None:
        self.process = subprocess.Popen([sys.executable, "-P", "-c", OTHER], stdin=subprocess.PIPE, text=True)
        if core is not None:
            os.sched_setaffinity(self.process.pid, [core])

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def __enter__(self) -> None:
        self.tell("on")

    def __exit__(self, *error: object) -> None:
        self.tell("off")


@contextmanager
def other_process(core: int | None) -> Iterator[Other]:
    """Start another process for a `with` block, and kill it afterwards."""
    other = Other(core)
    try:
        yield other
    finally:
        other.process.kill()
        other.process.communicate()


class BusyTurns:
    """A worker's turns while the other process computes."""

    def __init__(self, worker: Worker, other: Other) -> None:
        self.worker = worker
        self.other = other

    def ready(self) -> int:
        return self.worker.ready()

    def turn(self, number: int, settle: float, clock: str) -> float:
        with self.other:
            return self.worker.turn(number, settle, clock)


def busy(
    works: Sequence[str] = ("phrasebook",),
    peers: Sequence[str] = ("torch",),
    threads: int = 2,
    repeats: int = 50,
    seconds: float = 20.0,
    kernels: str | None = None,
) -> Iterator[Table]:
    """Milliseconds of a quiet and of a disturbed step, and their ratio, for each work and library."""
    for key in works:
        work = Comparison(key, "cpu", threads)
        table = Table(f"{row_name(key)}, {threads} threads: ms of a step, quiet and with a busy core")
        with work.start(["ours", *(name for name in peers if missing(name) is None)], kernels):
            work.warm()
            with other_process(work.cores[-1] if work.cores else None) as other:
                for name, worker in work.workers.items():
                    turns = {"quiet": worker, "busy": BusyTurns(worker, other)}
                    times = measure(turns, repeats, seconds, work.settle)
                    table.rows[peer(name).LABEL] = {
                        "quiet": spread([1e3 * t for t in times["quiet"]]),
                        "a core busy": spread([1e3 * t for t in times["busy"]]),
                        f"ratio (limit {LIMIT})": ratios(times["busy"], times["quiet"]),
                    }
        table.notes += work.notes
        yield table
