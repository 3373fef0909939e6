"""Kills a training before each of its file operations, in the middle of its writes, and at random times.

Three trainings are attacked: one in a new folder, one that resumes a run, and one that overwrites another.
After each kill the same command with --resume must finish the run (or the command itself, if no run stands
yet) with the weights of a run that nobody killed, no leftover files, and all files of strangers as
they were. A killed evaluation leaves the old scores, the new, or none, but never some of both.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitransformer.files import read_json
from minitransformer.runs import evaluations
from minitransformer.training.checkpoint import Checkpoints, step_of

from .commands import (
    TRAIN,
    Command,
    Outcome,
    Report,
    full_or,
    on_change,
    run,
    snapshot,
    spread,
    weights,
    write_pairs,
)

# with this seed, --resume refuses the run that is to be overwritten
COMMAND = [*TRAIN, "--ema-decay", "0.9", "--seed", "0"]
STARTS = {"plain": [], "resume": ["--resume"], "overwrite": ["--overwrite"]}
EVALUATE = ["evaluate", "run", "--data", "pairs.tsv"]
STRANGERS = {
    "notes.txt": b"mine",
    ".run.json.bak": b"mine",
    "checkpoints/model.pt": b"mine",
    "checkpoints/step-of-mine/model.safetensors": b"mine",
    "sub/run.json": b"mine",
}
OWNERS_FILES = {".lock", ".evaluation.lock", ".owner.json"}  # may stay: who trains here, or trained last


# ---------------------------------------------------------------- kills


@dataclass(frozen=True)
class Kill:
    """End the process by a signal before operation n or, if `torn`, in the write to the file that n opens."""

    n: int
    number: int = signal.SIGKILL
    torn: bool = False

    def __call__(self) -> None:
        """Install the kill in this process."""

        def handle(n: int, event: str, path: Any) -> None:
            if n != self.n:
                return
            if not self.torn:
                os.kill(os.getpid(), self.number)
            elif event == "open":
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # of a write beyond the limit, which is a kill
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))

        on_change(handle)


def operations(argv: list[str], cwd: Path) -> list[str]:
    """The file operations of a command: "open 'log.jsonl'", ..."""
    log = cwd / "operations"
    handle = os.open(log, os.O_CREAT | os.O_WRONLY)

    def note(n: int, event: str, path: Any) -> None:
        os.write(handle, f"{event} {path!r}\n".encode())

    run(argv, cwd, prepare=lambda: on_change(note))
    os.close(handle)
    return log.read_text().splitlines()


# ---------------------------------------------------------------- what is attacked


class Trainings:
    """The folders that the three trainings start from, and the run that nobody killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in STARTS:
            (folder / name).mkdir()
            write_pairs(folder / name)
        shutil.copytree(folder / "plain", folder / "unkilled")
        unkilled = run(COMMAND, folder / "unkilled")
        assert unkilled.code == 0, unkilled.err
        self.seconds = unkilled.seconds
        self.expected = folder / "unkilled" / "run"

        shutil.copytree(folder / "plain", folder / "counted")
        plain = operations(COMMAND, folder / "counted")
        in_step_2 = next(i for i, operation in enumerate(plain) if "step-00000002" in operation)
        stopped = run(COMMAND, folder / "resume", prepare=Kill(in_step_2, signal.SIGINT))
        assert stopped.code == 1, stopped.err
        assert run([*COMMAND, "--seed", "1"], folder / "overwrite").code == 0
        for name in ("resume", "overwrite"):
            for path, content in STRANGERS.items():
                file = folder / name / "run" / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        self.operations = {name: operations([*COMMAND, *STARTS[name]], self.copy(name)) for name in STARTS}

    def copy(self, start: str) -> Path:
        """A copy of a start, to attack."""
        shutil.rmtree(self.folder / "attacked", ignore_errors=True)
        shutil.copytree(self.folder / start, self.folder / "attacked", symlinks=True)
        return self.folder / "attacked"


# ---------------------------------------------------------------- what must hold afterwards


def last_saved(folder: Path) -> int:
    """The step of the last checkpoint; 0 if there is none."""
    names = Checkpoints(folder / "checkpoints").names()
    return step_of(names[-1]) if names else 0


def in_training(start: str, folder: Path) -> bool:
    """Whether a signal came during the steps: one is in the log, and the last one is not saved."""
    log = folder / "log.jsonl"
    steps = re.findall(r'"step": (\d+)', log.read_text()) if log.is_file() else []
    return max(map(int, steps), default=0) > (2 if start == "resume" else 0) and last_saved(folder) < 4


def recover(start: str, cwd: Path) -> Outcome:
    """The same command with --resume and, unless a run stands that it can continue, without."""
    outcome = run([*COMMAND, "--resume"], cwd)
    return outcome if outcome.code == 0 or start == "resume" else run([*COMMAND, *STARTS[start]], cwd)


