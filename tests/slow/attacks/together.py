"""Starts two trainings in one folder at random times, in every pairing of plain, --resume and --overwrite.

Each has a seed of its own, so that weights, settings and log tell whose they are. One of the two must
finish. The other must finish, too (before the first has changed anything, or after its last change), or
change nothing and say why: it names the process that trains there, or the run that stands there. In the end
everything in the folder is one training's, as if it had been alone.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import tomllib
from itertools import product
from pathlib import Path

from .commands import TRAIN, Command, Outcome, Report, full_or, on_change, run, weights, write_pairs

STARTS = ("plain", "--resume", "--overwrite")
CAN_START = {"empty": ("plain", "--overwrite"), "stopped": ("--resume", "--overwrite")}
OWNERS_FILES = (".lock", ".evaluation.lock", ".owner.json")
REFUSALS = "already contains a run|no run folder|no run to resume|is not a run|different settings"


def command_line(start: str, seed: int) -> list[str]:
    """The command of one training. A resumed one keeps its run's seed."""
    if start == "--resume":
        return [*TRAIN, start]
    return [*TRAIN, "--seed", str(seed), *([start] if start != "plain" else [])]


def log_of(folder: Path) -> list[tuple[object, ...]]:
    """The log without what depends on the clock."""
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [tuple(v for k, v in record.items() if k != "tokens_per_second") for record in records]


def state_of(folder: Path) -> tuple[object, ...]:
    """All that must belong together in a finished run: settings, record, log, weights and scores."""
    seed = tomllib.loads((folder / "config.toml").read_text())["training"]["seed"]
    recorded = json.loads((folder / "run.json").read_text())["seed"]
    metrics = json.loads((folder / "metrics.json").read_text())
    return seed, recorded, log_of(folder), weights(folder), metrics


class Folders:
    """The folders that two trainings meet in, and what each training leaves there if it is alone."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "empty").mkdir()
        write_pairs(place / "empty")
        self.alone = {seed: state_of(self._trained(f"seed {seed}", seed)) for seed in (0, 1, 2)}
        shutil.copytree(place / "empty", place / "stopped")
        stopped = run([*TRAIN, "--steps", "2"], place / "stopped")  # seed 0, which --resume continues
        assert stopped.code == 0, stopped.err

    def _trained(self, name: str, seed: int) -> Path:
        folder = shutil.copytree(self.place / "empty", self.place / name)
        assert run([*TRAIN, "--seed", seed], folder).code == 0
        return folder / "run"

    def copy(self, name: str) -> Path:
        """A copy to train in."""
        shutil.rmtree(self.place / "shared", ignore_errors=True)
        return Path(shutil.copytree(self.place / name, self.place / "shared"))


class Training:
    """One of the two trainings, and when it changed files."""

    def __init__(self, start: str, seed: int, cwd: Path) -> None:
        self._changes = os.memfd_create("changes")
        self.command = Command(command_line(start, seed), cwd, prepare=lambda: on_change(self._note))

    def _note(self, number: int, event: str, path: object) -> None:
        if event != "os.mkdir" and Path(str(path)).name not in OWNERS_FILES:
            os.write(self._changes, f"{time.monotonic()}\n".encode())

    def wait(self) -> Outcome:
        """Wait for its end, which gives the times of its changes."""
        outcome = self.command.wait()
        self.changes = [float(line) for line in os.pread(self._changes, 2**20, 0).split()]
        os.close(self._changes)
        return outcome


def refusal(training: Training, outcome: Outcome, other: Training) -> str:
    """What is wrong with a training that did not finish; empty if nothing is."""
    if outcome.problem or outcome.code != 2:
        return f"{outcome.problem or 'exit code 1'}: {outcome.last_words}"
    if training.changes:
        return f"was refused after {len(training.changes)} changes: {outcome.last_words}"
    busy = re.search(rf"\b{other.command.pid}\b.* since ", outcome.err)
    return "" if busy or re.search(REFUSALS, outcome.err) else f"does not say why: {outcome.last_words}"


def inspect(folders: Folders, cwd: Path, finished: int, before: object) -> str:
    """What is wrong with the folder that the two have left; empty if nothing is."""
    try:
        found = state_of(cwd / "run") if (cwd / "run" / "run.json").is_file() else None
    except (OSError, ValueError, KeyError) as error:
        return f"the folder is damaged: {error}"
    if not finished:
        return "" if found == before else "none finished, and the folder has changed"
    if found not in folders.alone.values():
        return "the folder is not one training's"
    reading = run(["evaluate", "run", "--data", "pairs.tsv"], cwd)
    return f"evaluate: {reading.last_words}" if reading.code else ""


def meet(folders: Folders, starts: tuple[str, str], begin: str, delay: float, report: Report) -> None:
    """Start both, the second after `delay` seconds, and look at everything when both have ended."""
    cwd = folders.copy(begin)
    before = state_of(cwd / "run") if begin == "stopped" else None
    first = Training(starts[0], 1, cwd)
    time.sleep(delay)
    second = Training(starts[1], 2, cwd)
    a = first.wait()
    b = second.wait()
    finished = (a.code == 0) + (b.code == 0)
    failures = [refusal(first, a, second)] if a.code else []
    failures += [refusal(second, b, first)] if b.code else []
    failures += [inspect(folders, cwd, finished, before)]
    earlier, later = sorted((first.changes, second.changes), key=lambda times: times[:1])
    if finished == 2 and earlier[-1] > later[0]:
        failures += ["both trained at the same time"]
    if not finished and any(start in CAN_START[begin] for start in starts):
        failures += ["none finished"]
    problem = "; ".join(failure for failure in failures if failure)
    word = {0: "both refused", 1: "one finished", 2: "one after the other"}[finished]
    where = f"({begin}, {delay:.2f} s)"
    report.add(" and ".join(starts), problem.split(":")[0] or word, problem and f"{where}: {problem}")


def main() -> int:
    count = full_or(small=2, full=54)
    report = Report()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        folders = Folders(Path(place))
        took = run(TRAIN, folders.copy("empty")).seconds
        cases = [(starts, begin) for begin in ("stopped", "empty") for starts in product(STARTS, STARTS)]
        for i in range(count):
            starts, begin = cases[i * 7 % len(cases)]  # 7 and 18 have no common divisor
            meet(folders, starts, begin, took * rng.random() ** 2, report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
