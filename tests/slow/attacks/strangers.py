"""Trains in folders that hold a stranger's files, some with the names that a run's files have.

Whatever the flags and however the command ends, each byte of a stranger stays as it was. A folder that is
not a run is refused; a run that has a stranger's files beside its own is trained again, and evaluates as
the new run.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .commands import TRAIN, Report, full_or, run, snapshot, spread, write_pairs

STARTS: tuple[tuple[str, ...], ...] = ((), ("--resume",), ("--overwrite",))
CHECKPOINT = {"checkpoints/model.pt": "weights", "checkpoints/step-00000001/notes.txt": "mine"}
NOT_RUNS: dict[str, dict[str, str]] = {
    "settings only": {"config.toml": "x = 1"},
    "empty record": {"config.toml": "x = 1", "run.json": "", **CHECKPOINT},
    "empty object": {"config.toml": "x = 1", "run.json": "{}", **CHECKPOINT},
    "a list": {"config.toml": "x = 1", "run.json": "[]", **CHECKPOINT},
    "another program's": {"config.toml": "lr = 0.1", "run.json": '{"id": 7, "state": "done"}', **CHECKPOINT},
    "similar keys": {
        "config.toml": "",
        "run.json": '{"recipe": "cake", "seed": 1, "versions": 3}',
        **CHECKPOINT,
    },
    "record only": {"run.json": '{"id": "3f"}', "tokenizer.json": "{}", "log.jsonl": "{}\n"},
    "checkpoints only": {"checkpoints/index.json": '{"last": "step-00000001"}', **CHECKPOINT},
    "hidden files": {".git/config": "mine", ".index.json.0123abcd": "mine"},
    "a file": {"": "not a folder"},
}
BESIDE_A_RUN = {
    "notes.txt": "mine",
    "log.jsonl.bak": "mine",
    ".run.json.swp": "mine",
    ".step-mine.partial/x": "mine",
    "checkpoints/model.pt": "weights",
    "checkpoints/step-of-mine/model.safetensors": "weights",
    "checkpoints/.index.json.orig": "mine",
    "sub/config.toml": "mine",
    "sub/checkpoints/step-00000001/model.safetensors": "weights",
}

NOTE = "the best so far"  # in the folder of a checkpoint


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files by their paths; the path "" is the folder itself."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def link_checkpoints(cwd: Path) -> None:
    """Let `checkpoints` be a symbolic link to a folder outside of the run."""
    shutil.move(cwd / "run" / "checkpoints", cwd / "outside")
    (cwd / "run" / "checkpoints").symlink_to(cwd / "outside")


def link_files(cwd: Path) -> None:
    """Let the files that a training writes be symbolic links to files outside of the run."""
    (cwd / "outside").mkdir()
    for name in ("log.jsonl", "metrics.json", "curves.png", "config.toml", "predictions.txt"):
        shutil.move(cwd / "run" / name, cwd / "outside" / name)
        (cwd / "run" / name).symlink_to(cwd / "outside" / name)


def link_checkpoint(cwd: Path) -> None:
    """Let the folder of a checkpoint be a symbolic link."""
    shutil.move(cwd / "run/checkpoints/step-00000004", cwd / "outside")
    (cwd / "run/checkpoints/step-00000004").symlink_to(cwd / "outside")


def train_in_a_strangers(case: str, flags: tuple[str, ...], cwd: Path, report: Report) -> None:
    """A folder that is not a run is refused, and nothing in it changes."""
    write(cwd / "run", NOT_RUNS[case])
    before = snapshot(cwd)
    outcome = run([*TRAIN, *flags], cwd)
    changed = [name for name, content in snapshot(cwd).items() if before.get(name, b"new") != content]
    failure = outcome.problem or (f"changed {changed[:4]}" if changed else "")
    if outcome.code != 2:
        failure = failure or f"exit code {outcome.code}"
    report.add("not a run", failure.partition(" [")[0] or "refused", failure and f"{case} {flags}: {failure}")


def train_beside_a_strangers(flags: tuple[str, ...], cwd: Path, report: Report) -> None:
    """A run in whose folder a stranger keeps files is trained again, and they stay."""
    write(cwd / "run", {**BESIDE_A_RUN, "checkpoints/step-00000004/note.txt": NOTE})
    outcome = run([*TRAIN, "--seed", "1", *flags], cwd)
    found = snapshot(cwd / "run")
    changed = [name for name, content in BESIDE_A_RUN.items() if found.get(name) != content.encode()]
    if NOTE.encode() not in found.values():  # it may be moved aside, with the folder that it is in
        changed.append("checkpoints/step-00000004/note.txt")
    failure = outcome.problem or (f"changed {changed[:4]}" if changed else "")
    if outcome.code != (0 if "--overwrite" in flags else 2):
        failure = failure or f"exit code {outcome.code}: {outcome.last_words}"
    report.add("beside a run", failure.partition(" [")[0] or "kept", failure and f"{flags}: {failure}")


def train_through_links(
    link: Callable[[Path], None], flags: tuple[str, ...], cwd: Path, scores: str, report: Report
) -> None:
    """What a link leads to is not changed. The folder has the new run or, if refused, all that it had."""
    link(cwd)
    before, outside = snapshot(cwd), snapshot(cwd / "outside")
    outcome = run([*TRAIN, "--seed", "1", *flags], cwd)
    changed = snapshot(cwd / "outside") != outside
    failure = outcome.problem or ("changed what the link leads to" if changed else "")
    if outcome.code == 0:
        evaluated = run(["evaluate", "run", "--data", "pairs.tsv", "--json"], cwd).out
        failure = failure or ("not the new run's weights" if evaluated != scores else "")
    elif any(snapshot(cwd).get(name) != content for name, content in before.items()):
        failure = failure or "refused, but changed the run"
    word = failure or ("refused" if outcome.code else "trained")
    report.add(link.__name__, word, failure and f"{flags}: {failure}: {outcome.last_words}")


def main() -> int:
    count = full_or(small=2, full=1000)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, seed in (("run of seed 0", 0), ("run of seed 1", 1)):
            (place / name).mkdir()
            write_pairs(place / name)
            assert run([*TRAIN, "--seed", seed], place / name).code == 0
        (place / "empty").mkdir()
        write_pairs(place / "empty")
        scores = run(["evaluate", "run", "--data", "pairs.tsv", "--json"], place / "run of seed 1").out

        def copy(name: str) -> Path:
            shutil.rmtree(place / "cwd", ignore_errors=True)
            return Path(shutil.copytree(place / name, place / "cwd"))

        stranger = train_in_a_strangers
        beside = train_beside_a_strangers
        through = train_through_links
        attacks: list[Callable[[], None]] = []
        for flags in STARTS:
            attacks += [lambda c=case, f=flags: stranger(c, f, copy("empty"), report) for case in NOT_RUNS]
            attacks += [lambda f=flags: beside(f, copy("run of seed 0"), report)]
            attacks += [
                lambda link=link, f=flags: through(link, f, copy("run of seed 0"), scores, report)
                for link in (link_checkpoints, link_checkpoint, link_files)
            ]
        for attack in spread(attacks, count):
            attack()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
