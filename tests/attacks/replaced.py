"""Deletes, moves and replaces the folder of a training or an evaluation while it runs; kills evaluations.

A training whose folder is not its own any more stops with exit code 1 and a message. Nothing in the folder
that is there instead changes, and a run that was moved away has all that it had, and can be resumed to the
weights of a training that nobody disturbed. An evaluation writes its scores to no other run. One that is
killed leaves the old scores, the new, or none, but never some of both.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

from minitransformer.files import read_json
from minitransformer.training import evaluations

from .commands import TRAIN, Report, before_operation, full_or, on_change, run, snapshot, spread, write_pairs

EVALUATE = ["evaluate", "run", "--data", "pairs.tsv"]
STARTS = {
    "plain": TRAIN,
    "resume": [*TRAIN, "--resume", "--steps", "6"],
    "overwrite": [*TRAIN, "--overwrite"],
}

COMMANDS = {**STARTS, "evaluate": EVALUATE}

# ---------------------------------------------------------------- what is done to the folder `run`


def replace_folder(cwd: Path) -> None:
    """rm -rf run, and another run there."""
    shutil.rmtree(cwd / "run")
    shutil.copytree(cwd / "other", cwd / "run")


def delete_folder(cwd: Path) -> None:
    """rm -rf run."""
    shutil.rmtree(cwd / "run")


def move_folder(cwd: Path) -> None:
    """mv run moved."""
    (cwd / "run").rename(cwd / "moved")


def move_and_replace_folder(cwd: Path) -> None:
    """mv run moved, and another run there."""
    move_folder(cwd)
    shutil.copytree(cwd / "other", cwd / "run")


def move_and_link_folder(cwd: Path) -> None:
    """mv run moved; ln -s other run."""
    move_folder(cwd)
    (cwd / "run").symlink_to("other")


def swap_folders(cwd: Path) -> None:
    """Another run takes the name, and the run that of the other."""
    move_folder(cwd)
    (cwd / "other").rename(cwd / "run")
    (cwd / "moved").rename(cwd / "other")


def replace_record(cwd: Path) -> None:
    """Another run's run.json."""
    shutil.copy(cwd / "other" / "run.json", cwd / "run" / "run.json.new")
    (cwd / "run" / "run.json.new").rename(cwd / "run" / "run.json")


def replace_content(cwd: Path) -> None:
    """All files of another run in the same folder."""
    for path in (cwd / "run").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(cwd / "other", cwd / "run", dirs_exist_ok=True)


def replace_lock(cwd: Path) -> None:
    """Another .lock, which a second training would get."""
    (cwd / "run" / ".lock").unlink()
    (cwd / "run" / ".lock").touch()


def replace_checkpoints(cwd: Path) -> None:
    """The checkpoints of another run."""
    (cwd / "run" / "checkpoints").rename(cwd / "moved")
    shutil.copytree(cwd / "other" / "checkpoints", cwd / "run" / "checkpoints")


CHANGES = (
    replace_folder, delete_folder, move_folder, move_and_replace_folder, move_and_link_folder, swap_folders,
    replace_record, replace_content, replace_lock, replace_checkpoints,
)  # fmt: skip


# ---------------------------------------------------------------- the attacks


def files_of(cwd: Path) -> dict[str, bytes | None]:
    """What must stay as it is: all but what a training writes before it has its place, and who trains."""
    found = snapshot(cwd)
    return {name: content for name, content in found.items() if not re.search(r"/\.|changed$", name)}


class Marked:
    """A change that is done in the process that is attacked, and what was there just after it."""

    def __init__(self, change: Callable[[Path], None], cwd: Path, number: int) -> None:
        self.change, self.cwd, self.number = change, cwd, number

    def __call__(self) -> None:
        before_operation(self.number, self._act)

    def _act(self) -> None:
        try:
            self.change(self.cwd)
        except FileNotFoundError:
            return  # the run was not there yet
        shutil.copytree(self.cwd, self.cwd.parent / "just after", symlinks=True)


