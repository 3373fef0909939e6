"""Measures what checksums cost: at most 5% of the time to load a run's checkpoint, and 1% of a run's time.

Every call of `hashlib.sha256` is timed while a recipe is trained. Its run is then loaded with sums and with
sums that take no time, in turn; what counts is the difference, as sums may be computed beside something
else.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from minitransformer.training.run import Run

from .commands import Report, full_or, main

TRAIN = ["train", "phrasebook", "--run-dir", "run", "--overwrite"]
LIMITS = {"loading": 0.05, "training": 0.01}


class TimedSum:
    """SHA-256, with the seconds that all sums have taken and the bytes that they have read."""

    sha256: Any = staticmethod(hashlib.sha256)
    seconds, size = 0.0, 0

    def __init__(self, content: Any = b"", **options: Any) -> None:
        self._sum = self.sha256(**options)
        self.update(content)

    def update(self, content: Any) -> None:
        start = time.perf_counter()
        self._sum.update(content)
        TimedSum.seconds += time.perf_counter() - start
        TimedSum.size += len(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sum, name)


def share(command: Callable[[], object]) -> tuple[float, str]:
    """The share of checksums in the time of a command, and the figures."""
    TimedSum.seconds, TimedSum.size = 0.0, 0
    start = time.perf_counter()
    with patch("hashlib.sha256", TimedSum):
        command()
    seconds = time.perf_counter() - start
    figures = f"{TimedSum.size / 1e6:.1f} MB in {TimedSum.seconds * 1e3:.1f} ms of {seconds * 1e3:.0f} ms"
    return TimedSum.seconds / seconds, figures


KNOWN: dict[tuple[int, bytes], Any] = {}


def remembered(content: Any = b"", **options: Any) -> Any:
    """SHA-256 that takes no time for what it has summed before, told by length and end."""
    key = len(content), bytes(content[-1000:])
    if key not in KNOWN:
        KNOWN[key] = TimedSum.sha256(content, **options)
    return KNOWN[key].copy()


def seconds_to_load(sha256: Any) -> float:
    with patch("hashlib.sha256", sha256):
        start = time.perf_counter()
        Run(Path("run"))
        return time.perf_counter() - start


def measure() -> int:
    """The shares of sums in training and in loading (of the fastest of 40)."""
    steps, report = full_or(small=10, full=1000), Report()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        train = [*TRAIN, "--steps", str(steps), "--validate-every", str(min(steps, 200))]
        shares = {"training": share(lambda: main(train))}
        pairs = [(seconds_to_load(TimedSum.sha256), seconds_to_load(remembered)) for _ in range(40)]
        with_sums, without = (min(column) for column in zip(*pairs, strict=True))
        figures = f"{with_sums * 1e3:.1f} ms with sums, {without * 1e3:.1f} ms without"
        shares["loading"] = (with_sums / without - 1, figures)
        os.chdir("/")
    if not TimedSum.size or not KNOWN:
        report.add("sums", "none", "no sum was computed")
    for name, (fraction, figures) in shares.items():
        failure = "" if fraction <= LIMITS[name] else f"{fraction:.1%}, the limit is {LIMITS[name]:.0%}"
        print(f"{name:<10} {fraction:.2%}: {figures}")
        report.add(name, "over the limit" if failure else "within the limit", failure)
    return report.finish()


if __name__ == "__main__":
    sys.exit(measure())
