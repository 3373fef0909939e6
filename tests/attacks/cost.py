"""Measures what checksums cost: at most 5% of the time to load a run's checkpoint, and 1% of a run's time.

Every call of `hashlib.sha256` is timed, while a recipe is trained and while its run is loaded.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
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


def measure() -> int:
    """The shares of loading (the smallest of ten) and of training. A share of nothing is a failure, too."""
    steps, report = full_or(small=10, full=1000), Report()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        train = [*TRAIN, "--steps", str(steps), "--validate-every", str(max(steps // 5, 1))]
        shares = {"training": share(lambda: main(train))}
        shares["loading"] = min(share(lambda: Run("run")) for _ in range(10))  # type: ignore[arg-type]
        os.chdir("/")
    for name, (fraction, figures) in shares.items():
        failure = "" if 0 < fraction <= LIMITS[name] else f"{fraction:.1%}, the limit is {LIMITS[name]:.0%}"
        print(f"{name:<10} {fraction:.2%}: {figures}")
        report.add(name, "over the limit" if failure else "within the limit", failure)
    return report.finish()


if __name__ == "__main__":
    sys.exit(measure())