def verdict(trainings: Trainings, start: str, cwd: Path) -> tuple[str, str]:
    """What became of a killed training: a word, and if it is a failure what happened."""
    folder = cwd / "run"
    saved = 0 if start == "overwrite" else last_saved(cwd / "run")
    if folder.is_dir() and (reading := run(EVALUATE, cwd)).problem:
        return "broken", f"evaluate: {reading.problem}: {reading.last_words}"
    outcome = recover(start, cwd)
    if outcome.problem or outcome.code:
        return "stuck", outcome.last_words
    continued = re.findall(r"continuing from step (\d+)", outcome.err)
    if saved and (not continued or int(continued[0]) < saved):
        return "lost", f"step {saved} was saved, continued from {continued}"
    if weights(folder) != weights(trainings.expected):
        return "differs", f"weights of {list(weights(folder))}"
    found = snapshot(folder)
    strangers = {} if start == "plain" else STRANGERS
    changed = [name for name, content in strangers.items() if found.pop(name, None) != content]
    if changed:
        return "strangers", f"changed {changed}"
    parents = {str(parent) for name in strangers for parent in Path(name).parents}
    unexpected = found.keys() ^ snapshot(trainings.expected).keys()
    if unexpected - OWNERS_FILES - parents:
        return "leftovers", str(sorted(unexpected - OWNERS_FILES - parents))
    return "finished", ""


# ---------------------------------------------------------------- the attacks


def kill_before_operations(trainings: Trainings, report: Report, count: int) -> None:
    """Kill before `count` of the file operations, and in the middle of as many writes."""
    kills = [
        (start, Kill(n, torn=torn), operation)
        for torn in (False, True)
        for start, names in trainings.operations.items()
        for n, operation in enumerate(names)
        if not torn or operation.startswith("open")
    ]
    for start, kill, operation in spread(kills, count):
        cwd = trainings.copy(start)
        killed = run([*COMMAND, *STARTS[start]], cwd, prepare=kill)
        group = f"{start}, {'torn write' if kill.torn else 'operation'}"
        if killed.code == 0 and not kill.torn:
            report.add(group, "alive", f"operation {kill.n} ({operation}) did not come")
            continue
        word, failure = verdict(trainings, start, cwd)
        report.add(group, word, failure and f"{kill.n} ({operation}): {failure}")


def kill_at_random(trainings: Trainings, report: Report, count: int, number: int) -> None:
    """Send a signal at random times. Those that ask to end let a training save, and exit with 1."""
    rng = random.Random(int(number))
    for i in range(count):
        start = list(STARTS)[i % 3]
        delay = rng.uniform(0, trainings.seconds)
        cwd = trainings.copy(start)
        command = Command([*COMMAND, *STARTS[start]], cwd)
        time.sleep(delay)
        command.signal(number)
        outcome = command.wait()
        group = f"{signal.Signals(number).name}, random time"
        if number != signal.SIGKILL and outcome.code != 1 and in_training(start, cwd / "run"):
            report.add(group, "not saved", f"{start}: exit code {outcome.code} after {delay:.2f} s")
            continue
        word, failure = verdict(trainings, start, cwd)
        report.add(group, word, failure and f"{start} after {delay:.2f} s: {failure}")


def kill_evaluations(trainings: Trainings, report: Report, count: int) -> None:
    """Kill an evaluation before `count` of its file operations, where an older checkpoint was scored."""
    longer = trainings.folder / "longer"
    shutil.copytree(trainings.folder / "unkilled", longer)
    assert run([*COMMAND, "--resume", "--steps", "6"], longer).code == 0
    for name in evaluations.FILES:
        shutil.copy(trainings.expected / name, longer / "run" / name)
    names = operations(EVALUATE, trainings.copy("longer"))
    for n in spread(range(len(names)), count):
        cwd = trainings.copy("longer")
        run(EVALUATE, cwd, prepare=Kill(n))
        path = cwd / "run" / "metrics.json"
        metrics = read_json(path) if path.exists() else None
        saved = evaluations.read(cwd / "run")
        scores = {} if saved is None else {name: float(score) for name, score in saved.scores.items()}
        failure = ""
        if metrics is not None and (not scores or scores != {name: metrics[name] for name in scores}):
            failure = "the metrics are not those of the statistics"
        again = run(EVALUATE, cwd)
        failure = failure or (f"exit code {again.code}: {again.last_words}" if again.code else "")
        if leftovers := {path.name for path in (cwd / "run").glob(".*")} - OWNERS_FILES:
            failure = failure or f"left {leftovers}"
        word = failure or ("none" if metrics is None else "whole")
        report.add("evaluate, operation", word, failure and f"{n} ({names[n]}): {failure}")


def main() -> int:
    count = full_or(small=2, full=1000)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        trainings = Trainings(Path(folder))
        kill_before_operations(trainings, report, count)
        kill_evaluations(trainings, report, max(2, min(40, count // 4)))
        for number, times in (
            (signal.SIGKILL, 110), (signal.SIGTERM, 30), (signal.SIGHUP, 30), (signal.SIGINT, 30),
        ):  # fmt: skip
            kill_at_random(trainings, report, min(times, count // 4), number)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
