"""Several libraries that do the same work, each in its own process, in turns.

All take the same first step: loss and gradients must agree, and, if nothing is random, the loss after some
more steps. Then peak memory is read after warm-up, and then times are measured. A library that fails, or
takes longer than `TIMEOUT` to answer, is skipped with a note.

On a GPU, a turn ends when the GPU has finished; it starts with a step that does not count, since another
process used the GPU. torch's batches are on the GPU; ours are NumPy arrays, and the step includes the copy,
as in the trainer.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np

from .children import ChildError
from .machine import idlest
from .measuring import measure, ratios, spread
from .peers import peer
from .tables import Table
from .worker import Worker
from .works import MLP, Decoder, First, Recurrent, row_name, work_of

OURS = {"cpu": ("ours",), "cuda": ("ours", "captured")}  # eager, and as a CUDA graph
COMPILING = ("compile", "reduce-overhead")  # one after another, as they time kernels while compiling
WARM = 5  # rounds of steps: a captured one is recorded in its third, reduce-overhead's in theirs
TIMEOUT = {"cpu": 900.0, "cuda": 200.0}  # seconds: GPT-2 takes about a minute to compile
# seconds between turns: threads of OpenBLAS spin for 30 to 100 ms (2**26 ticks of the processor's counter)
SETTLE_GPU, SETTLE_THREADS = 0.001, 0.2
UNSTEADY = 1.5  # a ratio whose quartiles are further apart than this is unreliable
# the relative tolerance by the precision of products. float32: sums are in different orders. TF32 and
# bfloat16 round to 11 and to 8 bits (5e-4 and 4e-3 per number): libraries differ in what they round, and
# where, and the differences add up from layer to layer
AGREE = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 5e-2}


class DifferentWorkError(AssertionError):
    """Raised when two libraries do not do the same work."""


class Comparison:
    """Several libraries that do the same work, each in its own process."""

    def __init__(self, key: str, device: str = "cpu", threads: int = 1, clock: str = "wall") -> None:
        self.key = key
        self.device = device
        self.threads = threads
        self.clock = clock
        self.workers: dict[str, Worker] = {}  # those that have not failed
        self.notes: list[str] = []
        self.not_captured: str | None = None  # why
        self.differences: dict[str, float] = {}  # the largest difference from ours
        self.times: dict[str, list[float]] = {}
        self.peaks: dict[str, Any] = {}
        self.cores: list[int] | None = None
        self.stack = ExitStack()

    def start(self, names: Iterable[str], kernels: str | None = None) -> ExitStack:
        """Start the processes; they end with the stack."""
        pinned = hasattr(os, "sched_setaffinity")
        everywhere = sorted(os.sched_getaffinity(0)) if pinned else None
        self.cores = idlest(self.threads) if self.device == "cpu" else everywhere
        for name in names:
            worker = Worker(name, self.threads, kernels, self.cores, TIMEOUT[self.device])
            self.workers[name] = self.stack.enter_context(worker)
        return self.stack

    def warm(self) -> None:
        """Everything before times are measured."""
        for name, why in self.ask(self.workers, lambda worker: worker.prepare(self.key, self.device)).items():
            if why:
                self.leave_out(name, f"{peer(name).LABEL}: {why}")
        waiting = [name for name in self.workers if name in COMPILING]
        firsts = self.ask([name for name in self.workers if name not in waiting], self._first_steps)
        ours = firsts.pop("ours", None)
        for name in (*firsts, *waiting):
            theirs = firsts.pop(name, None) or self.ask([name], self._first_steps).get(name)
            if ours and theirs:
                self._compare(name, ours, theirs)
        self.peaks = self.ask(self.workers, Worker.peak)

    def ask(self, names: Iterable[str], question: Callable[[Worker], Any]) -> dict[str, Any]:
        """Ask the processes concurrently, and return the answers."""
        workers = {name: self.workers[name] for name in names}
        with ThreadPoolExecutor(max(len(workers), 1)) as pool:
            answers = {name: pool.submit(question, worker) for name, worker in workers.items()}
        return {name: answer.result() for name, answer in answers.items() if not self._failed(name, answer)}

    def _failed(self, name: str, answer: Any) -> bool:
        error = answer.exception()
        if not isinstance(error, ChildError):
            return False
        print(f"{self.key}: {error}", file=sys.stderr)
        if "CaptureError" in reason(error):
            self.not_captured = reason(error)
        self.leave_out(name, f"{peer(name).LABEL} failed: {reason(error)}")
        return True

    def leave_out(self, name: str, *notes: str) -> None:
        del self.workers[name]
        self.notes += notes

    def _first_steps(self, worker: Worker) -> tuple[First, float]:
        """The first step, and the loss after `WARM` rounds more."""
        first = worker.first()
        worker.step(WARM * worker.round())
        return first, worker.loss()

    def _compare(self, name: str, ours: tuple[First, float], theirs: tuple[First, float]) -> None:
        """Note the differences; times are measured in any case."""
        label = peer(name).LABEL
        try:
            apart = compare(ours[0], theirs[0], self.key, label)
            if isinstance(work_of(self.key), Decoder | Recurrent | MLP):  # nothing is drawn at random
                what = f"loss after the first steps, {label}'s"
                apart["loss after"] = close(ours[1], theirs[1], self.key, what)
            self.differences[label] = max(apart.values())
        except DifferentWorkError as error:
            self.notes.append(f"NOT THE SAME WORK: {reason(error)}")

    # ------------------------------------------------------------ times and memory

    @property
    def settle(self) -> float:
        return SETTLE_GPU if self.device != "cpu" else SETTLE_THREADS if self.threads > 1 else 0.0

    def measure(self, repeats: int, seconds: float) -> None:
        while self.workers:
            try:
                self.times = measure(self.workers, repeats, seconds, self.settle, self.clock)
                return
            except ChildError as error:
                for name in [name for name, one in self.workers.items() if one.process.poll() is not None]:
                    print(f"{self.key}: {error}", file=sys.stderr)
                    self.leave_out(name, f"{peer(name).LABEL} failed: {reason(error)}")

    def table(self, title: str, repeats: int, seconds: float) -> Table:
        self.measure(repeats, seconds)
        unit = "ms" if self.clock == "wall" else "ms of processor time"
        table = Table(f"{title}, {row_name(self.key)}: median {unit} [quartiles], peak MiB")
        for name in self.times:
            row = {"ms": spread([1e3 * t for t in self.times[name]])}
            row |= {
                f"{peer(own).LABEL} / it": self.ratio(own, name)
                for own in OURS[self.device]
                if own in self.times
            }
            table.rows[peer(name).LABEL] = row | self._memory(name)
            low, _, high = self.ratio("ours", name) or (1, 1, 1)
            if high > UNSTEADY * low:
                table.notes.append(f"Unsteady: {peer(name).LABEL}, ratios' quartiles {low:.2f}, {high:.2f}")
        if self.not_captured:
            table.rows[peer("captured").LABEL] = {"ms": f"not captured: {self.not_captured}"}
        table.notes += self.notes
        if self.differences:
            apart = ", ".join(f"{label} {value:.0e}" for label, value in self.differences.items())
            table.notes.append(f"Difference from minigrad's losses and gradients: {apart}")
        return table

    def _memory(self, name: str) -> dict[str, float | None]:
        peak = self.peaks.get(name)
        used, held = ("MiB", "whole process") if self.device == "cpu" else ("MiB in tensors", "MiB held")
        return {used: peak and peak.used, held: peak and peak.held}

    def ratio(self, own: str, name: str) -> Any:
        """Ours / theirs, turn by turn; None for our own, and if one of them failed."""
        if own == name or not {own, name} <= self.times.keys():
            return None
        return ratios(self.times[own], self.times[name])

    def ratio_of_peaks(self, own: str, name: str) -> float | None:
        """Ours / theirs; None if one of them failed."""
        found = [self.peaks.get(one) for one in (own, name)]
        return found[0].used / found[1].used if all(found) and found[1].used else None


def compare(ours: First, theirs: First, key: str, label: str) -> dict[str, float]:
    """The differences of two first steps, relative to the largest value of each gradient; an error if too
    large."""
    if ours.gradients.keys() != theirs.gradients.keys():
        odd = sorted(ours.gradients.keys() ^ theirs.gradients.keys())
        raise DifferentWorkError(
            f"{key}: gradients of {odd[:3]} on one side only.\nGive both the same model."
        )
    worst = 0.0
    where = ""
    for name, gradient in ours.gradients.items():
        apart = float(np.abs(gradient - theirs.gradients[name]).max() / np.abs(gradient).max())
        if not apart <= worst:
            worst = apart
            where = name
    close(ours.loss, theirs.loss, key, f"first loss, {label}'s")
    if not worst < agree(key):
        raise DifferentWorkError(f"{key}: the gradient of {where} differs by {worst:.1e} from {label}'s.")
    return {"loss": abs(ours.loss - theirs.loss) / abs(ours.loss), "gradients": worst}


def agree(key: str) -> float:
    """The tolerance between two libraries for this work."""
    work = work_of(key)
    return AGREE[work.precision if isinstance(work, Decoder) else "float32"]


def close(ours: float, theirs: float, key: str, what: str) -> float:
    """The relative difference of two losses; an error if it is too large."""
    apart = abs(ours - theirs) / abs(ours)
    if not apart < agree(key):
        raise DifferentWorkError(f"{key}: {what}: {theirs:.6f} and ours {ours:.6f}.\nFind what differs.")
    return apart


def reason(error: Exception) -> str:
    """The last error that a process printed, and the line after it, as our errors have two lines."""
    lines = str(error).splitlines()
    named = [i for i, line in enumerate(lines) if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return " ".join(lines[named[-1] :][:2] if named else lines[-2:]).strip().rstrip(".")[:400]
