"""Run a claim: choose each arm's learning rate, measure it with five seeds or ten, and write what was found.

Each measurement is a line of `NAME.jsonl` as soon as it is there, so a run that stops goes on where it
stopped. The result, `NAME.json`, is computed from these lines alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..files import read_text, to_json, write_json
from .claim import Claim, Trial, find
from .verdict import MOST_SEEDS, SEEDS, UNKNOWN, Finding, findings, verdict

TUNING_SEED = 1000  # of the runs that choose a learning rate: none of those that are compared
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

Line = dict[str, Any]  # a trial, its measures, and the seconds that it took


class Journal:
    """The measurements of a claim so far, one line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = read_text(path) if path.exists() else ""
        whole = text.splitlines(keepends=True)
        self.lines: list[Line] = [json.loads(line) for line in whole if line.endswith("\n")]

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = read_text(self.path) if self.path.exists() else ""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if text and not text.endswith("\n") else "") + to_json(line) + "\n")

    def measures(self, trial: Trial) -> Mapping[str, float] | None:
        """What was measured of a trial; None if it has not run."""
        return next((each["measures"] for each in self.lines if each["trial"] == asdict(trial)), None)

    @property
    def seconds(self) -> float:
        return sum(line["seconds"] for line in self.lines)


def measure(name: str, trial: Trial) -> Line:
    """One measurement; runs in a process of its own."""
    start = time.perf_counter()
    found = {key: float(value) for key, value in find(name).measure(trial).items()}
    return {"trial": asdict(trial), "measures": found, "seconds": time.perf_counter() - start}


class Study:
    """The measurements of one claim: those there are, and those that are missing."""

    def __init__(self, claim: Claim, folder: Path, first_seed: int = 0, is_quick: bool = False) -> None:
        self.claim = claim
        self.first_seed = first_seed
        self.is_quick = is_quick
        self.journal = Journal(folder / f"{claim.name}.jsonl")

    def trials(self) -> list[Trial]:
        """What is to be measured next; empty if all is there."""
        stages = [self.tuning] if self.is_quick else [self.tuning, lambda: self.compared(SEEDS), self.more]
        for stage in stages:
            missing = [trial for trial in stage() if self.journal.measures(trial) is None]
            if missing:
                return missing
        return []

    @property
    def arms_and_cases(self) -> list[tuple[str, str]]:
        return [(arm, case) for case in self.claim.cases for arm in self.claim.arms]

    def tuning(self) -> list[Trial]:
        """Each rate of each arm in each case; in a quick run, the first rate alone."""
        rates = self.claim.rates or ((0.0,) if self.is_quick else ())
        rates = rates[:1] if self.is_quick else rates
        return [
            Trial(arm, case, rate, TUNING_SEED, self.is_quick)
            for arm, case in self.arms_and_cases
            for rate in rates
        ]

    def compared(self, seeds: int) -> list[Trial]:
        chosen = self.rates()
        return [
            Trial(arm, case, chosen[arm, case], self.first_seed + seed)
            for arm, case in self.arms_and_cases
            for seed in range(seeds)
        ]

    def more(self) -> list[Trial]:
        """Five seeds more, if five cannot tell."""
        return self.compared(MOST_SEEDS) if verdict(self.findings()) == UNKNOWN else []

    def rates(self) -> dict[tuple[str, str], float]:
        """The best learning rate of each arm in each case."""
        if not self.claim.rates:
            return dict.fromkeys(self.arms_and_cases, 0.0)
        scores: dict[tuple[str, str], dict[float, float]] = {}
        for trial in self.tuning():
            measures = self.journal.measures(trial)
            assert measures is not None
            scores.setdefault((trial.arm, trial.case), {})[trial.rate] = measures[self.claim.tuned_by]
        return {key: min(of_rates, key=of_rates.__getitem__) for key, of_rates in scores.items()}

    def measured(self) -> dict[tuple[str, str], dict[int, Mapping[str, float]]]:
        """(arm, case) -> seed -> measures, of the seeds that are compared."""
        found: dict[tuple[str, str], dict[int, Mapping[str, float]]] = {}
        for trial in self.compared(MOST_SEEDS):
            if (measures := self.journal.measures(trial)) is not None:
                found.setdefault((trial.arm, trial.case), {})[trial.seed] = measures
        return found

    def findings(self) -> list[Finding]:
        return findings(self.claim, self.measured())

    def run(self, workers: int, tell: Callable[[Line], None]) -> None:
        """Measure all that is missing."""
        for name in THREADS:  # as many threads as processes: one each
            os.environ[name] = "1"
        while trials := self.trials():
            with ProcessPoolExecutor(1 if self.claim.is_timed else workers, mp_context=get_context("spawn")) as pool:
                for done in as_completed(pool.submit(measure, self.claim.name, trial) for trial in trials):
                    line = done.result()
                    self.journal.add(line)
                    tell(line)
