"""Training steps on a GPU: minigrad, eager and captured, and PyTorch eager, compiled, and compiled with
reduce-overhead, all in turns.

Each library has its own process. They start concurrently, except those that compile, because torch.compile
benchmarks kernels. All take the same first step, `WARM` more, and the steps whose memory is counted
(`device_memory`) before times are measured. A turn ends when the GPU has finished; it starts with a step that
does not count, since another process used the GPU. torch's batches are on the GPU; ours are NumPy
arrays, and the step includes the copy, as in the trainer.

A library that fails, or takes longer than `TIMEOUT` for an answer, is left out with a note.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from .children import ChildError
from .measuring import measure, ratios, spread
from .peers import missing, peer
from .steps import UNSTEADY, DifferentWorkError, close, compare
from .tables import Table
from .worker import Worker
from .works import First, row_name

OURS = ("ours", "captured")
WARM = 5  # steps: a captured one is recorded in its third, reduce-overhead's in theirs
SETTLE = 0.001  # seconds of rest between two processes' turns
TIMEOUT = 200.0  # seconds: GPT-2 takes about a minute to compile


def steps_on_gpu(
    works: Iterable[str],
    peers: Sequence[str],
    repeats: int = 50,
    seconds: float = 20.0,
    kernels: str | None = None,
    device: str = "cuda",
) -> Iterator[Table]:
    """A table for each work as soon as it is measured, and one of all works' ratios at the end."""
    ratios_of_all = Table("training steps on the GPU: ours / torch's, time and peak memory")
    present = [name for name in peers if missing(name) is None]
    for key in works:
        work = Comparison(key, device)
        with work.start([*OURS, *present], kernels):
            work.warm()
            table = work.table(repeats, seconds)
        table.notes += [note for name in peers if (note := missing(name))]
        yield table
        ratios_of_all.rows[row_name(key)] = work.against_best()
    yield ratios_of_all


class Comparison:
    """Several libraries with the same work, each in its process."""

    def __init__(self, key: str, device: str) -> None:
        self.key, self.device = key, device
        self.workers: dict[str, Worker] = {}  # those that have not failed
        self.notes: list[str] = []
        self.differences: dict[str, float] = {}  # the largest difference from ours
        self.times: dict[str, list[float]] = {}
        self.peaks: dict[str, Any] = {}
        self.stack = ExitStack()

    def start(self, names: Iterable[str], kernels: str | None) -> ExitStack:
        """Start the processes; they end with the stack."""
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        for name in names:
            worker = Worker(name, 1, kernels, cores, TIMEOUT)
            self.workers[name] = self.stack.enter_context(worker)
        return self.stack

    def warm(self) -> None:
        """Everything before times are measured."""
        self.ask(self.workers, lambda worker: worker.prepare(self.key, self.device))
        compiling = [name for name in self.workers if name in ("compile", "reduce-overhead")]
        firsts = self.ask([name for name in self.workers if name not in compiling], self._first_steps)
        ours = firsts.pop("ours", None)
        for name in (*firsts, *compiling):
            theirs = firsts.pop(name, None) or self.ask([name], self._first_steps).get(name)
            if ours and theirs:
                self._compare(name, ours, theirs)
        if self.device != "cpu":
            self.peaks = self.ask(self.workers, Worker.peak)

    def ask(self, names: Iterable[str], question: Callable[[Worker], Any]) -> dict[str, Any]:
        """Ask the processes concurrently; returns the answers."""
        workers = {name: self.workers[name] for name in names}
        with ThreadPoolExecutor(max(len(workers), 1)) as pool:
            answers = {name: pool.submit(question, worker) for name, worker in workers.items()}
        return {name: answer.result() for name, answer in answers.items() if not self._failed(name, answer)}

    def _failed(self, name: str, answer: Any) -> bool:
        error = answer.exception()
        if isinstance(error, ChildError):
            self.leave_out(name, error)
        return isinstance(error, ChildError)

    def leave_out(self, name: str, error: ChildError) -> None:
        """Add a short note; the whole error goes to standard error."""
        print(f"{self.key}: {error}", file=sys.stderr)
        del self.workers[name]
        self.notes.append(f"{peer(name).LABEL} failed: {reason(error)}")

    def _first_steps(self, worker: Worker) -> tuple[First, float]:
        """The first step, and the loss after `WARM` more."""
        first = worker.first()
        worker.step(WARM)
        return first, worker.loss()

    def _compare(self, name: str, ours: tuple[First, float], theirs: tuple[First, float]) -> None:
        """Note their difference; times are measured in any case."""
        label = peer(name).LABEL
        try:
            apart = compare(ours[0], theirs[0], self.key, label)
            after = close(ours[1], theirs[1], self.key, f"loss after {WARM} steps, {label}'s")
            self.differences[label] = max(after, *apart.values())
        except DifferentWorkError as error:
            self.notes.append(f"NOT THE SAME WORK: {reason(error)}")

    # ------------------------------------------------------------ times and memory

    def measure(self, repeats: int, seconds: float) -> None:
        while self.workers:
            try:
                self.times = measure(self.workers, repeats, seconds, SETTLE)
                return
            except ChildError as error:
                for name in [name for name, one in self.workers.items() if one.process.poll() is not None]:
                    self.leave_out(name, error)

    def table(self, repeats: int, seconds: float) -> Table:
        self.measure(repeats, seconds)
        table = Table(f"a training step of {row_name(self.key)}: median ms [quartiles], peak MiB")
        for name in self.times:
            peak = self.peaks.get(name)
            row = {"ms": spread([1e3 * t for t in self.times[name]])}
            row |= {f"{peer(own).LABEL} / it": self.ratio(own, name) for own in OURS if own in self.times}
            row |= {"MiB in tensors": peak and peak.used, "MiB held": peak and peak.held}
            table.rows[peer(name).LABEL] = row
            low, _, high = self.ratio("captured", name) or (1, 1, 1)
            if high > UNSTEADY * low:
                table.notes.append(f"Unsteady: {peer(name).LABEL}, ratios' quartiles {low:.2f}, {high:.2f}")
        table.notes += self.notes
        if self.differences:
            apart = ", ".join(f"{label} {value:.0e}" for label, value in self.differences.items())
            table.notes.append(f"Difference from minigrad's losses and gradients: {apart}")
        return table

    def ratio(self, own: str, name: str) -> Any:
        """Ours / theirs, turn by turn; None of oneself, and where one of them failed."""
        if own == name or not {own, name} <= self.times.keys():
            return None
        return ratios(self.times[own], self.times[name])

    def against_best(self) -> dict[str, Any]:
        """Captured against torch's fastest; as it is, and memory, against torch eager."""
        theirs = [name for name in self.times if name not in OURS]
        best = min(theirs, key=lambda name: spread(self.times[name]).median, default=None)
        row = {"captured / torch's fastest": best and self.ratio("captured", best)}
        row |= {"fastest": best and peer(best).LABEL}
        row["not captured / torch eager"] = self.ratio("ours", "torch")
        used = {name: peak.used for name, peak in self.peaks.items()}
        for own, column in (("captured", "MiB, captured / eager"), ("ours", "MiB, not captured / eager")):
            row[column] = used[own] / used["torch"] if {own, "torch"} <= used.keys() else None
        return row


def reason(error: Exception) -> str:
    """The last error that a process named, and the line after it: our errors have two."""
    lines = str(error).splitlines()
    named = [i for i, line in enumerate(lines) if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return " ".join(lines[named[-1] :][:2] if named else lines[-2:]).strip().rstrip(".")[:400]
