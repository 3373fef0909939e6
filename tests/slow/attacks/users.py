"""Runs commands as users to whom nothing belongs: without a home, a name, a cache or permissions.

The installation is root's. A training either ends as root's does, or says in two lines what it may not do.
A cache that cannot be written to is said once, in one line. Needs root, whose children
become those users; and an interpreter that every user can read.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .commands import TRAIN, Command, Outcome, Report, full_or, spread, weights, write_pairs

SECONDS = 60.0  # numba is imported and compiles a loop
USERS = {"named": 65534, "without a name": 54321}
HOMES = ("unset", "", "missing", "read-only", "file", "relative", "writable")
PLACES = ("missing", "read-only", "file")
VARIABLES = ("TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR")
RUN_FILES = ("run.json", "config.toml", "tokenizer.json", "checkpoints", "log.jsonl", "metrics.json")


def loop(x):
    """What numba compiles and wants to cache, in a file that is not the user's."""
    for i in range(x.size):
        x[i] += 1


@dataclass(frozen=True)
class Attack:
    """A command of a user with this environment. `damage` takes permissions away, in root's name."""

    group: str
    what: str
    argv: Sequence[str] = tuple(TRAIN)
    user: int = USERS["without a name"]
    home: str = "unset"
    variables: tuple[tuple[str, str], ...] = ()
    damage: Callable[[Path], object] = lambda cwd: None
    umask: int = 0o022
    works: bool | None = True  # or is refused; None: either


def attacks() -> list[Attack]:
    """All of them."""
    found = []
    for name, user in USERS.items():
        for home in HOMES:
            found.append(Attack("homes", f"{name}, home {home or 'empty'}", user=user, home=home))
            for place in PLACES:
                every = tuple((variable, place) for variable in VARIABLES)
                found.append(Attack("caches", f"{name}, {home}, {place}", tuple(TRAIN), user, home, every))
        for variable in VARIABLES:
            for place in PLACES:
                one = ((variable, place),)
                found.append(
                    Attack("caches", f"{name}, {variable} {place}", tuple(TRAIN), user, "missing", one)
                )
    for umask in (0o000, 0o077, 0o177, 0o777):
        works = umask in (0o000, 0o077)
        found.append(Attack("umasks", f"{umask:o}", umask=umask, works=works))
    evaluate = ["evaluate", "run", "--data", "pairs.tsv"]
    resume = [*TRAIN, "--resume", "--steps", "6"]
    translate = ["translate", "run", "I am."]
    again = [*TRAIN, "--overwrite"]
    reads = {"evaluate": evaluate, "translate": translate, "show": ["show", "run"]}
    for verb, argv in {**reads, "resume": resume, "overwrite": again}.items():
        found.append(Attack("root's run", verb, argv, damage=roots_run, works=verb in reads))
        for name in RUN_FILES:
            hidden = lambda cwd, name=name: (roots_run(cwd), os.chmod(cwd / "run" / name, 0))
            found.append(Attack("hidden files", f"{verb}, {name}", argv, damage=hidden, works=None))
    for what, damage in {
        "data unreadable": lambda cwd: os.chmod(cwd / "pairs.tsv", 0),
        "parent not writable": lambda cwd: os.chmod(cwd, 0o555),
        "parent not readable": lambda cwd: os.chmod(cwd, 0o333),
        "parent not searchable": lambda cwd: os.chmod(cwd, 0o666),
        "run folder a file": lambda cwd: (cwd / "run").write_text("mine"),
        "run folder not searchable": lambda cwd: ((cwd / "run").mkdir(), os.chmod(cwd / "run", 0o666)),
        "run folder not writable": lambda cwd: ((cwd / "run").mkdir(), os.chmod(cwd / "run", 0o555)),
    }.items():
        works = what == "parent not readable"
        found.append(Attack("permissions", what, damage=damage, works=works))
    return found


def roots_run(cwd: Path) -> None:
    """Let there be a finished run that belongs to root and that others may read."""
    shutil.copytree(cwd.parent / "good" / "run", cwd / "run")


