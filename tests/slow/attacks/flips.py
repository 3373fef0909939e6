"""Flips each bit of each small file of a run, one at a time, and reads the run as commands do.

A flip is refused, or it is harmless: then all that `evaluate`, `translate` and `--resume` read of the run is
the same as without it, so that they give the same. They do not read scores, predictions and README.md. Of the
log, a flip may change or lose one record. Some flips are also met by the commands themselves.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from minitransformer.errors import UserError
from minitransformer.runs.folder import check_folder, read_config, read_tokenizer
from minitransformer.runs.run import record_of
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.training.checkpoint import Checkpoints
from minitransformer.training.log import read_log, truncate_log

from .commands import TRAIN, Report, full_or, run, write_pairs

BINARY = (".safetensors", ".png")


def small_files(folder: Path) -> list[Path]:
    """All files of a run but weights and pictures."""
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix not in BINARY and p.stat().st_size)


class Reader:
    """Reads all that commands read of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def settings(self) -> Any:
        """Record, settings and vocabulary: what each command reads first."""
        check_folder(self.folder, resume=True, overwrite=False)
        record = record_of(self.folder)
        recipe = read_config(self.folder, record)
        tokenizer = read_tokenizer(self.folder, record)
        assert isinstance(tokenizer, Tokenizer)
        return asdict(record), asdict(recipe), tokenizer.to_bytes()

    def checkpoints(self) -> Any:
        """States, weights and moments, and which checkpoint is the best."""
        found = Checkpoints(self.folder / "checkpoints", identity=record_of(self.folder).identity)
        states = {name: found._state(found.folder / name) for name in found.names()}
        contents = {
            (name, file): found._read(found.folder / name, file, state)
            for name, state in states.items()
            for file in ("model.safetensors", "optimizer.safetensors")
        }
        return found.index, states, contents

    def log(self) -> Any:
        """The log, as `--resume` leaves it: all records, by step and kind."""
        truncate_log(self.folder / "log.jsonl", 4)
        return read_log(self.folder / "log.jsonl")

    def nothing(self) -> Any:
        """For a file that these commands do not read."""
        return None


def reading_of(reader: Reader, path: Path) -> Callable[[], Any]:
    """What reads a file."""
    if "checkpoints" in path.parts:
        return reader.checkpoints
    if path.name in ("run.json", "config.toml", "tokenizer.json"):
        return reader.settings
    return reader.log if path.name == "log.jsonl" else reader.nothing


def read(reading: Callable[[], Any]) -> Any:
    """What is read, or the error."""
    try:
        with redirect_stderr(StringIO()):
            return reading()
    except UserError as error:
        return error


def one_record_at_most(expected: Any, found: Any) -> bool:
    """Whether a log lost or changed one record (two, if a bit of the line feed between them was flipped)."""
    lost = [record for record in expected if record not in found]
    new = [record for record in found if record not in expected]
    return len(lost) <= 2 and len(new) <= 1


def attack(reader: Reader, path: Path, bit: int, expected: Any, report: Report) -> None:
    """Flip a bit, read, and put the file back."""
    before = path.read_bytes()
    content = bytearray(before)
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    name = path.name
    where = f"bit {bit} of {path.relative_to(reader.folder)}"
    try:
        found = read(reading_of(reader, path))
    except Exception as error:
        report.add(name, "a traceback", f"{where}: {error!r}")
        return
    finally:
        path.write_bytes(before)
    if isinstance(found, UserError):
        lines = str(found).splitlines()
        report.add(name, "refused", "" if len(lines) == 2 else f"{where}: {len(lines)} lines: {found}")
    elif found == expected:
        report.add(name, "harmless: not read" if expected is None else "harmless: the same is read")
    elif name == "log.jsonl" and one_record_at_most(expected, found):
        report.add(name, "harmless: one record of the log")
    else:
        report.add(name, "silently wrong", f"{where} is silently taken for something else")


def check_by_commands(place: Path, flips: list[tuple[Path, int]], report: Report) -> None:
    """Run the commands themselves after some flips in files that were said to be harmless."""
    from .damage import COMMANDS, result

    expected = {}
    for path, bit in [(None, 0), *flips]:
        copy = Path(shutil.copytree(place / "whole", place / "copy"))
        if path is not None:
            target = copy / path
            content = bytearray(target.read_bytes())
            content[bit // 8] ^= 1 << bit % 8
            target.write_bytes(content)
        for name, argv in COMMANDS.items():
            outcome = run(argv, copy)
            found = result(name, outcome, copy) if outcome.code == 0 else None
            if path is None:
                expected[name] = found
                continue
            wrong = outcome.problem or (
                "" if outcome.code == 2 or found == expected[name] else "another result"
            )
            word = "refused" if outcome.code else "the same"
            report.add(f"{name}, as a command", wrong or word, wrong and f"bit {bit} of {path}: {wrong}")
        shutil.rmtree(copy)


def main() -> int:
    count = full_or(small=60, full=10**9)
    report = Report()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "whole").mkdir()
        write_pairs(place / "whole")
        assert run(TRAIN, place / "whole").code == 0
        shutil.copytree(place / "whole" / "run", place / "run")
        owner = {"pid": os.getpid(), "host": "here", "since": "now"}  # as a killed training leaves it
        (place / "run" / ".owner.json").write_text(json.dumps(owner))
        os.chdir(place / "whole")
        reader = Reader(place / "run")
        expected = {p: reading_of(reader, p)() for p in small_files(reader.folder)}
        bits = [(path, bit) for path in expected for bit in range(8 * path.stat().st_size)]
        chosen = bits if count >= len(bits) else rng.sample(bits, count)
        if count < len(bits):  # the keys of run.json are few, and turned checking off
            text = (reader.folder / "run.json").read_bytes()
            start = text.index(b'"id"') + 1
            chosen += [(reader.folder / "run.json", 8 * start + bit) for bit in range(16)]
        for path, bit in chosen:
            attack(reader, path, bit, expected[path], report)
        known = [(Path("run") / path.relative_to(reader.folder), bit) for path, bit in chosen]
        known = [flip for flip in known if flip[0].name != ".owner.json"]
        check_by_commands(place, rng.sample(known, 1 if count < len(bits) else 60), report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
