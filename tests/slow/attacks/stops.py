"""Reads a run while a training replaces its checkpoints at each step.

A reader gives a result: nothing is damaged, and nothing is missing.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from pathlib import Path

from .commands import TINY, Command, Report, full_or, write_pairs

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
    read(count, report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
