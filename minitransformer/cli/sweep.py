"""`minitransformer sweep RECIPE --lr 1e-3 3e-3 --seed 0 1 2 --run-dir DIR`: a run for each combination.

Each run is a `train` of its own, in a folder of DIR. Under mpiexec each process takes its share of the runs.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from ..errors import UserError
from ..files import printable, read_json
from ..training.folder import read_config, read_record
from ..training.log import read_log
from ..training.ranks import join
from .evaluate import LABELS, print_columns, show_score
from .train import read_command

USAGE = "usage: minitransformer sweep RECIPE|file.toml --FLAG VALUE... --run-dir DIR   (flags of `train`)"
HELP = f"""{USAGE}

Train a run for each combination of the flags that have several values, and print a table:

  minitransformer sweep reverse --lr 1e-3 3e-3 --seed 0 1 2 --run-dir runs/lr   # six runs

Repeated, it goes on where it stopped. Under mpiexec each process trains its share of the runs."""
LAUNCHER = re.compile(r"(PMI|PMIX|OMPI|MPI|HYDRA|SLURM)")  # variables of mpiexec, not for the runs
PAIRS = ("--betas",)  # one setting of two values
SCORES = ("bleu", "exact_match", "accuracy", "f1", "bits_per_char", "token_accuracy")


@dataclass(frozen=True)
class Planned:
    """A run of the sweep: what distinguishes it, its command and its folder."""

    settings: dict[str, str]
    words: list[str]
    folder: Path


def run(argv: list[str]) -> None:
    if not argv or argv[0].startswith("-") or {"-h", "--help"} & set(argv):
        asked = {"-h", "--help"} & set(argv)
        print(HELP if asked else USAGE, file=sys.stdout if asked else sys.stderr)
        raise SystemExit(0 if asked else 2)
    ranks = join()
    plan = planned(argv)
    for one in plan:
        check(one)
    for number, one in enumerate(plan):
        if number % ranks.size == ranks.rank:
            train(one, f"run {number + 1} of {len(plan)}")
    ranks.barrier()
    if ranks.rank == 0:
        report(plan)
        if not any(results(one.folder) for one in plan):
            raise SystemExit(1)


def planned(argv: Sequence[str]) -> list[Planned]:
    """The runs of a command line: one for each combination of the flags with several values."""
    recipe, *rest = argv
    flags: dict[str, list[str]] = {}
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            name = name.replace("_", "-")
            if name in flags:
                raise UserError(f"{name} is there twice.\nPass all its values after one flag.")
            flags[name] = [value] if equals else []
        elif flags:
            flags[list(flags)[-1]].append(word)
        else:
            raise UserError(f"{word!r} follows no flag.\n{USAGE}")
    parent = flags.pop("--run-dir", [])
    if len(parent) != 1:
        raise UserError("a sweep needs a folder for its runs.\nPass --run-dir DIR.")
    for name in ("--resume", "--overwrite"):
        if name in flags:
            raise UserError(f"a sweep has no {name}: repeated, it goes on where it stopped.\nLeave it out.")
    axes = {name: values for name, values in flags.items() if len(values) > 1 and name not in PAIRS}
    fixed = [word for name, values in flags.items() if name not in axes for word in (name, *values)]
    plan = []
    for values in itertools.product(*axes.values()):
        settings = dict(zip((name[2:] for name in axes), values, strict=True))
        name = ",".join(f"{key}={value}" for key, value in settings.items()) or "run"
        folder = Path(parent[0]) / re.sub(r"[^\w.=,+-]", "-", name)
        chosen = [word for key, value in settings.items() for word in (f"--{key}", value)]
        plan.append(Planned(settings, [recipe, *fixed, *chosen], folder))
    if len({one.folder for one in plan}) < len(plan):
        raise UserError("two runs of the sweep are the same.\nPass each value once.")
    return plan


def check(one: Planned) -> None:
    """Raise a UserError for flags that `train` refuses, or for a folder with a run of other settings."""
    recipe, *_ = read_command([*one.words, "--run-dir", str(one.folder)])
    record = read_record(one.folder) if one.folder.exists() else None
    if record is None or not record.begun:
        return
    before = read_config(one.folder, record)
    same = ("data", "model", "training", "model_type")
    if any(getattr(before, part) != getattr(recipe, part) for part in same):
        raise UserError(
            f"{one.folder} has a run with other settings.\nChoose another --run-dir, or delete that folder."
        )


def train(one: Planned, title: str) -> None:
    """Train one run, unless it is finished; continue it if it was stopped."""
    if (one.folder / "metrics.json").is_file():
        print(printable(f"{title}: {one.folder} is there already"), file=sys.stderr)
        return
    print(printable(f"{title}: {one.folder}"), file=sys.stderr, flush=True)
    resume = ["--resume"] if one.folder.exists() else []
    command = [sys.executable, "-m", "minitransformer", "train", *one.words, "--run-dir", str(one.folder)]
    environment = {name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}
    done = subprocess.run([*command, *resume], env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode == 1:  # Ctrl-C, or a bug: the others would fare the same
        raise SystemExit(1)


def report(plan: Sequence[Planned]) -> None:
    """Print a table of the runs, the best validation loss first, and the means over seeds."""
    found = [(one.settings, results(one.folder)) for one in plan]
    scores = [name for name in SCORES if any(name in result for _, result in found)][:2]
    names = ["val_loss", *scores]
    axes = list(plan[0].settings)
    found.sort(key=lambda row: row[1].get("val_loss", float("inf")))
    rows = [[*settings.values(), *cells(result, names)] for settings, result in found]
    print_columns([header(axes, names), *rows])
    groups: dict[tuple[str, ...], list[dict[str, float]]] = defaultdict(list)
    for settings, result in found:
        if result:
            groups[tuple(value for key, value in settings.items() if key != "seed")].append(result)
    if "seed" in axes:
        print()
        rows = []
        for key, results_of in groups.items():
            known = [name for name in names if all(name in result for result in results_of)]
            means = {name: mean(result[name] for result in results_of) for name in known}
            rows.append([*key, str(len(results_of)), *cells(means, names)])
        others = [axis for axis in axes if axis != "seed"]
        print_columns([header([*others, "seeds"], names, "mean "), *rows])


def results(folder: Path) -> dict[str, float]:
    """The best validation loss of a run and its scores; nothing of one that failed."""
    if not (folder / "metrics.json").is_file():
        return {}
    losses = [record["val_loss"] for record in read_log(folder / "log.jsonl") if record.get("val_loss")]
    scores = read_json(folder / "metrics.json", {})
    kept = {name: value for name in SCORES if isinstance(value := scores.get(name), float)}
    return {**({"val_loss": min(losses)} if losses else {}), **kept}


def header(axes: Sequence[str], names: Sequence[str], of: str = "") -> list[str]:
    """The titles of the columns: settings, and scores as `evaluate` calls them."""
    labels = LABELS | {"val_loss": "validation loss"}
    titles = (labels.get(name, name.replace("_", " ")).partition(" (")[0] for name in names)
    return [*axes, *(of + title for title in titles)]


def cells(result: Mapping[str, float], names: Sequence[str]) -> list[str]:
    """The results as text; a run without any has failed."""
    if not result:
        return ["failed", *("" for _ in names[1:])]
    return [show_score(name, result[name]) if name in result else "" for name in names]
