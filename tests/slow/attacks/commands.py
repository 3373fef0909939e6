"""Runs commands of `minitransformer` in forked children, with a limit on their time.

A new interpreter takes seconds to import everything; a fork of one that has done so takes milliseconds.
That is what makes hundreds of attacks possible.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import minigrad as mg
from minitransformer.cli import main
from minitransformer.data.phrasebook import phrasebook

# what a command may take to end; tests, which run beside others, give it more time
SECONDS = float(os.environ.get("ATTACK_SECONDS", 10.0))
TINY = shlex.split(
    "--d-model 16 --num-heads 2 --d-ff 32 --num-encoder-layers 1 --num-decoder-layers 1 "
    "--schedule constant --steps 4 --log-every 1 --validate-every 2 --checkpoint-every 1"
)
TRAIN = ["train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "run", *TINY]

mg.kernels.use("numpy")  # numba would compile for seconds, and nothing here depends on the kernels
Figure.savefig = lambda self, file, **options: file.write(b"a picture")  # half of the time of a small run


# ---------------------------------------------------------------- one command


@dataclass(frozen=True)
class Outcome:
    """How a command ended. A negative exit code is the signal that ended it."""

    code: int
    out: str
    err: str
    seconds: float
    limit: str = ""  # the limit that it exceeded, for which it was killed

    @property
    def problem(self) -> str:
        """What no command may do, whatever it is given; empty if it did nothing of the kind."""
        if self.limit:
            return self.limit
        if "Traceback" in self.err or "panicked at" in self.err:
            return "traceback"
        if self.code not in (0, 1, 2):
            return f"exit code {self.code}"
        if self.code and not self.err.strip():
            return "no message"
        return "escape sequence" if "\x1b" in self.out + self.err else ""

    @property
    def last_words(self) -> str:
        """The last line of a traceback, or the first line of an error message."""
        lines = [line for line in self.err.splitlines() if line.strip()] or [""]
        errors = [line for line in lines if line.startswith("error:")]
        return lines[-1] if "Traceback" in self.err or not errors else errors[0]


class Command:
    """A command that runs in a forked child, in the folder `cwd`. `prepare` is called in the child first."""

    def __init__(self, argv: Iterable[Any], cwd: Path, prepare: Callable[[], object] = lambda: None) -> None:
        _warm_up()
        self.argv = [str(word) for word in argv]
        self._out, self._err = _scratch(), _scratch()
        with open(os.devnull) as empty:
            sys.stdout.flush()
            sys.stderr.flush()
            self._start = time.monotonic()
            self.pid = os.fork()
            if not self.pid:
                self._run(cwd, empty.fileno(), prepare)

    def _run(self, cwd: Path, stdin: int, prepare: Callable[[], object]) -> None:
        """The child's life."""
        code = 1
        try:
            for number, handle in enumerate((stdin, self._out.fileno(), self._err.fileno())):
                os.dup2(handle, number)
            os.chdir(cwd)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
            prepare()
            code = main(self.argv)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def running(self) -> bool:
        """Whether it has not ended yet."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds; False if the command ends before, or the time."""
        end = time.monotonic() + seconds
        while self.running() and time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.01)
        return False

    def wait(self, seconds: float = SECONDS) -> Outcome:
        """Wait for its end, which comes by force after `seconds`."""
        limit = ""
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - self._start > seconds:
                limit = f"more than {seconds:g} s"
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.005)
        took = time.monotonic() - self._start
        out, err = _content(self._out), _content(self._err)
        self._out.close()
        self._err.close()
        return Outcome(os.waitstatus_to_exitcode(status), out, err, took, limit)


def run(argv: Iterable[Any], cwd: Path, **options: Any) -> Outcome:
    """Run a command to its end."""
    return Command(argv, cwd, **options).wait()


def _scratch() -> Any:
    return tempfile.TemporaryFile()


def _content(file: Any) -> str:
    return os.pread(file.fileno(), 2**24, 0).decode(errors="replace")


# ---------------------------------------------------------------- folders

CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate", "os.link")


def on_change(handle: Callable[[int, str, Any], object]) -> None:
    """Call `handle(number, event, path)` before each file operation of this process, counted from 0.

    The events are those of Python's audit hooks: "open" (for writing), "os.rename", "os.remove", ...
    """
    count = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        write = event == "open" and args[0] != os.devnull and int(args[2]) & (os.O_WRONLY | os.O_RDWR)
        if write or event in CHANGES:
            handle(count, event, args[0])
            count += 1

    sys.addaudithook(hook)


def write_pairs(folder: Path) -> None:
    """The data of the runs: 60 pairs of the phrasebook."""
    lines = [f"{source}\t{target}\n" for source, target in phrasebook().train[:60]]
    (folder / "pairs.tsv").write_text("".join(lines), encoding="utf-8")


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """The content of each file in a folder, by path; None for a folder, the target of a symbolic link."""
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path).encode()
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def weights(run: Path) -> dict[str, bytes]:
    """The tensors of all checkpoints of a run: the bytes of its safetensors files."""
    files = sorted(run.glob("checkpoints/step-[0-9]*/*.safetensors"))
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


@cache
def _warm_up() -> None:
    """Run a few commands in this process, so that its children have imported everything."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        os.chdir(folder)
        write_pairs(Path(folder))
        for command in (TRAIN, ["train", "phrasebook", "--lr", "x"]):
            main(command)
        os.chdir(before)


# ---------------------------------------------------------------- reports


def full_or(small: int, full: int, argv: Sequence[str] | None = None) -> int:
    """The number of attacks: `small`, or with --full `full`, or --count."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--full", action="store_true", help=f"{full} attacks, not {small}")
    parser.add_argument("--count", type=int, help="this many attacks")
    args = parser.parse_args(argv)
    return args.count or (full if args.full else small)


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """`count` of the items, evenly spaced."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]


class Report:
    """Counts outcomes by group, and prints those that must not be."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.failures = 0

    def add(self, group: str, outcome: str, failure: str = "") -> None:
        """Count an outcome of a group. `failure` says what happened that must not."""
        self.counts.setdefault(group, Counter())[outcome] += 1
        if failure:
            self.failures += 1
            print(f"failure: {group}: {failure}", flush=True)

    def finish(self) -> int:
        """Print the table, and return the exit code."""
        for group, outcomes in self.counts.items():
            print(f"{group:<28} {outcomes.total():>5}:", ", ".join(f"{n} {o}" for o, n in outcomes.items()))
        total = sum(outcomes.total() for outcomes in self.counts.values())
        print(f"{total} attacks, {self.failures} failures")
        return 1 if self.failures else 0