def become(attack: Attack, cwd: Path) -> None:
    """Let this process be that user, in a new environment."""
    own = cwd.parent / "own"
    paths = {name: str(own / name) for name in ("missing", "read-only", "file", "writable")}
    os.environ.clear()
    os.environ["PATH"] = os.defpath
    for name, value in [("HOME", attack.home), *attack.variables]:
        if value != "unset":
            os.environ[name] = paths.get(value, value)
    tempfile.tempdir = None
    os.setgroups([])
    os.setgid(attack.user)
    os.setuid(attack.user)
    os.umask(attack.umask)
    if attack.group not in ("homes", "caches"):
        return
    from minigrad.kernels.numba.compiler import compiled

    compiled(nogil=True)(loop)(np.zeros(3))


def others_can_read(files: Sequence[str]) -> bool:
    """Whether a user to whom nothing belongs can read these files."""
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(USERS["named"])
        os.setuid(USERS["named"])
        os._exit(not all(os.access(file, os.R_OK) for file in files))
    return os.waitpid(child, 0)[1] == 0


def lines_of(outcome: Outcome) -> str:
    """What is wrong with what a command that was refused has said."""
    lines = outcome.err.splitlines()
    said = [i for i, line in enumerate(lines) if line.startswith("error: ")]
    return "" if said == [len(lines) - 2] else "not two lines"


def failure_of(attack: Attack, outcome: Outcome, cwd: Path, expected: dict[str, bytes]) -> str:
    """What happened that must not; empty if nothing did."""
    if outcome.problem:
        return outcome.problem
    if outcome.code and (outcome.code != 2 or lines_of(outcome)):
        return f"exit code {outcome.code}, {lines_of(outcome)}"
    if attack.works is not None and attack.works != (outcome.code == 0):
        return "was refused" if attack.works else "was not refused"
    if outcome.err.count("cannot be cached") > 1:
        return "said twice"
    if (cwd / "~").exists() or (cwd / "numba").exists():
        return "a cache in the current folder"
    if attack.works and attack.argv == tuple(TRAIN) and weights(cwd / "run") != expected:
        return "other weights"
    return ""


def prepare(attack: Attack, place: Path) -> Path:
    """The current folder of the user, and the places that the environment names."""
    for name in ("cwd", "own"):
        shutil.rmtree(place / name, ignore_errors=True)
    cwd = place / "cwd"
    own = place / "own"
    cwd.mkdir()
    own.mkdir()
    shutil.copy(place / "good" / "pairs.tsv", cwd)
    (own / "read-only").mkdir(mode=0o555)
    (own / "writable").mkdir()
    (own / "file").write_text("")
    os.chown(own / "writable", attack.user, attack.user)
    os.chown(cwd, attack.user, attack.user)
    attack.damage(cwd)
    for path in (cwd, *cwd.glob("*")):
        if "root's" not in attack.group and "hidden" not in attack.group:
            os.chown(path, attack.user, attack.user)
    return cwd


def main() -> int:
    count = full_or(small=4, full=10_000)
    report = Report()
    if os.geteuid():
        print("skipped: only root can become another user")
        return 0
    if not others_can_read([os.__file__, np.__file__, __file__]):
        print("skipped: the interpreter or this project is in a folder that other users cannot read")
        return 0
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # which others may enter, unlike some TMPDIR
        place = Path(folder)
        os.chmod(place, 0o755)
        (place / "good").mkdir()
        write_pairs(place / "good")
        trained = Command(TRAIN, place / "good").wait(SECONDS)
        assert trained.code == 0, trained.err
        expected = weights(place / "good" / "run")
        for attack in spread(attacks(), count):
            cwd = prepare(attack, place)
            command = Command(attack.argv, cwd, prepare=lambda a=attack, c=cwd: become(a, c))
            outcome = command.wait(SECONDS)
            failure = failure_of(attack, outcome, cwd, expected)
            word = failure or ("refused" if outcome.code else "worked")
            report.add(attack.group, word, failure and f"{attack.what}: {failure}: {outcome.err[-300:]}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
