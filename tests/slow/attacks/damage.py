"""Damages the files of a finished run, then evaluates it, translates with it and resumes it.

Each command must say what is wrong (exit code 2, a message), or give exactly what it gives without the
damage, the same scores, translations and weights. Half of the damages to what a file means are "sealed":
whoever changed the file has corrected the checksums, too. Then settings and words may give another result,
but not a traceback, a hang, or more than a gigabyte.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from safetensors.numpy import load, save

from minitransformer.runs.evaluations import FILES

from .commands import TRAIN, Command, Outcome, Report, full_or, run, weights, write_pairs

COMMANDS = {
    "evaluate": ["evaluate", "run", "--data", "pairs.tsv", "--json"],
    "translate": ["translate", "run", "Marie hated him.", "My computer is old."],
    "resume": [*TRAIN, "--resume", "--steps", "6"],
}
RESULTS = ("README.md", "curves.png", *FILES)  # no command needs them
DEEP = "[" * 100_000 + "]" * 100_000
HOSTILE: list[Any] = [
    None, True, -1, 0, 3, 10**12, 10**400, 0.5, float("nan"), float("inf"), "", "x", "../../x", "\x1b[31m",
    [], [[]], [1, 2], {}, {"x": 1}, DEEP,
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A file of a run, and what damages need to know of its surroundings."""

    path: Path
    run: Path
    other: Path  # another run, of other weights
    outside: Path  # a folder of a stranger
    rng: random.Random


# ---------------------------------------------------------------- damages to bytes


def flip_bit(target: Target) -> None:
    """One flipped bit, as of a bad disk."""
    content = bytearray(target.path.read_bytes())
    content[target.rng.randrange(len(content))] ^= 1 << target.rng.randrange(8)
    target.path.write_bytes(content)


def truncate(target: Target) -> None:
    """Only the first part of a file, as of a full disk."""
    os.truncate(target.path, target.rng.randrange(target.path.stat().st_size))


def zero_block(target: Target) -> None:
    """A block of zeros, as of a crash of the file system."""
    content = bytearray(target.path.read_bytes())
    start = target.rng.randrange(len(content))
    content[start : start + 512] = bytes(len(content[start : start + 512]))
    target.path.write_bytes(content)


def other_bytes(target: Target) -> None:
    """As many other bytes."""
    target.path.write_bytes(target.rng.randbytes(target.path.stat().st_size))


def more_bytes(target: Target) -> None:
    """Bytes behind the end."""
    with target.path.open("ab") as file:
        file.write(target.rng.randbytes(50))


def no_bytes(target: Target) -> None:
    """An empty file."""
    os.truncate(target.path, 0)


def no_file(target: Target) -> None:
    """A deleted file."""
    target.path.unlink()


def folder(target: Target) -> None:
    """A folder of the same name."""
    target.path.unlink()
    target.path.mkdir()


def fifo(target: Target) -> None:
    """A named pipe, whose reader waits forever."""
    target.path.unlink()
    os.mkfifo(target.path)


def device(target: Target) -> None:
    """A link to a device: one without an end, one without a beginning, a terminal."""
    target.path.unlink()
    target.path.symlink_to(target.rng.choice(["/dev/zero", "/dev/null", "/dev/tty"]))


def link_to_itself(target: Target) -> None:
    """A symbolic link that leads nowhere."""
    target.path.unlink()
    target.path.symlink_to(target.path.name)


def link(target: Target) -> None:
    """A symbolic link to a stranger's file of the same content. It may be read, but not written to."""
    shutil.move(target.path, target.outside / target.path.name)
    target.path.symlink_to(target.outside / target.path.name)


def file_of_another_run(target: Target) -> None:
    """The file of this name of another run."""
    shutil.copy(target.other / target.path.relative_to(target.run), target.path)


def checkpoints_of_another_run(target: Target) -> None:
    """One checkpoint or all, of another run of the same data and sizes."""
    part = target.rng.choice(["checkpoints", "checkpoints/step-00000003", "checkpoints/step-00000004"])
    shutil.rmtree(target.run / part)
    shutil.copytree(target.other / part, target.run / part)


# ---------------------------------------------------------------- damages to what a file means


def json_value(target: Target) -> None:
    """A JSON value of another type, out of range, nested deeply, or missing."""
    content = _replace_in(json.loads(target.path.read_text()), target.rng)
    text = json.dumps(content, ensure_ascii=target.rng.random() < 0.5)
    target.path.write_text(text.replace(json.dumps(DEEP), DEEP))


def _replace_in(content: Any, rng: random.Random) -> Any:
    """The content with something in it replaced."""
    if not (isinstance(content, dict | list) and content) or rng.random() < 0.1:
        return rng.choice(HOSTILE)
    key = rng.choice(list(content)) if isinstance(content, dict) else rng.randrange(len(content))
    if rng.random() < 0.1:
        del content[key]
    else:
        content[key] = _replace_in(content[key], rng)
    return content


def toml_value(target: Target) -> None:
    """The same of a setting."""
    content = tomllib.loads(target.path.read_text())
    table = content[target.rng.choice(["data", "model", "training"])]
    table[target.rng.choice(list(table))] = target.rng.choice([v for v in HOSTILE if v is not None])
    target.path.write_text(tomli_w.dumps(content).replace(json.dumps(DEEP), DEEP))


