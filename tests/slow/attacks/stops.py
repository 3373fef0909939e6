"""Stops `sweep` at random times, and reads a run while a training replaces its checkpoints at each step.

A sweep that is told to end (SIGINT, SIGTERM, SIGHUP), or killed, leaves no training running. A reader of a
run whose training goes on gives a result: nothing is damaged, and nothing is missing.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from .commands import TINY, Command, Report, full_or, write_pairs

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STEPS = TINY.index("--steps") + 1
LONG = [*TINY[:STEPS], "100000", *TINY[STEPS + 1 :]]
READERS = (
    ["evaluate", "run", "--data", "pairs.tsv"],
    ["translate", "run", "Marie hated him."],
    ["translate", "run", "Marie hated him.", "--checkpoint", "last"],
    ["translate", "run", "Marie hated him.", "--checkpoint", "average:2"],
    ["show", "run"],
    ["graph", "run", "I am.", "--overwrite", "-o", "graph.dot"],
)
END = 10.0  # seconds in which a training must end


def trainings(folder: Path) -> list[int]:
    """The processes that train in a folder: those that have it in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"train" in words and any(str(folder).encode() in word for word in words):
            found.append(int(path.parent.name))
    return found


def stop(number: signal.Signals, seconds: float, report: Report) -> None:
    """Start a sweep, and stop it `seconds` after it has started its training."""
    with tempfile.TemporaryDirectory() as place:
        write_pairs(Path(place))
        command = [
            "sweep",
            "phrasebook",
            "--data",
            "pairs.tsv",
            *LONG,
            "--run-dir",
            f"{place}/all",
            "--seed",
            "0",
            "1",
        ]
        sweep = Command(command, Path(place))
        sweep.until(lambda: bool(trainings(Path(place))), 60)
        time.sleep(seconds)
        alive = trainings(Path(place))
        sweep.signal(number)
        outcome = sweep.wait(seconds=120)
        end = time.monotonic() + END
        while (left := trainings(Path(place))) and time.monotonic() < end:
            time.sleep(0.02)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        failure = "no training had started" if not alive else "a training goes on" if left else ""
        if number != signal.SIGKILL and not failure:
            failure = outcome.problem or ("" if outcome.code == 1 else f"exit code {outcome.code}")
        word = failure or "nothing runs"
        where = f"{seconds:.1f} s after its start: {outcome.last_words}"
        report.add(f"sweep, {number.name}", word, failure and f"{failure}, {where}")


def pause() -> None:
    """Let the training replace all checkpoints while the first of their files is read."""
    paused = False

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal paused
        if event == "open" and not paused and "step-" in str(args[0]):
            paused = True
            time.sleep(0.3)

    sys.addaudithook(hook)


def read(count: int, report: Report) -> None:
    """Read a run `count` times while it is trained."""
    with tempfile.TemporaryDirectory() as place:
        cwd = Path(place)
        write_pairs(cwd)
        training = Command(["train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "run", *LONG], cwd)
        checkpoints = cwd / "run" / "checkpoints"
        training.until(lambda: len([*checkpoints.glob("step-*")]) > 1, 60)
        for number in range(count):
            argv = READERS[number % len(READERS)]
            outcome = Command(argv, cwd, prepare=pause).wait(seconds=60)
            failure = outcome.problem or ("" if outcome.code == 0 else f"exit code {outcome.code}")
            if argv[0] == "show" and "no checkpoint yet" in outcome.out:
                failure = "sees no checkpoint"
            report.add(f"reads: {argv[0]}", failure or "result", failure and f"{failure}: {outcome.err}")
        alive = training.running()
        training.signal(signal.SIGTERM)
        stopped = time.monotonic()
        outcome = training.wait(seconds=3600)  # from its start
        late = f"ends {END:g} s late" if time.monotonic() - stopped > END else ""
        failure = (outcome.problem or late) if alive else f"the training has ended: {outcome.err[-500:]}"
        report.add("the training meanwhile", failure or "goes on", failure)


def main() -> int:
    count = full_or(small=2, full=400)
    report = Report()
    rng = random.Random(0)
    for number in range(max(2, count // 10)):  # a new interpreter starts in each
        stop(SIGNALS[number % len(SIGNALS)], 15 * rng.random() ** 2 if count > 4 else 0.0, report)
    read(count, report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
