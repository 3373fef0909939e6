"""Measures what checksums cost: at most 5% of the time to load a run, and 1% of a run's time.

A run is loaded with and without checksums, in turns: they are computed while the model is built, so that only
the clock tells what they cost. In a training every call of `hashlib.sha256` is timed.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from minitransformer.runs.run import Run

from .commands import Report, full_or, main

TRAIN = ["train", "phrasebook", "--run-dir", "run", "--overwrite"]
LIMITS = {"loading": 0.05, "training": 0.01}


class TimedSum:
    """SHA-256, with the seconds that all sums have taken."""

    sha256: Any = staticmethod(hashlib.sha256)
    seconds = 0.0

    def __init__(self, content: Any = b"", **options: Any) -> None:
        self._sum = self.sha256(**options)
        self.update(content)

    def update(self, content: Any) -> None:
        start = time.perf_counter()
        self._sum.update(content)
        TimedSum.seconds += time.perf_counter() - start

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sum, name)


class NoSum(str):
    """A checksum that is not computed, and equals every other."""

    def __new__(cls, content: bytes = b"") -> NoSum:
        return super().__new__(cls)

    def hexdigest(self) -> NoSum:
        return self

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def seconds(command: Callable[[], object]) -> float:
    """The time of a command."""
    start = time.perf_counter()
    command()
    return time.perf_counter() - start


def loading(times: int) -> tuple[float, str]:
    """The share of checksums in the time of loading, and the figures: the smallest times of each."""
    checked = []
    unchecked = []
    for _ in range(times):
        for results, context in ((checked, nullcontext()), (unchecked, patch("hashlib.sha256", NoSum))):
            with context:
                results.append(seconds(lambda: Run(Path("run"))))
    least, without = min(checked), min(unchecked)
    return least / without - 1, f"{least * 1e3:.1f} ms, without checksums {without * 1e3:.1f} ms"


def training(steps: int) -> tuple[float, str]:
    """The share of checksums in the time of a training, and the figures."""
    options = ["--steps", str(steps), "--validate-every", str(max(steps // 5, 1))]
    with patch("hashlib.sha256", TimedSum):
        taken = seconds(lambda: main([*TRAIN, *options]))
    return TimedSum.seconds / taken, f"{TimedSum.seconds * 1e3:.1f} ms of {taken * 1e3:.0f} ms"


def measure() -> int:
    """Both shares."""
    steps = full_or(small=10, full=1000)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shares = {"training": training(steps), "loading": loading(times=50)}
        os.chdir("/")
    for name, (fraction, figures) in shares.items():
        failure = "" if fraction <= LIMITS[name] else f"{fraction:.1%}, the limit is {LIMITS[name]:.0%}"
        print(f"{name:<10} {fraction:.2%}: {figures}")
        report.add(name, "over the limit" if failure else "within the limit", failure)
    return report.finish()


if __name__ == "__main__":
    sys.exit(measure())
