"""A library at its works, in a process of its own, which takes its turns when it is told to.

So each is measured as its users have it: with its own threads, and with the allocator as it sets it.

    with Worker("torch", threads=1) as theirs:
        theirs.prepare("nano")
        theirs.turn(number=3, settle=0.0, clock="wall")      # seconds of a step
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .children import ChildError, command, environment
from .measuring import Here
from .peers import KINDS, peer, settings_of, step_of
from .works import First, weights_of, work_of


class Worker:
    """The process, as seen by who gives the turns. What it is asked for runs there, and raises here."""

    def __init__(
        self, name: str, threads: int, kernels: str | None = None, cores: list[int] | None = None
    ) -> None:
        self.name = name
        own = {"kernels": kernels if name == "ours" else None, "cores": cores}
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
        try:
            self.process.stdin.write(json.dumps([what, *args]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.process.wait()
            self.errors.seek(0)
            raise ChildError(f"{self.name}: {what}{args} failed.\n{self.errors.read().strip()[-3000:]}")
        return json.loads(answer)

    def prepare(self, key: str) -> bool:
        """Build the work's model and optimizer; whether it can."""
        return self.ask("prepare", key)

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

    def prepare(self, key: str) -> bool:
        module, work = peer(self.name), work_of(key)
        if key in module.CANNOT or not hasattr(module, KINDS[type(work)]):
            return False
        self.work = self.here = None
        gc.unfreeze()  # what the last work's `ready` froze can go
        gc.collect()
        self.work = step_of(self.name, work, weights_of(work.model()))
        self.here = Here(self.work)
        return True

    def first(self, path: str) -> float:
        first = self.work.first()
        np.savez(path, **first.gradients)
        return first.loss

    def loss(self) -> float:
        return self.work.loss()

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
