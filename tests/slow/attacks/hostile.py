"""Calls the command line with hostile values: for each flag of each verb, as arguments, data and input.

No call may end in a traceback or with a raw escape sequence, take over 10 s or over 2 GB. A training that
takes a value and starts may go on, and must stop when it is interrupted.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from minitransformer.recipes import names

from .commands import SECONDS, TRAIN, Command, Outcome, Report, full_or, run, spread, write_pairs

VALUES = (
    "", " ", "\n", "-1", "0", "1", "0.5", "1e400", "nan", "-inf", "9" * 400, str(10**12), "1e308", "true",
    "../../x", "/dev/zero", "%s{0}$(id)",
)  # fmt: skip
TEXT = "ROMEO: But soft! What light through yonder window breaks?\nJULIET: Ay me!\n" * 20
TINY_GPT = "--n-embd 16 --n-head 2 --n-layer 1 --block-size 16 --n-positions 16 --steps 2".split()  # noqa: SIM905
PLAY = ["train", "shakespeare-char-cpu", "--data", "text.txt", "--run-dir", "play", *TINY_GPT]
INTERRUPT = 1.0  # seconds that a training may go on


@dataclass(frozen=True)
class Call:
    """A command line with something hostile in it."""

    group: str
    argv: list[str]
    stdin: bytes = b""
    prepare: Callable[[Path], object] = lambda cwd: None  # makes the files that it names


# ---------------------------------------------------------------- flags and arguments


def bases() -> dict[str, list[str]]:
    """A good call of each verb, which a hostile flag spoils."""
    return {
        "train": [*TRAIN[:-2], "--run-dir", "new"],
        "train gpt": [*PLAY, "--run-dir", "new"],
        "translate": ["translate", "run", "My computer is old."],
        "generate": ["generate", "play", "--max-new-tokens", "5"],
        "evaluate": ["evaluate", "run", "--data", "pairs.tsv"],
        "graph": ["graph", "run", "My computer is old.", "-o", "new.svg", "--overwrite"],
    }


def flags(base: list[str], cwd: Path) -> list[str]:
    """The flags that a verb's --help lists."""
    verb = base[:2] if base[0] == "train" else base[:1]
    return sorted(set(re.findall(r"--[a-z][a-z0-9-]+", run([*verb, "--help"], cwd).out)) - {"--help"})


def flag_calls(cwd: Path) -> Iterator[Call]:
    """Each value for each flag of each verb."""
    for verb, base in bases().items():
        for flag in flags(base, cwd):
            for value in VALUES:
                yield Call(verb, [*base, flag, value])


def argument_calls() -> Iterator[Call]:
    """Each value as a verb, a recipe, a run, a sentence and standard input."""
    for value in VALUES:
        yield Call("verbs", [value])
        yield Call("recipes", ["train", value, *TRAIN[2:]])
        for verb in ("translate", "generate", "evaluate", "graph"):
            yield Call("runs", [verb, value])
        yield Call("texts", ["translate", "run", value])
        yield Call("texts", ["generate", "play", "--max-new-tokens", "5", "--prompt", value])
        yield Call("texts", ["graph", "run", value, value, "-o", "new.svg", "--overwrite"])
        yield Call("input", ["translate", "run"], value.encode() + b"\nI am.\n")


# ---------------------------------------------------------------- data files


def bomb(path: Path) -> None:
    """A gzip file of 10 MB that unpacks to 10 GB."""
    member = gzip.compress(bytes(2**26))
    path.write_bytes(member * 160)


def terabyte(path: Path) -> None:
    """A terabyte of zeros, which takes no space on the disk."""
    path.touch()
    os.truncate(path, 2**40)


FILES: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "folder": Path.mkdir,
    "empty": Path.touch,
    "terabyte": terabyte,
    "zeros": lambda path: path.write_bytes(bytes(10**6)),
    "random": lambda path: path.write_bytes(os.urandom(10**5)),
    "escapes": lambda path: path.write_text("".join(f"\x1b[3{i}m\t\x1b]0;{i}\x07\n" for i in range(60))),
    "one line": lambda path: path.write_text("a b " * 10**6),
    "one tab": lambda path: path.write_text("a" * 10**6 + "\t" + "b " * 10**6),
    "nested": lambda path: path.write_text('task = "translation"\nx = ' + "[" * 10**5),
    "huge number": lambda path: path.write_text(f'task = "translation"\n[model]\nd_model = {"9" * 10**5}'),
}


def file_calls() -> Iterator[Call]:
    """Each file as a recipe, as data, as a run, and in a folder of public data."""
    public = next(name for name in names() if "multi30k" in name)
    good = bases()
    for kind, make in {**FILES, "bomb": bomb}.items():
        named = lambda name, make=make: lambda cwd: make(cwd / name)
        group = f"file: {kind}"
        yield Call(group, ["train", "x.toml"], prepare=named("x.toml"))
        for argv in (good["train"], good["train gpt"], good["evaluate"]):
            yield Call(group, [*argv, "--data", "x"], prepare=named("x"))
        yield Call(group, ["evaluate", "x"], prepare=named("x"))
        for name in ("public/train.en", "public/train.en.gz"):
            argv = ["train", public, "--data-dir", "public", "--run-dir", "new"]
            yield Call(group, argv, prepare=named(name))


# ---------------------------------------------------------------- the attacks


def attend(command: Command) -> tuple[Outcome, bool]:
    """The command's outcome, and whether it is a training that was interrupted."""
    started = command.until(lambda: bool(re.search("parameters.*steps", command.errors())), SECONDS / 2)
    if started:
        command.until(lambda: False, INTERRUPT)
    interrupted = started and command.running()
    if interrupted:
        command.signal(signal.SIGINT)
    return command.wait(), interrupted


def main() -> int:
    count = full_or(small=6, full=10_000)
    report = Report()
    with tempfile.TemporaryDirectory() as place:
        good = Path(place, "good")
        (good / "public").mkdir(parents=True)
        write_pairs(good)
        (good / "text.txt").write_text(TEXT)
        assert run(TRAIN, good).code == run(PLAY, good).code == 0
        for call in spread([*flag_calls(good), *argument_calls(), *file_calls()], count):
            cwd = Path(place, "a", "b", "cwd")  # ../../x is still within the place
            shutil.rmtree(Path(place, "a"), ignore_errors=True)
            shutil.copytree(good, cwd)
            call.prepare(cwd)
            command = Command(call.argv, cwd, stdin=call.stdin)
            outcome, interrupted = attend(command)
            word = outcome.problem or ("interrupted" if interrupted else f"exit code {outcome.code}")
            failure = outcome.problem or ("exit code 1" if outcome.code == 1 and not interrupted else "")
            shown = f"{call.group} ... " + " ".join(repr(word[:40]) for word in call.argv[-3:])
            report.add(call.group, word, failure and f"{failure}: {shown}: {outcome.last_words[:200]}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
