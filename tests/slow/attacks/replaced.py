"""Deletes, moves and replaces the folder of a training or an evaluation while it runs; kills evaluations.

A training whose folder is not its own any more stops with exit code 1 and a message. Nothing in the folder
that is there instead changes, and a run that was moved away can be resumed. The one file operation that was
under way is done in the folder that it was begun in. An evaluation writes its scores to no other run. One
that is killed leaves the old scores, the new, or none, but never some of both.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

from minitransformer.files import read_json
from minitransformer.runs import evaluations

from .commands import TRAIN, Report, before_operation, full_or, on_change, run, snapshot, spread, write_pairs

EVALUATE = ["evaluate", "run", "--data", "pairs.tsv"]
COMMANDS = {
    "plain": TRAIN,
    "resume": [*TRAIN, "--resume", "--steps", "6"],
    "overwrite": [*TRAIN, "--overwrite"],
    "evaluate": EVALUATE,
}

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
    """What must stay as it is: all but what is only being written, and who trains."""
    return {name: content for name, content in snapshot(cwd).items() if "/." not in name}


def act(change: Callable[[Path], None], cwd: Path) -> None:
    """Make the change, and a copy of what is there just after it."""
    try:
        change(cwd)
    except FileNotFoundError:
        return  # the run was not there yet
    shutil.copytree(cwd, cwd.parent / "just after", symlinks=True)


def changes_after(change: Callable[[Path], None], cwd: Path) -> list[str]:
    """What has changed since then, of what must not.

    The operation that was under way may still be done: where the run has gone, which is its own, or in the
    folder that is still the same.
    """
    expected, found = files_of(cwd.parent / "just after"), files_of(cwd)
    changed = sorted(key for key in {*expected, *found} if expected.get(key, 0) != found.get(key, 0))
    if change is replace_checkpoints:  # the scores are the run's own
        changed = [key for key in changed if key.startswith("run/checkpoints/")]
    if change in (replace_record, replace_content, replace_lock, replace_checkpoints):
        one = changed[0] if changed else ""
        return [key for key in changed if key != one and not key.startswith(f"{one}/")]
    return [key for key in changed if key.startswith("run/")]


def is_own_again(change: Callable[[Path], None], cwd: Path) -> bool:
    """Whether the operation that was under way put the training's own run.json back."""
    after = cwd.parent / "just after" / "run"
    record = cwd / "run" / "run.json"
    is_written = change is replace_record and any(after.glob(".run.json.*"))
    return is_written and record.read_bytes() != (after / "run.json").read_bytes()


def attack(name: str, change: Callable[[Path], None], n: int, cwd: Path, report: Report) -> None:
    """Change the folder before file operation `n` of a command."""
    shutil.rmtree(cwd.parent / "just after", ignore_errors=True)
    outcome = run(COMMANDS[name], cwd, prepare=partial(before_operation, n, partial(act, change, cwd)))
    failure = outcome.problem
    word = {0: "done", 1: "stopped", 2: "refused"}.get(outcome.code, "killed")
    if not (cwd.parent / "just after").is_dir():
        word = "not there yet"
    elif is_own_again(change, cwd):
        word = "its own again"
    elif changed := changes_after(change, cwd):
        failure = failure or f"changed {changed[:3]}"
    elif name != "evaluate" and change is not replace_checkpoints:
        stopped = outcome.code == 1 and "no longer belongs to this training" in outcome.err
        failure = failure or ("" if stopped else f"exit code {outcome.code}: {outcome.last_words}")
        failure = failure or broken(cwd / ("other" if change is swap_folders else "moved"))
    where = f"{change.__name__} before operation {n}"
    report.add(name, failure.partition(" [")[0].partition(":")[0] or word, failure and f"{where}: {failure}")


def broken(moved: Path) -> str:
    """What is wrong with a run that was moved away under its training; empty if it can be resumed."""
    if not (moved / "run.json").exists() or not read_json(moved / "run.json")["begun"]:
        return ""
    outcome = run([*COMMANDS["resume"][:4], "--resume", "--steps", "6", "--run-dir", moved], moved.parent)
    return "" if outcome.code == 0 else f"the moved run cannot be resumed: {outcome.last_words}"


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
    count = full_or(small=2, full=200)
    report = Report()
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
            if name != "evaluate" or change not in (replace_lock, replace_checkpoints)
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
