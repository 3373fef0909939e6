"""Puts links where a run has files and folders, before a command or while it runs.

A link leads to a stranger's file, to a stranger's folder, nowhere, or to itself; or it is a hard link to a
stranger's file. Whatever the command does, the stranger's files keep their bytes, names and times, and none
is added.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

from minitransformer.cli import main as command_line
from minitransformer.cli import sweep

from .commands import TINY, TRAIN, Report, before_operation, full_or, run, write_pairs

FILES = (
    ".lock", ".owner.json", "run.json", "config.toml", "tokenizer.json", "log.jsonl", "curves.png",
    "README.md", "metrics.json", "predictions.txt", "predictions.hyp", "statistics.safetensors",
    "diagnostics.png", "checkpoints/index.json", "checkpoints/step-00000004/model.safetensors",
    "checkpoints/step-00000004/state.json", "checkpoints/step-00000005", ".config.toml.0123abcd",
    ".run.json.0123abcd.minigrad", "checkpoints/.index.json.0123abcd",
    "checkpoints/.step-00000005.partial/model.safetensors",
    "evaluations/step-00000004-num_beams=2/metrics.json",
)  # fmt: skip
FOLDERS = (
    "checkpoints", "checkpoints/step-00000003", "checkpoints/step-00000004", "checkpoints/step-00000005",
    "checkpoints/.step-00000001.partial", "checkpoints/.step-00000005.partial",
    "checkpoints/.step-00000006.partial", "checkpoints/.step-00000003.0123abcd.minigrad",
    "checkpoints/unusable-step-00000003-0", "evaluations", "evaluations/step-00000004-num_beams=2",
    "evaluations/step-00000004-greedy", "tensorboard",
)  # fmt: skip
KINDS = ("to a folder", "to a file", "nowhere", "to itself", "hard")
EVALUATE = ["evaluate", "run", "--data", "pairs.tsv"]
COMMANDS = {
    "train": TRAIN,
    "resume": [*TRAIN, "--resume", "--steps", "6"],
    "overwrite": [*TRAIN, "--overwrite", "--seed", "1", "--steps", "6", "--diagnostics"],
    "evaluate": EVALUATE,
    "evaluate by beam search": [*EVALUATE, "--checkpoint", "last", "--num-beams", "2"],
    "sweep": ["sweep", "phrasebook", "--data", "pairs.tsv", *TINY, "--run-dir", "."],
}


@dataclass(frozen=True)
class Link:
    """A link at a place in a run folder."""

    place: str
    kind: str

    def plant(self, cwd: Path) -> None:
        """Put the link there. What was there is moved to the folder `moved`."""
        path = cwd / "run" / self.place
        outside = cwd / "outside"
        path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path):
            (cwd / "moved").mkdir(exist_ok=True)
            path.rename(cwd / "moved" / path.name)
        if self.kind == "hard":
            os.link(outside / "file", path)
        else:
            targets = {"to a folder": "folder", "to a file": "file", "nowhere": "nothing"}
            path.symlink_to(outside / targets[self.kind] if self.kind in targets else path.name)


def write_outside(cwd: Path) -> None:
    """The stranger's folder. Many of its names are those that a run's files have."""
    folder = cwd / "outside" / "folder"
    (folder / "step-00000001").mkdir(parents=True)
    (folder / "step-00000004-greedy").mkdir()
    (cwd / "outside" / "file").write_text('{"step": 1}\n')
    names = [Path(name).name for name in FILES if not name.startswith("checkpoints/step-00000005")]
    for name in (*names, "optimizer.safetensors", "SHA256SUMS", "step-00000001/model.safetensors"):
        (folder / name).write_text("mine")
    (folder / "step-00000004-greedy" / "metrics.json").write_text("mine")


def state_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The bytes and the time of each file in a folder, and its folders with their times."""
    paths = [folder, *folder.rglob("*")]
    return {str(p): (p.read_bytes() if p.is_file() else b"", p.stat().st_mtime_ns) for p in paths}


def while_it_runs(link: Link, cwd: Path, number: int) -> None:
    """Plant the link before file operation `number` of this process."""
    trains_in_this_process()

    def plant() -> None:
        with suppress(OSError):  # its folder is not there, or is a file
            link.plant(cwd)

    before_operation(number, plant)


def trains_in_this_process() -> None:
    """Let `sweep` run its trainings in this process, which is much faster."""
    here = lambda command, **options: SimpleNamespace(returncode=command_line(command[3:]))
    sweep.subprocess.run = here  # type: ignore[assignment]


def attack(link: Link, name: str, during: int | None, cwd: Path, report: Report) -> None:
    """Run a command of that name, with the link there from the start or from an operation on."""
    write_outside(cwd)
    if during is None:
        link.plant(cwd)
    before = state_of(cwd / "outside")
    prepare = trains_in_this_process if during is None else partial(while_it_runs, link, cwd, during)
    outcome = run(COMMANDS[name], cwd, prepare=prepare)
    after = state_of(cwd / "outside")
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    names = [os.path.relpath(path, cwd) for path in changed]
    failure = f"changed {names[:3]}" if changed else outcome.problem
    where = "from the start" if during is None else f"from operation {during} on"
    word = failure and failure.partition(" [")[0]
    report.add(
        f"{name}, {'before' if during is None else 'during'}",
        word or {0: "done", 1: "stopped", 2: "refused"}[outcome.code],
        failure and f"{link.place} {link.kind}, {where}: {failure}: {outcome.last_words}",
    )


def main() -> int:
    count = full_or(small=2, full=300)
    report = Report()
    links = [Link(place, kind) for place, kind in product(FILES, KINDS)]
    links += [Link(place, kind) for place, kind in product(FOLDERS, KINDS) if kind != "hard"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("new", "trained"):
            (place / name).mkdir()
            write_pairs(place / name)
        assert run(TRAIN, place / "trained").code == 0

        def copy(name: str) -> Path:
            shutil.rmtree(place / "cwd", ignore_errors=True)
            return Path(shutil.copytree(place / ("new" if name == "train" else "trained"), place / "cwd"))

        cases = []
        for i, (link, name) in enumerate(product(links, COMMANDS)):
            cases += [(link, name, None), (link, name, 5 + i * 7 % 60)]
        known = (Link("checkpoints/.step-00000005.partial", "to a folder"), "resume", None)
        random.Random(0).shuffle(cases)
        for link, name, during in [known, *cases[:count]]:
            attack(link, name, during, copy(name), report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
