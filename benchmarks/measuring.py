"""Times by alternation: libraries run in turns, so that disturbances affect all of them.

Medians and quartiles are shown; a ratio is the median of the ratios of adjacent turns. On a busy machine, the
processor's clock (`CLOCKS["cpu"]`) does not count the time that a thread waits for a core.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Spread(NamedTuple):
    """A median between its quartiles."""

    low: float
    median: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """The quartiles of measured values."""
    if len(values) < 2:
        return Spread(values[0], values[0], values[0])
    return Spread(*statistics.quantiles(values, n=4, method="inclusive"))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Ours / theirs, turn by turn."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


TURN = 0.02  # minimum seconds of a turn; faster steps run several times


class Turns(Protocol):
    """A step that runs in turns, in this or another process."""

    def ready(self) -> int: ...  # how many steps make a turn
    def turn(self, number: int, settle: float, clock: str) -> float: ...  # seconds of a step


class LocalTurns:
    """A step in this process; a turn ends when `wait` returns, after the GPU has finished.

    A turn is one or more rounds of steps; each round takes the same batches.
    """

    def __init__(
        self, step: Callable[[], object], wait: Callable[[], object] = lambda: None, rounds: int = 1
    ) -> None:
        self.step = step
        self.wait = wait
        self.rounds = rounds

    def ready(self) -> int:
        number = _times_in_a_turn(lambda: (self.step(), self.wait()))
        number = self.rounds * math.ceil(number / self.rounds)
        gc.collect()
        gc.freeze()  # existing objects need no further collection
        return number

    def turn(self, number: int, settle: float, clock: str) -> float:
        now = CLOCKS[clock]
        gc.collect()  # no garbage of other turns
        if settle:
            time.sleep(settle)
            self.step()
        self.wait()
        start = now()
        for _ in range(number):
            self.step()
        self.wait()
        return (now() - start) / number


def measure(
    steps: Mapping[str, Callable[[], object] | Turns],
    repeats: int,
    seconds: float = math.inf,
    settle: float = 0.0,
    clock: str = "wall",
    least: int = 5,
) -> dict[str, list[float]]:
    """Seconds of each step, the steps taking turns: `repeats` turns each, or until `seconds` have passed.

    With `settle`, a turn starts with a pause of that many seconds and an untimed step: threads of the other
    library still spin for some milliseconds, and those of this one have gone to sleep.
    """
    runners: dict[str, Turns] = {
        name: s if hasattr(s, "turn") else LocalTurns(s) for name, s in steps.items()
    }  # type: ignore[misc, arg-type]
    numbers = {name: runner.ready() for name, runner in runners.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    start = time.perf_counter()
    for turn in range(repeats):
        if turn >= least and time.perf_counter() - start > seconds:
            break
        for name, runner in runners.items():
            times[name].append(runner.turn(numbers[name], settle, clock))
    gc.unfreeze()
    return times


def _times_in_a_turn(step: Callable[[], object]) -> int:
    """How many steps the shortest turn needs, after a warm-up step."""
    step()
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
        if taken[-1] > TURN:
            return 1
    return math.ceil(TURN / min(taken))