def tensor(target: Target) -> None:
    """A tensor that is not finite, of another type or shape, missing, or renamed."""
    tensors = load(target.path.read_bytes())
    floats = [name for name in tensors if tensors[name].dtype == np.float32]
    name = target.rng.choice(floats or list(tensors))  # statistics are counts
    array = tensors.pop(name)
    first = np.arange(array.size).reshape(array.shape) == 0
    options: list[dict[str, Any]] = [
        {name: np.where(first, np.float32("nan"), array)},
        {name: np.full_like(array, np.inf)},
        {name: array.astype(np.int64)},
        {name: array.astype(bool)},
        {name: array.reshape(-1, 1)},
        {name: array.reshape(-1)[:0]},
        {"\x1b[31m": array},
        {},
    ]
    target.path.write_bytes(save(tensors | target.rng.choice(options)))


def swapped_words(target: Target) -> None:
    """Two words that have exchanged their ids."""
    content = json.loads(target.path.read_text())
    words = content["model"]["vocab"]
    a, b = target.rng.sample(list(words)[4:], 2)
    words[a], words[b] = words[b], words[a]
    target.path.write_text(json.dumps(content))


def seal(target: Target, before: bytes) -> None:
    """Correct the checksums of a file that was changed, in all files that hold them, and theirs."""
    changed = [(target.path, before)]
    while changed:
        path, content = changed.pop()
        old, new = (hashlib.sha256(c).hexdigest().encode() for c in (content, path.read_bytes()))
        for holder in target.run.rglob("*"):
            if holder.is_file() and old in (text := holder.read_bytes()):
                holder.write_bytes(text.replace(old, new))
                changed.append((holder, text))
    with suppress(ValueError, RecursionError, KeyError, TypeError):
        record = json.loads((target.run / "run.json").read_text())
        del record["sha256"]  # of all other entries
        own = hashlib.sha256(json.dumps(record, ensure_ascii=False).encode()).hexdigest()
        (target.run / "run.json").write_text(json.dumps({**record, "sha256": own}))


# ---------------------------------------------------------------- the attacks

Damage = Callable[[Target], None]
BYTES: tuple[Damage, ...] = (
    flip_bit, flip_bit, flip_bit, flip_bit, truncate, truncate, zero_block, other_bytes, more_bytes, no_bytes,
    no_file, folder, fifo, device, link_to_itself, link, file_of_another_run,
    checkpoints_of_another_run,
)  # fmt: skip
MEANING: dict[str, tuple[Damage, ...]] = {
    "tokenizer.json": (json_value, json_value, swapped_words),
    ".json": (json_value,),
    ".toml": (toml_value,),
    ".safetensors": (tensor,),
}


class Runs:
    """A finished run, another one, and what the commands give for it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.whole = place / "whole"
        self.other = place / "other"
        for cwd, seed in ((self.whole, 0), (self.other, 1)):
            cwd.mkdir()
            write_pairs(cwd)
            assert run([*TRAIN, "--seed", seed], cwd).code == 0
        folder = self.whole / "run"
        files = sorted(path.relative_to(folder) for path in folder.rglob("[!.]*") if path.is_file())
        self.files = files + 3 * [path for path in files if path.name not in RESULTS]
        cwd = self.copy()
        self.expected = {name: result(name, run(argv, cwd), cwd) for name, argv in COMMANDS.items()}

    def copy(self) -> Path:
        """A copy of the run, to damage."""
        shutil.rmtree(self.place / "damaged", ignore_errors=True)
        shutil.rmtree(self.place / "outside", ignore_errors=True)
        (self.place / "outside").mkdir()
        return Path(shutil.copytree(self.whole, self.place / "damaged"))

    def target(self, file: Path, rng: random.Random) -> Target:
        """A file of a copy of the run."""
        folder = self.copy() / "run"
        return Target(folder / file, folder, self.other / "run", self.place / "outside", rng)


def result(name: str, outcome: Outcome, cwd: Path) -> object:
    """What a command gives: scores, translations or the weights of the last checkpoint."""
    if name == "resume":
        return {path: content for path, content in weights(cwd / "run").items() if "00000006" in path}
    return outcome.out


def attack(runs: Runs, report: Report, seed: int) -> None:
    """One damage, and the commands that meet it."""
    rng = random.Random(seed)
    target = runs.target(rng.choice(runs.files), rng)
    name = target.path.name
    kinds = next((kinds for end, kinds in MEANING.items() if name.endswith(end)), ())
    damage = rng.choice(kinds if kinds and rng.random() < 0.4 else BYTES)
    sealed = damage in kinds and rng.random() < 0.5
    before = target.path.read_bytes()
    damage(target)
    if sealed:
        seal(target, before)
    strangers = {path.name: path.read_bytes() for path in target.outside.iterdir()}
    for command, argv in COMMANDS.items():
        cwd = target.run.parent
        outcome = Command(argv, cwd).wait(gigabytes=1)
        failure = outcome.problem
        free = sealed and damage is not tensor
        if not failure and outcome.code == 0 and not free:
            failure = "" if result(command, outcome, cwd) == runs.expected[command] else "silently wrong"
        if outcome.code == 1:
            failure = failure or "exit code 1"
        if {path.name: path.read_bytes() for path in target.outside.iterdir()} != strangers:
            failure = "wrote to a stranger's file"
        word = failure or ("error" if outcome.code else "result" if free else "right result")
        label = damage.__name__ + ", sealed" * sealed
        where = f"{command} after {label} of {target.path.relative_to(target.run)} (seed {seed})"
        report.add(label, word, failure and f"{failure}: {where}: {outcome.last_words}")


def main() -> int:
    count = full_or(small=3, full=1000)
    report = Report()
    with tempfile.TemporaryDirectory() as place:
        runs = Runs(Path(place))
        for seed in range(count):
            attack(runs, report, seed)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
