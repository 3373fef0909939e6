"""The progress display of training, and the warning when steps become slow."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from minigrad.core.devices import library_of
from minigrad.kernels.numpy.blas import blas_threads
from minigrad.ops.allocation import format_bytes

from .notebook import NotebookLine

Show = Callable[[int, Mapping[str, float]], None]
INTERVAL = 30.0  # seconds between lines in a file


@contextmanager
def show_progress(console: Console, step: int, steps: int, device: str = "cpu") -> Iterator[Show]:
    """Steps, loss, tokens per second, memory and remaining time: a bar on a terminal, one line in a notebook,
    a line every half a minute in a file.

    Yields a function of the number of completed steps and the record of the last one.
    """
    columns = (
        TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    line = NotebookLine() if console.is_jupyter and not console.quiet else None
    speed = 0.0
    memory = ""
    read_at = -math.inf
    written_at = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=steps, completed=step, figures="")

        def show(step: int, record: Mapping[str, float]) -> None:
            nonlocal speed, memory, read_at, written_at
            speed += (record["tokens_per_second"] - speed) * (0.1 if speed else 1.0)
            if progress.disable and line is None and time.monotonic() - written_at < INTERVAL:
                return
            if time.monotonic() - read_at > 1:
                memory = format_bytes(memory_in_use(device))
                read_at = time.monotonic()
            # a captured step's loss is read only now and then
            loss = "" if math.isnan(record["loss"]) else f"loss {record['loss']:.4f} "
            figures = f"{loss}{speed:,.0f} tokens/s {memory}"
            progress.update(bar, completed=step, figures=figures)
            if line:
                line.update(progress.get_renderable(), last=step == steps)
            elif progress.disable:
                console.print(f"step {step:>6} of {steps:,}  {figures}", highlight=False)
                written_at = time.monotonic()

        yield show


def memory_in_use(device: str = "cpu") -> int:
    """The bytes that this process holds in the machine's memory, or in a GPU's."""
    import psutil

    if device != "cpu":
        return int(library_of(device).get_default_memory_pool().total_bytes())
    return int(psutil.Process().memory_info().rss)


class SlowSteps:
    """Detects steps that suddenly take many times as long as before, and warns once with a remedy.

    OpenBLAS's threads busy-wait for each other: if another program uses one of the cores, a step on two of
    them can be slower than on one.
    """

    FACTOR = 2.0
    FEW = 8
    WINDOW = 32

    def __init__(self, threads: Callable[[], int] | None = None) -> None:
        self.times: deque[float] = deque(maxlen=self.WINDOW)  # seconds for each token, of the steps before
        self.slow = 0
        self.done = False
        self.threads = threads or blas_threads

    def warning(self, tokens_per_second: float) -> str:
        """A warning after FEW slow steps in a row, if several threads compute; else an empty string."""
        if self.done or not tokens_per_second > 0:
            return ""
        seconds = 1 / tokens_per_second
        usual = statistics.median_low(self.times) if len(self.times) == self.WINDOW else math.inf
        if seconds <= self.FACTOR * usual:
            self.slow = 0
            self.times.append(seconds)
            return ""
        self.slow += 1
        if self.slow < self.FEW:
            return ""
        self.done = True
        if (threads := self.threads()) < 2:
            return ""
        if "OPENBLAS_THREAD_TIMEOUT" in os.environ:  # the advice below was followed
            remedy = "set OPENBLAS_NUM_THREADS=1, so that no thread waits for another"
        else:
            remedy = "set OPENBLAS_THREAD_TIMEOUT=4, which lets them sleep while they wait"
        return (
            f"steps take {seconds / usual:.1f} times as long as before, on {threads} threads: another "
            f"program may be using the cores, and the threads wait for each other. It helps to stop "
            f"(Ctrl-C), {remedy}, and continue with --resume."
        )
