"""A library in its own process, which runs steps on request.

Each library is measured as its users run it, with its own threads and allocator settings.

    with Worker("torch", threads=1) as theirs:
        theirs.prepare("nano")
        theirs.turn(number=3, settle=0.0, clock="wall")      # seconds of a step
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .children import ChildError, command, environment
from .device_memory import Peak
from .measuring import LocalTurns
from .peaks import memory_growth, resident, run_smaller
from .peers import KINDS, peer, settings_of, step_of
from .works import First, Work, weights_of, work_of


class Worker:
    """A client of the process: methods run there, and their errors are raised here."""

    def __init__(
        self,
        name: str,
        threads: int,
        kernels: str | None = None,
        cores: list[int] | None = None,
        timeout: float | None = None,
    ) -> None:
        # seconds
        self.name = name
        self.timeout = timeout
        options = {"kernels": kernels if name in ("ours", "captured") else None, "cores": cores}
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            command("worker", "serve", name, threads, threads=threads, **options),
            env=environment(threads, settings_of(name, threads)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def call(self, method: str, *args: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self._kill_after_timeout() as timed_out:
            try:
                self.process.stdin.write(json.dumps([method, *args]) + "\n")
                self.process.stdin.flush()
                answer = self.process.stdout.readline()
            except BrokenPipeError:
                answer = ""
        if not answer:
            self.process.wait()
            self.errors.seek(0)
            why = (
                f"no answer within {self.timeout} s"
                if timed_out.is_set()
                else self.errors.read().strip()[-3000:]
            )
            raise ChildError(f"{self.name}: {method}{args} failed.\n{why}")
        return json.loads(answer)

    @contextlib.contextmanager
    def _kill_after_timeout(self) -> Iterator[threading.Event]:
        """A context that kills the process after the timeout, and then sets the event."""
        timed_out = threading.Event()
        if self.timeout is None:
            yield timed_out
            return
        timer = threading.Timer(self.timeout, lambda: (timed_out.set(), self.process.kill()))
        timer.start()
        try:
            yield timed_out
        finally:
            timer.cancel()

    def prepare(self, key: str, device: str = "cpu") -> str | None:
        """Build the model and optimizer of a work, or return the reason why the library cannot."""
        return self.call("prepare", key, device)

    def round(self) -> int:
        """How many steps take a batch of each shape."""
        return self.call("round")

    def first(self) -> First:
        """Loss and gradients of the first batch."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "gradients.npz"
            loss = self.call("first", str(path))
            with np.load(path) as arrays:
                return First(loss, dict(arrays))

    def loss(self) -> float:
        """The current loss of the first batch."""
        return self.call("loss")

    def peak(self) -> Peak:
        """The memory of steps: on a CPU, that of the process beyond the model, and as a whole."""
        return Peak(*self.call("peak"))

    def step(self, number: int) -> None:
        self.call("step", number)

    def ready(self) -> int:
        return self.call("ready")

    def turn(self, number: int, settle: float, clock: str) -> float:
        return self.call("turn", number, settle, clock)


class _Server:
    """The same methods, in the process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.work: Any = None
        self.turns: Any = None
        self.without = 0  # bytes of the process without gradients, moments, and what the passes need

    def prepare(self, key: str, device: str = "cpu") -> str | None:
        module = peer(self.name)
        work = work_of(key)
        kind = KINDS[type(work)]
        if key in module.CANNOT or not hasattr(module, kind):
            return module.CANNOT.get(key) or module.CANNOT.get(kind) or "not written"
        self.work = self.turns = None
        gc.unfreeze()  # free what the last `ready` froze
        self.device, self.rounds = device, round_of(work)
        weights = weights_of(work.model())
        if device == "cpu":
            run_smaller(self.name)
            self.without = resident() + sum(array.nbytes for array in weights.values())
        self.work = step_of(self.name, work, weights, *([] if device == "cpu" else [device]))
        self.turns = LocalTurns(self.work, getattr(self.work, "wait", lambda: None), self.rounds)
        return None

    def round(self) -> int:
        return self.rounds

    def first(self, path: str) -> float:
        first = self.work.first()
        np.savez(path, **first.gradients)
        return first.loss

    def loss(self) -> float:
        return self.work.loss()

    def peak(self) -> Peak:
        if self.device != "cpu":
            return self.work.peak()
        return Peak(*memory_growth(lambda: self.step(self.rounds), self.without))

    def step(self, number: int) -> None:
        for _ in range(number):
            self.work()

    def ready(self) -> int:
        return self.turns.ready()

    def turn(self, number: int, settle: float, clock: str) -> float:
        return self.turns.turn(number, settle, clock)


def round_of(work: Work) -> int:
    """How many steps take a batch of each shape."""
    shapes = {tuple(array.shape for array in batch) for batch in work.batches()}
    return 1 if len(shapes) == 1 else len(work.batches())


def serve(name: str, threads: int) -> None:
    """Answer requests, one per line, until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries is not an answer
    if hasattr(peer(name), "set_threads"):
        peer(name).set_threads(threads)
    server = _Server(name)
    for line in sys.stdin:
        method, *args = json.loads(line)
        print(json.dumps(getattr(server, method)(*args)), file=answers, flush=True)
