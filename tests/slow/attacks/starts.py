"""Starts two ranks of a training that differ in one setting, in data, in code or in the command.

All ranks must end with one message that names what differs and both values, as soon as ranks that were
started alike would have ended, and with nothing written: no weights of both, and no rank waits for the other.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minitransformer.recipes import Recipe, load_recipe

from .commands import TINY, Report, full_or, snapshot, spread, write_pairs

ROOT = Path(__file__).parents[3]
MPIEXEC = shutil.which(
    "mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)
TRAIN = ["train", "mine.toml", "--data", "pairs.tsv", "--run-dir", "run", *TINY]
RECIPE = 'task = "translation"\n[training]\nseed = 0\n'
PROGRAM = """
import os, sys
os.chdir(sys.argv.pop(1))
from minitransformer.__main__ import main
sys.exit(main())
"""
LATE = 10.0  # seconds that an unequal start may take longer than an equal one
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


@dataclasses.dataclass(frozen=True)
class Start:
    """What rank 1 has that rank 0 has not, and what the message must say of it."""

    name: str
    says: tuple[str, ...]
    words: tuple[str, ...] = ()  # after those of rank 0
    command: tuple[str, ...] = ()  # in their place
    folder: str = "."  # where it starts
    path: str = ""  # a folder with other modules


def other(value: Any) -> str:
    """Another value of a setting."""
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(2 * value + 2)
    return str(value / 2 + 0.1) if isinstance(value, float) else ""


def starts(recipe: Recipe) -> list[Start]:
    """All of them: the first ones are of all kinds."""
    message = ("rank 0", "rank 1")
    found = [
        Start("data", ("checksum of the train split", *message), folder="other-data"),
        Start("dropout", ("--dropout is not given on rank 0, 0.3 on rank 1",), ("--dropout", "0.3")),
        Start("recipe", ("training.seed is 0 on rank 0, 1 on rank 1",), folder="other-recipe"),
        Start("code", ("checksum of our code", *message), path="other-code"),
        Start("numba", ("numba", *message), path="no-numba"),
        Start("run folder", ("the run folder is", *message), folder="same"),
        Start("resume", ("--resume is not given on rank 0, given on rank 1",), ("--resume",)),
        Start("--help", ("--help is not given on rank 0, given on rank 1",), ("--help",)),
        Start("no recipe", ("verb is train on rank 0, show on rank 1",), command=("show", "run")),
        Start("sweep", ("verb is train on rank 0, sweep on rank 1",), command=("sweep", *TRAIN[1:])),
        Start("other recipe", ("recipe is mine.toml on rank 0, reverse on",), command=("train", "reverse")),
        Start("data path", ("checksum of the train split",), ("--data", "other-data/pairs.tsv")),
        Start("no data", ("--data is given on rank 0, not given on rank 1",), command=tuple(TRAIN[:2])),
        Start("validation data", ("--validation-data",), ("--validation-data", "pairs.tsv")),
        Start("betas", ("--betas",), ("--betas", "0.8", "0.9")),
        Start("precision", ("--precision",), ("--precision", "bfloat16")),
        Start("optimizer", ("--optimizer",), ("--optimizer", "sgd")),
        Start("schedule", ("--schedule is constant on rank 0, constant linear",), ("--schedule", "linear")),
        Start("monitor", ("--monitor",), ("--monitor", "accuracy")),
        Start("device", ("device",), ("--device", "cuda:0")),
        Start("nonsense", ("--nonsense",), ("--nonsense", "1")),
    ]
    for flag in ("overwrite", "capture", "no-capture", "diagnostics", "tensorboard"):
        says = f"--{flag} is not given on rank 0, given on rank 1"
        found.append(Start(flag, (says,), (f"--{flag}",)))
    for flag in ("run-dir", "init-from", "preset", "model-type"):
        found.append(Start(flag, (f"--{flag} is",), (f"--{flag}", "x")))
    for part in (recipe.training, recipe.model, recipe.data):
        for name, value in dataclasses.asdict(part).items():
            flag = f"--{name.replace('_', '-')}"
            if other(value) and all(flag[2:] != start.name for start in found):
                found.append(Start(flag[2:], (f"{flag} is ", *message), (flag, other(value))))
    return found


def prepare(place: Path) -> None:
    """Folders that differ in one thing."""
    for name in (".", "other-data", "other-recipe", "same"):
        (place / name).mkdir(exist_ok=True)
        write_pairs(place / name)
        (place / name / "mine.toml").write_text(RECIPE)
    pairs = place / "other-data" / "pairs.tsv"
    pairs.write_text(pairs.read_text().replace("\t", "\tO ", 1))
    (place / "other-recipe" / "mine.toml").write_text(RECIPE.replace("seed = 0", "seed = 1"))
    for package in ("minigrad", "minitransformer"):
        shutil.copytree(ROOT / package, place / "other-code" / package)
    with (place / "other-code" / "minigrad" / "__init__.py").open("a") as file:
        file.write("# another version\n")
    (place / "no-numba").mkdir()
    (place / "no-numba" / "sitecustomize.py").write_text("import sys\nsys.modules['numba'] = None\n")


def command(place: Path, words: list[str], folder: str = ".", path: str = "") -> list[str]:
    """The command of a rank."""
    paths = os.pathsep.join([str(place / path), str(ROOT)] if path else [str(ROOT)])
    start = [sys.executable, "-P", "-c", PROGRAM, str(place / folder)]
    return ["-n", "1", "env", f"PYTHONPATH={paths}", *start, *words]


def run(place: Path, start: Start | None) -> tuple[int, str, float]:
    """Start two ranks; returns exit code, output and seconds."""
    start = start or Start("", ())
    words = [*(start.command or TRAIN), *start.words]
    first = command(place, TRAIN)
    second = command(place, words, start.folder, start.path)
    began = time.monotonic()
    job = [str(MPIEXEC), *first, ":", *second]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(job, stdout=out, stderr=out, env={**os.environ, **ENVIRONMENT})
        try:
            code = process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            process.terminate()  # mpiexec ends the ranks
            code = 124
        out.seek(0)
        return code, out.read(), time.monotonic() - began


def files(place: Path) -> dict[str, bytes | None]:
    """All files but those that Python and Numba cache beside modules."""
    return {name: content for name, content in snapshot(place).items() if "__pycache__" not in name}


def main() -> int:
    count = full_or(small=1, full=10**6)
    report = Report()
    if not (MPIEXEC and find_spec("mpi4py")):
        print("skipped: there is no mpiexec, or no mpi4py (pip install '.[distributed]')")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        prepare(place)
        recipe = load_recipe(str(place / "mine.toml"))
        code, out, equal = run(place, None)
        report.add("equal", f"exit code {code}", "" if code == 0 else out[-1000:])
        shutil.rmtree(place / "run", ignore_errors=True)
        known = starts(recipe)
        for start in known[:count] if count < 10 else spread(known, count):
            before = files(place)
            code, out, seconds = run(place, start)
            errors = [line for line in out.splitlines() if "error: " in line]
            failure = "a hang" if code == 124 or seconds > equal + LATE else ""
            failure = failure or ("a traceback" if "Traceback" in out else "")
            failure = failure or ("they trained" if code == 0 else "")
            failure = failure or ("" if all(word in out for word in start.says) else "another message")
            failure = failure or ("" if len(errors) == 1 else f"{len(errors)} messages")
            failure = failure or ("" if files(place) == before else "something was written")
            report.add(
                "unequal", failure or "one message", failure and f"{start.name}: {failure}: {out[:800]}"
            )
            shutil.rmtree(place / "run", ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
