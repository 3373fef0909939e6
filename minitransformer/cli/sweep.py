"""`minitransformer sweep RECIPE --lr 1e-3 3e-3 --seed 0 1 2 --run-dir DIR`: a run for each combination.

A separate process trains each run, in a subfolder of DIR. Under mpiexec, the ranks share the runs.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from ..errors import UserError
from ..files import COMMAND, read_json
from ..models.protocol import model_class
from ..runs.folder import read_config, read_record
from ..runs.run import is_finished
from ..tasks import Metric, Task, task_class
from ..training.log import read_log
from ..training.ranks import join
from .layout import columns, print_lines
from .recipe_flags import missing_recipe
from .subprocesses import run_python
from .train import read_command

USAGE = "usage: minitransformer sweep RECIPE|file.toml --FLAG VALUE... --run-dir DIR   (flags of `train`)"
HELP = f"""{USAGE}

Train a run for each combination of the flags that have several values, and print a table:

  minitransformer sweep reverse --lr 1e-3 3e-3 --seed 0 1 2 --run-dir runs/lr   # six runs

Run it again to continue where it stopped. Under mpiexec the ranks divide the runs."""
LAUNCHER = re.compile(r"(PMI|PMIX|OMPI|MPI|HYDRA|SLURM)")  # variables of mpiexec, which the runs must not see
PAIRS = ("--betas",)  # flags with two values
VALIDATION_LOSS = Metric("validation loss")


@dataclass(frozen=True)
class SweepRun:
    """A run of the sweep: its values of the settings that vary, its `train` arguments, and its folder."""

    settings: dict[str, str]
    words: list[str]
    folder: Path


def run(argv: list[str]) -> None:
    if not argv or argv[0].startswith("-") or {"-h", "--help"} & set(argv):
        is_help = bool({"-h", "--help"} & set(argv))
        print(HELP if is_help else USAGE, file=sys.stdout if is_help else sys.stderr)
        if argv and not is_help:
            print(missing_recipe(argv[0]), file=sys.stderr)
        raise SystemExit(0 if is_help else 2)
    ranks = join()
    plan = plan_runs(argv)
    tasks = [check(one) for one in plan]  # before any of them is trained
    task = tasks[0]
    for number, one in enumerate(plan):
        if number % ranks.size == ranks.rank and train(one, f"run {number + 1} of {len(plan)}") == 1:
            ranks.abort(1)  # Ctrl-C or a bug: the other runs would fail too
            raise SystemExit(1)
    ranks.barrier()
    if ranks.rank == 0:
        report(plan, task)
        if not any(results(one.folder, task) for one in plan):
            raise SystemExit(1)


def plan_runs(argv: Sequence[str]) -> list[SweepRun]:
    """Return the runs of a command line, one for each combination of the flags that have several values."""
    recipe, *rest = argv
    flags: dict[str, list[str]] = {}
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            name = name.replace("_", "-")
            if name in flags:
                raise UserError(f"{name} is passed twice.\nPass all values after one flag.")
            flags[name] = [value] if equals else []
        elif flags:
            flags[list(flags)[-1]].append(word)
        else:
            raise UserError(f"expected a flag, got {word!r}.\n{USAGE}")
    parent = flags.pop("--run-dir", [])
    if len(parent) != 1:
        raise UserError("a sweep needs a folder for its runs.\nPass --run-dir DIR.")
    for name in ("--resume", "--overwrite"):
        if name in flags:
            raise UserError(
                f"a sweep does not take {name}: run again, it continues where it stopped.\nLeave it out."
            )
    axes = {name: values for name, values in flags.items() if len(values) > 1 and name not in PAIRS}
    fixed = [word for name, values in flags.items() if name not in axes for word in (name, *values)]
    plan = []
    for values in itertools.product(*axes.values()):
        settings = dict(zip((name[2:] for name in axes), values, strict=True))
        name = ",".join(f"{key}={value}" for key, value in settings.items()) or "run"
        folder = Path(parent[0]) / re.sub(r"[^\w.=,+-]", "-", name)
        chosen = [word for key, value in settings.items() for word in (f"--{key}", value)]
        plan.append(SweepRun(settings, [recipe, *fixed, *chosen], folder))
    if len({one.folder for one in plan}) < len(plan):
        raise UserError("two runs of the sweep are the same.\nPass each value once.")
    return plan


def check(one: SweepRun) -> type[Task]:
    """Return the task of a run. Raise a UserError for invalid flags, or if its folder has other settings."""
    training = read_command([*one.words, f"--run-dir={one.folder}"])
    recipe, options = training.recipe, training.options
    task = task_class(recipe.task)
    for name, known in ((recipe.task, task), (recipe.model_type, model_class(recipe.model_type))):
        if len(COMMAND) == 1 and not known.__module__.startswith("minitransformer."):
            raise UserError(
                f"each run of a sweep is a process of its own, which would not know {name!r}.\n"
                f"End the program that registers it with sys.exit(main()), and pass it `sweep ...`."
            )
    record = read_record(one.folder) if one.folder.exists() else None
    if record is None or not record.begun:
        return task
    before = read_config(one.folder, record)
    if options.init_from is not None and hasattr(recipe.data, "tokenizer"):  # its run has the tokenizer
        recipe = replace(recipe, data=replace(recipe.data, tokenizer=before.data.tokenizer))
    same = ("data", "model", "training", "model_type")
    if any(getattr(before, part) != getattr(recipe, part) for part in same):
        raise UserError(
            f"{one.folder} contains a run with other settings.\n"
            f"Choose another --run-dir, or delete that folder."
        )
    return task


def train(one: SweepRun, title: str) -> int:
    """Train a run, or resume it, unless it is finished. Return the exit code."""
    if is_finished(one.folder):
        print(f"{title}: {one.folder} is already finished, skipped", file=sys.stderr)
        return 0
    print(f"{title}: {one.folder}", file=sys.stderr, flush=True)
    resume = ["--resume"] if one.folder.exists() else []
    program = COMMAND[1:] or ["-m", "minitransformer"]
    command = [*program, "train", *one.words, f"--run-dir={one.folder}", *resume]
    environment = {name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}
    return run_python(command, environment, subprocess.DEVNULL)


def report(plan: Sequence[SweepRun], task: type[Task]) -> None:
    """Print a table of the runs, the lowest validation loss first, and a table of means over seeds."""
    found = [(one.settings, results(one.folder, task)) for one in plan]
    names = list(dict.fromkeys(["val_loss", *(name for _, result in found for name in result)]))[:3]
    metrics = {name: VALIDATION_LOSS if name == "val_loss" else task.metric(name) for name in names}
    axes = list(plan[0].settings)
    found.sort(key=lambda row: row[1].get("val_loss", float("inf")))
    rows = [[*settings.values(), *format_cells(result, metrics)] for settings, result in found]
    titles = [metric.short_label for metric in metrics.values()]
    print_lines(columns([[*axes, *titles], *rows]))
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
            rows.append([*key, str(len(results_of)), *format_cells(means, metrics)])
        others = [axis for axis in axes if axis != "seed"]
        print_lines(columns([[*others, "seeds", *(f"mean {title}" for title in titles)], *rows]))


def results(folder: Path, task: type[Task]) -> dict[str, float]:
    """The lowest validation loss and the test scores of a run; empty if it is not finished."""
    if not is_finished(folder):
        return {}
    losses = [entry["val_loss"] for entry in read_log(folder / "log.jsonl") if entry.get("val_loss")]
    scores = read_json(folder / "metrics.json", {})
    known = task.known_metrics().keys() - {"loss"}
    kept = {name: value for name, value in scores.items() if name in known and isinstance(value, float)}
    return {**({"val_loss": min(losses)} if losses else {}), **kept}


def format_cells(result: Mapping[str, float], metrics: Mapping[str, Metric]) -> list[str]:
    """The cells of a run's results; the first one is "failed" if there are none."""
    if not result:
        return ["failed", *("" for _ in range(len(metrics) - 1))]
    return [metric.text(result[name]) if name in result else "" for name, metric in metrics.items()]
