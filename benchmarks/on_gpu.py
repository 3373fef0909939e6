"""Training steps on a GPU: ours as it is and captured, beside PyTorch eager, compiled, and compiled with
reduce-overhead, all in turns.

A work has a process for each library. They are made ready at the same time, but those that compile one after
another: torch.compile tries kernels out, and nobody is to disturb it. All take the same first step, `WARM`
more, and the steps whose memory is counted (`device_memory`), before times are taken. A turn ends when the
GPU has done all that it was asked; one step that does not count comes before it, since the GPU was another
process's. torch finds its batches on the GPU; ours are NumPy arrays, and copying them there is part of our
step, as it is of the trainer's.

Who fails is left out with a note, and so is, in one work, who takes longer than `PATIENCE` for an answer.
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
PATIENCE = 200.0  # seconds: GPT-2 takes about a minute to compile


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
        work = Together(key, device)
        with work.of([*OURS, *present], kernels):
            work.warm()
            table = work.table(repeats, seconds)
        table.notes += [note for name in peers if (note := missing(name))]
        yield table
        ratios_of_all.rows[row_name(key)] = work.against_best()
    yield ratios_of_all


class Together:
    """Libraries at one work, each in its process."""

    def __init__(self, key: str, device: str) -> None:
        self.key, self.device = key, device
        self.workers: dict[str, Worker] = {}  # of those who have not failed
        self.notes: list[str] = []
        self.apart: dict[str, float] = {}  # how far at most from ours
        self.times: dict[str, list[float]] = {}
        self.peaks: dict[str, Any] = {}
        self.stack = ExitStack()

    def of(self, names: Iterable[str], kernels: str | None) -> ExitStack:
        """Start the processes; they end with the stack."""
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        for name in names:
            worker = Worker(name, 1, kernels, cores, PATIENCE)
            self.workers[name] = self.stack.enter_context(worker)
        return self.stack

    def warm(self) -> None:
        """All that comes before times are taken."""
        self.ask(self.workers, lambda worker: worker.prepare(self.key, self.device))
        compiling = [name for name in self.workers if name in ("compile", "reduce-overhead")]
        firsts = self.ask([name for name in self.workers if name not in compiling], self._begin)
        ours = firsts.pop("ours", None)
        for name in (*firsts, *compiling):
            theirs = firsts.pop(name, None) or self.ask([name], self._begin).get(name)
            if ours and theirs:
                self._compare(name, ours, theirs)
        if self.device != "cpu":
            self.peaks = self.ask(self.workers, Worker.peak)

    def ask(self, names: Iterable[str], question: Callable[[Worker], Any]) -> dict[str, Any]:
        """What they answer, asked at the same time."""
        asked = {name: self.workers[name] for name in names}
        with ThreadPoolExecutor(max(len(asked), 1)) as pool:
            answers = {name: pool.submit(question, worker) for name, worker in asked.items()}
        return {name: answer.result() for name, answer in answers.items() if not self._failed(name, answer)}

    def _failed(self, name: str, answer: Any) -> bool:
        error = answer.exception()
        if isinstance(error, ChildError):
            self.leave_out(name, error)
        return isinstance(error, ChildError)

    def leave_out(self, name: str, error: ChildError) -> None:
        """A note says why in a line or two; all that the process said goes to standard error."""
        print(f"{self.key}: {error}", file=sys.stderr)
        del self.workers[name]
        self.notes.append(f"{peer(name).LABEL} failed: {reason(error)}")

    def _begin(self, worker: Worker) -> tuple[First, float]:
        """The first step, more of them, and the loss after those."""
        first = worker.first()
        worker.step(WARM)
        return first, worker.loss()

    def _compare(self, name: str, ours: tuple[First, float], theirs: tuple[First, float]) -> None:
        """Note how far they are apart; times are taken all the same."""
        label = peer(name).LABEL
        try:
            apart = compare(ours[0], theirs[0], self.key, label)
            after = close(ours[1], theirs[1], self.key, f"loss after {WARM} steps, {label}'s")
            self.apart[label] = max(after, *apart.values())
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
        if self.apart:
            apart = ", ".join(f"{label} {value:.0e}" for label, value in self.apart.items())
            table.notes.append(f"Apart from minigrad's losses and gradients: {apart}")
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