def attack(name: str, change: Callable[[Path], None], n: int, cwd: Path, report: Report) -> None:
    """Change the folder before file operation `n` of a command."""
    just_after = cwd.parent / "just after"
    shutil.rmtree(just_after, ignore_errors=True)
    outcome = run(COMMANDS[name], cwd, prepare=Marked(change, cwd, n))
    failure = outcome.problem
    if just_after.is_dir():
        expected, found = files_of(just_after), files_of(cwd)
        changed = sorted(key for key in {*expected, *found} if expected.get(key, 0) != found.get(key, 0))
        if changed:
            failure = failure or f"changed {changed[:3]}"
        elif outcome.code == 0 and name != "evaluate":
            failure = failure or "went on to its end"
        elif name != "evaluate" and "does not belong to this training any more" not in outcome.err:
            failure = failure or f"exit code {outcome.code}: {outcome.last_words}"
        elif name != "evaluate" and outcome.code != 1:
            failure = failure or f"exit code {outcome.code}"
    word = {0: "done", 1: "stopped", 2: "refused"}.get(outcome.code, "killed")
    word = word if just_after.is_dir() else "not there yet"
    where = f"{change.__name__} before operation {n}"
    report.add(name, failure.partition(" [")[0].partition(":")[0] or word, failure and f"{where}: {failure}")


def kill_evaluation(n: int, cwd: Path, report: Report) -> None:
    """Kill an evaluation before file operation `n`; the folder has scores of an earlier checkpoint."""
    kill = partial(before_operation, n, lambda: os.kill(os.getpid(), signal.SIGKILL))
    run(EVALUATE, cwd, prepare=kill)
    folder = cwd / "run"
    metrics = read_json(folder / "metrics.json") if (folder / "metrics.json").exists() else None
    saved = evaluations.read(folder)
    failure = ""
    scores = {} if saved is None else {name: float(score) for name, score in saved.scores.items()}
    if metrics is not None and (not scores or scores != {name: metrics[name] for name in scores}):
        failure = "the metrics are not those of the statistics"
    again = run(EVALUATE, cwd)
    leftovers = [path.name for path in folder.glob(".*") if path.name not in (".lock", ".owner.json")]
    failure = failure or (f"exit code {again.code}: {again.last_words}" if again.code else "")
    failure = failure or (f"left {leftovers}" if leftovers else "")
    report.add("killed evaluation", failure or ("none" if metrics is None else "whole"), failure)


def count_operations(argv: list[str], cwd: Path) -> int:
    """How many file operations a command makes."""
    handle = os.memfd_create("operations")
    run(argv, cwd, prepare=lambda: on_change(lambda *_: os.write(handle, b".")))
    return os.fstat(handle).st_size


def main() -> int:
    count, report = full_or(small=4, full=300), Report()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "plain").mkdir()
        write_pairs(place / "plain")
        assert run([*TRAIN, "--seed", "7", "--run-dir", "other"], place / "plain").code == 0
        shutil.copytree(place / "plain", place / "trained")
        assert run(TRAIN, place / "trained").code == 0
        shutil.copytree(place / "trained", place / "longer")
        assert run(COMMANDS["resume"], place / "longer").code == 0
        for path in (place / "trained" / "run").iterdir():
            if path.name in evaluations.FILES:
                shutil.copy(path, place / "longer" / "run")

        def copy(name: str) -> Path:
            shutil.rmtree(place / "cwd", ignore_errors=True)
            return Path(shutil.copytree(place / name, place / "cwd"))

        start_of = {"plain": "plain", "resume": "trained", "overwrite": "trained", "evaluate": "longer"}
        operations = {name: count_operations(argv, copy(start_of[name])) for name, argv in COMMANDS.items()}
        cases = [
            (name, change, n)
            for name, change in product(COMMANDS, CHANGES)
            for n in range(3, operations[name] - 2)  # before the last, a training deletes its name
        ]
        random.Random(0).shuffle(cases)
        for name, change, n in cases[:count]:
            attack(name, change, n, copy(start_of[name]), report)
        for n in spread(range(operations["evaluate"]), max(2, count // 8)):
            kill_evaluation(n, copy("longer"), report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
