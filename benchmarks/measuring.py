"""Times by alternation: those who are compared take turns, so that what disturbs one disturbs all.

Medians and quartiles are shown; a ratio is the median of the ratios of turns that stood side by side. On a
machine that others use, the processor's clock (`CLOCKS["cpu"]`) counts one thread's own work, and not how
long it waited for a core.
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
    """Quartiles of what was measured."""
    if len(values) < 2:
        return Spread(values[0], values[0], values[0])
    return Spread(*statistics.quantiles(values, n=4, method="inclusive"))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Ours / theirs, turn by turn."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


TURN = 0.02  # seconds at least: what is quicker is done several times in a turn


class Turns(Protocol):
    """A step that is done when its turn comes, here or in another process."""

    def ready(self) -> int: ...  # how many steps make a turn
    def turn(self, number: int, settle: float, clock: str) -> float: ...  # seconds of a step


class Here:
    """A step of this process; a turn ends when `wait` returns: the GPU has done all that it was asked."""

    def __init__(self, step: Callable[[], object], wait: Callable[[], object] = lambda: None) -> None:
        self.step, self.wait = step, wait

    def ready(self) -> int:
        number = _times_in_a_turn(lambda: (self.step(), self.wait()))
        gc.collect()
        gc.freeze()  # what there is by now need not be looked at again
        return number

    def turn(self, number: int, settle: float, clock: str) -> float:
        now = CLOCKS[clock]
        gc.collect()  # nobody clears away another's garbage
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

    With `settle`, a turn begins with that many seconds of rest and one step that does not count: threads of
    the other library go on spinning for some milliseconds, and its own have gone to sleep.
    """
    those: dict[str, Turns] = {name: s if hasattr(s, "turn") else Here(s) for name, s in steps.items()}  # type: ignore[misc, arg-type]
    numbers = {name: one.ready() for name, one in those.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    begin = time.perf_counter()
    for turn in range(repeats):
        if turn >= least and time.perf_counter() - begin > seconds:
            break
        for name, one in those.items():
            times[name].append(one.turn(numbers[name], settle, clock))
    gc.unfreeze()
    return times


def _times_in_a_turn(step: Callable[[], object]) -> int:
    """How often a step fits into the shortest turn; it has been run, so that it is warm."""
    step()
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
        if taken[-1] > TURN:
            return 1
    return math.ceil(TURN / min(taken))
