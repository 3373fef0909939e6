"""The progress display of training, and a warning when steps become slow."""

from __future__ import annotations

import math
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

from .log import training_loss
from .notebook import NotebookLine

Show = Callable[[int, Mapping[str, float]], None]
INTERVAL = 30.0  # seconds between lines if the output is a file


@contextmanager
def show_progress(console: Console, step: int, steps: int, device: str = "cpu") -> Iterator[Show]:
    """A context that shows steps, loss, tokens per second, memory and remaining time.

    A terminal shows a progress bar, a notebook one line, and a file gets a line every 30 seconds. The context
    yields a function `show(step, entry)` to call after each step with its log entry.
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

        def show(step: int, entry: Mapping[str, float]) -> None:
            nonlocal speed, memory, read_at, written_at
            speed += (entry["tokens_per_second"] - speed) * (0.1 if speed else 1.0)
            if progress.disable and line is None and time.monotonic() - written_at < INTERVAL:
                return
            if time.monotonic() - read_at > 1:
                memory = format_bytes(memory_in_use(device))
                read_at = time.monotonic()
            # a captured step's loss is not read after each step
            value = training_loss(entry)
            loss = "" if value is None or math.isnan(value) else f"loss {value:.4f} "
            figures = f"{loss}{speed:,.0f} tokens/s {memory}"
            progress.update(bar, completed=step, figures=figures)
            if line:
                line.update(progress.get_renderable(), last=step == steps)
            elif progress.disable:
                console.print(f"step {step:>6} of {steps:,}  {figures}", highlight=False)
                written_at = time.monotonic()

        yield show


def memory_in_use(device: str = "cpu") -> int:
    """The memory that this process uses on a device, in bytes."""
    import psutil

    if device != "cpu":
        return int(library_of(device).get_default_memory_pool().total_bytes())
    return int(psutil.Process().memory_info().rss)


class SlowSteps:
    """Detects steps that take much longer than before. `warning` returns a warning once, with a remedy.

    OpenBLAS's threads busy-wait for each other: if another program uses one of two cores, a step on two
    threads can be slower than on one.
    """

    FACTOR = 2.0  # a step is slow if it takes this many times the usual seconds per token
    MIN_SLOW = 8  # consecutive slow steps before the warning
    WINDOW = 32  # number of steps that the usual time is the median of

    def __init__(self, threads: Callable[[], int] | None = None) -> None:
        self.times: deque[float] = deque(maxlen=self.WINDOW)  # seconds per token of previous steps
        self.slow = 0
        self.done = False
        self.threads = threads or blas_threads

    def warning(self, tokens_per_second: float) -> str:
        """A warning after MIN_SLOW consecutive slow steps on several threads, otherwise an empty string."""
        if self.done or not tokens_per_second > 0:
            return ""
        seconds = 1 / tokens_per_second
        usual = statistics.median_low(self.times) if len(self.times) == self.WINDOW else math.inf
        if seconds <= self.FACTOR * usual:
            self.slow = 0
            self.times.append(seconds)
            return ""
        self.slow += 1
        if self.slow < self.MIN_SLOW:
            return ""
        self.done = True
        if (threads := self.threads()) < 2:
            return ""
        return (
            f"steps take {seconds / usual:.1f} times as long as before, on {threads} threads: another "
            f"program may be using the cores while the threads wait for each other. Stop (Ctrl-C), "
            f"set OPENBLAS_NUM_THREADS=1, and continue with --resume."
        )
