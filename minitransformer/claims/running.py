"""Runs claims: chooses each arm's learning rate, then measures the arm with five or ten seeds.

Each measurement is written to `NAME.jsonl` immediately, so a run that was stopped continues from there. The
result is computed from these lines only.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from ..files import read_text, to_json
from .claim import Claim, Trial, find
from .verdict import MOST_SEEDS, SEEDS, UNKNOWN, Finding, findings, verdicts

TUNING_SEEDS = (1000, 1001)  # runs with these seeds choose the learning rates, and are not compared
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
MOST_RATES = 2  # how many rates beyond the claim's are tried if the best is the first or the last
QUICK = 0.005  # the share of the steps with --quick

Line = dict[str, Any]  # a trial, its measures, the seconds that it took, and the code that measured it


def read_lines(text: str) -> Iterator[Line]:
    """Yield the valid lines of a journal. Damaged lines, such as one cut off by a kill, are skipped."""
    for text_line in text.splitlines():
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            line = json.loads(text_line)
            Trial(**line["trial"])
            numbers = [*line["measures"].values(), line["seconds"]]
            if line["measures"] and line["code"] and all(isinstance(x, float | int | None) for x in numbers):
                yield line


class Journal:
    """The measurements of a claim so far, one per line of a file.

    Lines that were measured by other code stay in the file, but are not used.
    """

    def __init__(self, path: Path, code: str) -> None:
        self.path = path
        self.code = code
        text = read_text(path) if path.exists() else ""
        self.is_cut = not text.endswith("\n") and text != ""  # a run was killed while it wrote
        self.lines: list[Line] = [line for line in read_lines(text) if line["code"] == code]

    def add(self, line: Line) -> None:
        line = {**line, "code": self.code}
        self.lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if self.is_cut else "") + to_json(line) + "\n")
        self.is_cut = False

    def measures(self, trial: Trial) -> Mapping[str, float] | None:
        """The measures of a trial, infinite where they were not finite; None if it has not run."""
        found = next((each["measures"] for each in self.lines if each["trial"] == asdict(trial)), None)
        return found and {name: math.inf if value is None else value for name, value in found.items()}

    def seconds(self, seeds: Container[int]) -> float:
        """The processor time of the trials with these seeds."""
        trials = [line for line in self.lines if line["trial"]["share"] == 1]
        return sum(line["seconds"] for line in trials if line["trial"]["seed"] in seeds)


def measure(name: str, trial: Trial) -> Line:
    """Run one trial, in a process with one thread. Return its measures and the processor time."""
    start = time.process_time()
    found = {name: float(value) for name, value in find(name).measure(trial).items()}
    finite = {name: value if math.isfinite(value) else None for name, value in found.items()}
    return {"trial": asdict(trial), "measures": finite, "seconds": time.process_time() - start}


class Study:
    """The measurements of one claim, and the trials that are still missing."""

    def __init__(self, claim: Claim, folder: Path, first_seed: int = 0, is_quick: bool = False) -> None:
        self.claim = claim
        self.first_seed = first_seed
        self.is_quick = is_quick
        self.journal = Journal(folder / f"{claim.name}.jsonl", claim.code)

    def trials(self) -> list[Trial]:
        """The trials to measure next; [] if nothing is missing."""
        stages = [self.quick] if self.is_quick else [self.tuning, lambda: self.compared(SEEDS), self.more]
        for stage in stages:
            missing = [trial for trial in stage() if self.journal.measures(trial) is None]
            if missing:
                return missing
        return []

    @property
    def seconds(self) -> float:
        """The processor time of all measurements."""
        return self.journal.seconds({*TUNING_SEEDS, *range(self.first_seed, self.first_seed + MOST_SEEDS)})

    @property
    def arms_and_cases(self) -> list[tuple[str, str]]:
        return [(arm, case) for case in self.claim.cases for arm in self.claim.arms]

    def quick(self) -> list[Trial]:
        """One trial of a few steps for each arm in each case."""
        rate = self.claim.rates[0] if self.claim.rates else 0.0
        return [Trial(arm, case, rate, TUNING_SEEDS[0], QUICK) for arm, case in self.arms_and_cases]

    def tuning(self) -> list[Trial]:
        """The trials that choose learning rates: all `rates` of each arm in each case, with TUNING_SEEDS."""
        return [
            Trial(arm, case, rate, seed)
            for arm, case in self.arms_and_cases
            for rate in self.rates(arm, case)
            for seed in TUNING_SEEDS
        ]

    def rates(self, arm: str, case: str) -> list[float]:
        """The rates to try for an arm, as far as is known so far.

        These are the claim's rates and, while the lowest or the highest is the best, another one beyond it.
        """
        rates = sorted(self.claim.rates)
        for _ in range(MOST_RATES if rates else 0):
            tried = [self.tuned_loss(arm, case, rate) for rate in rates]
            losses = [loss for loss in tried if loss is not None]
            if len(losses) < len(rates):
                break
            best = losses.index(min(losses))
            if best == 0:
                rates = [rates[0] * rates[0] / rates[1], *rates]
            elif best == len(rates) - 1:
                rates = [*rates, rates[-1] * rates[-1] / rates[-2]]
            else:
                break
        return rates

    def tuned_loss(self, arm: str, case: str, rate: float) -> float | None:
        """The higher of the two seeds' losses (`tuned_by`) with a rate; None if it has not been tried.

        With the higher one, a rate at which an arm learns only by luck is not chosen.
        """
        trials = [Trial(arm, case, rate, seed) for seed in TUNING_SEEDS]
        measured = [self.journal.measures(trial) for trial in trials]
        losses = [measures[self.claim.tuned_by] for measures in measured if measures]
        return max(losses) if len(losses) == len(TUNING_SEEDS) else None

    def tuned(self, arm: str, case: str) -> dict[float, float]:
        """The rates tried for an arm, mapped to their losses."""
        losses = {rate: self.tuned_loss(arm, case, rate) for rate in self.rates(arm, case)}
        return {rate: loss for rate, loss in losses.items() if loss is not None}

    def best_rate(self, arm: str, case: str) -> float:
        """The rate of lowest loss for an arm; 0 if the claim has no rates."""
        tried = self.tuned(arm, case)
        return min(tried, key=tried.__getitem__) if tried else 0.0

    def compared(self, seeds: int) -> list[Trial]:
        return [
            Trial(arm, case, self.best_rate(arm, case), self.first_seed + seed)
            for arm, case in self.arms_and_cases
            for seed in range(seeds)
        ]

    def more(self) -> list[Trial]:
        """The trials with all ten seeds, in cases that the first five leave undecided."""
        first = findings(self.claim, self.measured(SEEDS))
        unclear = {case for (case, _), said in verdicts(first).items() if said == UNKNOWN}
        return [trial for trial in self.compared(MOST_SEEDS) if trial.case in unclear]

    def measured(self, seeds: int = MOST_SEEDS) -> dict[tuple[str, str], dict[int, Mapping[str, float]]]:
        """The measures of the compared trials: (arm, case) -> seed -> measures."""
        found: dict[tuple[str, str], dict[int, Mapping[str, float]]] = {}
        for trial in self.compared(seeds):
            if (measures := self.journal.measures(trial)) is not None:
                found.setdefault((trial.arm, trial.case), {})[trial.seed] = measures
        return found

    def findings(self) -> list[Finding]:
        return findings(self.claim, self.measured())

    def run(self, pool: Executor, tell: Callable[[Line], None]) -> None:
        """Measure all missing trials. `tell` is called with each measurement."""
        while trials := self.trials():
            for line in self.measure(trials, pool):
                self.journal.add(line)
                tell(line)

    def measure(self, trials: list[Trial], pool: Executor) -> Iterator[Line]:
        if self.claim.is_timed:  # one at a time
            for trial in trials:
                yield pool.submit(measure, self.claim.name, trial).result()
        else:
            for done in as_completed([pool.submit(measure, self.claim.name, trial) for trial in trials]):
                yield done.result()


def end_with_parent() -> None:
    """End this process when its parent has ended, even if the parent was killed."""

    def wait() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Context manager that gives a pool of `count` processes with one thread each."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    pool = ProcessPoolExecutor(count, get_context("spawn"), end_with_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
