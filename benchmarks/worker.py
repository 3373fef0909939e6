"""A library at its works, in a process of its own, which takes its turns when it is told to.

So each is measured as its users have it: with its own threads, and with the allocator as it sets it.

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
from .measuring import Here
from .peers import KINDS, peer, settings_of, step_of
from .works import First, weights_of, work_of


class Worker:
    """The process, as seen by who gives the turns. What it is asked for runs there, and raises here."""

    def __init__(
        self,
        name: str,
        threads: int,
        kernels: str | None = None,
        cores: list[int] | None = None,
        patience: float | None = None,
    ) -> None:
        self.name, self.patience = name, patience  # seconds that an answer may take
        own = {"kernels": kernels if name in ("ours", "captured") else None, "cores": cores}
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            command("worker", "serve", name, threads, threads=threads, **own),
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

    def ask(self, what: str, *args: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self._patience() as late:
            try:
                self.process.stdin.write(json.dumps([what, *args]) + "\n")
                self.process.stdin.flush()
                answer = self.process.stdout.readline()
            except BrokenPipeError:
                answer = ""
        if not answer:
            self.process.wait()
            self.errors.seek(0)
            why = f"no answer within {self.patience} s" if late else self.errors.read().strip()[-3000:]
            raise ChildError(f"{self.name}: {what}{args} failed.\n{why}")
        return json.loads(answer)

    @contextlib.contextmanager
    def _patience(self) -> Iterator[list[bool]]:
        """Within it the process is ended when it takes too long, and the list is then no longer empty."""
        late: list[bool] = []
        if self.patience is None:
            yield late
            return
        timer = threading.Timer(self.patience, lambda: (late.append(True), self.process.kill()))
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def prepare(self, key: str, *device: str) -> bool:
        """Build the work's model and optimizer; whether it can."""
        return self.ask("prepare", key, *device)

    def first(self) -> First:
        """Loss and gradients of the first batch."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "gradients.npz"
            loss = self.ask("first", str(path))
            with np.load(path) as arrays:
                return First(loss, dict(arrays))

    def loss(self) -> float:
        """The loss of the first batch now."""
        return self.ask("loss")

    def peak(self) -> Peak:
        """The memory that steps need on a GPU."""
        return Peak(*self.ask("peak"))

    def step(self, number: int) -> None:
        self.ask("step", number)

    def ready(self) -> int:
        return self.ask("ready")

    def turn(self, number: int, settle: float, clock: str) -> float:
        return self.ask("turn", number, settle, clock)


class _Server:
    """The same methods, where the work is done."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.work: Any = None
        self.here: Any = None

    def prepare(self, key: str, *device: str) -> bool:
        module, work = peer(self.name), work_of(key)
        if key in module.CANNOT or not hasattr(module, KINDS[type(work)]):
            return False
        self.work = self.here = None
        gc.unfreeze()  # what the last work's `ready` froze can go
        gc.collect()
        self.work = step_of(self.name, work, weights_of(work.model()), *device)
        self.here = Here(self.work, getattr(self.work, "wait", lambda: None))
        return True

    def first(self, path: str) -> float:
        first = self.work.first()
        np.savez(path, **first.gradients)
        return first.loss

    def loss(self) -> float:
        return self.work.loss()

    def peak(self) -> Peak:
        return self.work.peak()

    def step(self, number: int) -> None:
        for _ in range(number):
            self.work()

    def ready(self) -> int:
        return self.here.ready()

    def turn(self, number: int, settle: float, clock: str) -> float:
        return self.here.turn(number, settle, clock)


def serve(name: str, threads: int) -> None:
    """Answer a question a line, until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    if hasattr(peer(name), "set_threads"):
        peer(name).set_threads(threads)
    server = _Server(name)
    for line in sys.stdin:
        what, *args = json.loads(line)
        print(json.dumps(getattr(server, what)(*args)), file=answers, flush=True)
