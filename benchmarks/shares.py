"""The fractions of a run that validations, checkpoints and the log take, with the settings of its recipe.

`minitransformer train` runs for a few logged steps, with two validations and checkpoints, the second of which
counts. The recipe's frequencies then give the fractions of the whole run; a checkpoint at the step of a
validation belongs to the validation, which may have found the best model.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from minitransformer.cli import main, train
from minitransformer.recipes import load_recipe
from minitransformer.training.log import Log
from minitransformer.training.schedules import resolve
from minitransformer.training.trainer import Trainer

from .cards import NotTrainedError, command
from .children import in_child
from .measuring import CLOCKS
from .tables import Table

STEPS = 12
RECIPES = (
    "phrasebook", "multi30k-en-de", "reverse", "addition", "summarize", "dialogue", "seq2seq-attention",
    "t5-denoise", "t5-prefixes", "bart-infill", "shakespeare-char-cpu", "llama-char", "lstm-char",
    "bert-mlm", "bert-classify", "bert-tag", "bert-answers", "bert-similar", "brackets", "digits-vit",
)  # fmt: skip


class Finished(Exception):
    """Raised after the steps, so that nothing is evaluated."""


def seconds_of(words: list[str], clock: str) -> dict[str, float]:
    """The seconds of a step, a log line, a validation and a checkpoint, and the number of each."""
    seconds: dict[str, list[float]] = {"train_step": [], "validate": [], "save": [], "advance": []}
    planned: dict[str, int] = {}

    def timed(name: str) -> Callable[..., Any]:
        method = getattr(Trainer, name)

        def call(self: Trainer, *args: Any, **options: Any) -> Any:
            start = CLOCKS[clock]()
            result = method(self, *args, **options)
            seconds[name].append(CLOCKS[clock]() - start)
            return result

        return call

    class Timed(Trainer):
        train_step = timed("train_step")
        validate = timed("validate")
        save = timed("save")

        def train(self) -> bool:
            config = resolve(load_recipe(words[0]).training, self.model, self.task)
            planned.update(counts(config))
            super().train()
            raise Finished

        def advance(self, log: Log, show: Any) -> None:
            start = CLOCKS[clock]()
            super().advance(log, show)
            seconds["advance"].append(CLOCKS[clock]() - start)

    train.Trainer = Timed  # type: ignore[misc]
    every = [f"--{name}-every={STEPS // 2}" for name in ("validate", "checkpoint")]
    flags = ["--epochs=0", f"--steps={STEPS}", "--log-every=1", *every]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as messages:
        try:
            main(["train", *words, *flags, "--run-dir", str(Path(folder) / "run")])
        except Finished:
            pass
        else:
            raise NotTrainedError(messages.getvalue())
    plain = [n for n in range(2, STEPS) if (n + 1) % (STEPS // 2)]  # steps that are only logged
    step = mean(seconds["train_step"][n] for n in plain)
    return {
        "step": step,
        "log": mean(seconds["advance"][n] for n in plain) - step,
        "validation": seconds["validate"][-1],  # with a checkpoint, if it is the best
        "checkpoint": max(seconds["save"]),
        **planned,
    }


def counts(config: Any) -> dict[str, int]:
    """How often a run with these settings does each of the timed things."""
    due = lambda every: {n for n in range(1, config.steps + 1) if n % every == 0 or n == config.steps}
    validations = due(config.validate_every)
    return {
        "steps": config.steps,
        "logs": len(due(config.log_every)),
        "validations": len(validations) + (config.monitor != "loss"),  # one before the first step
        "checkpoints": len(due(config.checkpoint_every) - validations),
    }


def row_of(found: dict[str, float]) -> dict[str, Any]:
    """A row of the table."""
    training = found["steps"] * found["step"]
    checks = found["validations"] * (found["validation"]) + found["checkpoints"] * found["checkpoint"]
    logs = found["logs"] * found["log"]
    return {
        "ms of a step": found["step"] * 1e3,
        "of a validation": found["validation"] * 1e3,
        "of a checkpoint": found["checkpoint"] * 1e3,
        "of a log line": found["log"] * 1e3,
        "steps": int(found["steps"]),
        "validations": int(found["validations"]),
        "share of the run (limit 5%)": f"{(checks + logs) / (training + checks + logs):.1%}",
    }


def shares(
    recipes: Sequence[str] = RECIPES,
    data_dir: Path | None = None,
    clock: str = "wall",
    kernels: str | None = None,
) -> Table:
    """The fraction of each recipe's run that is not training."""
    table = Table("validations, checkpoints and the log of a run, as the recipes have them")
    for name in recipes:
        found = in_child("shares", "seconds_of", command(name, data_dir), clock, kernels=kernels)
        table.rows[name] = row_of(found)
    return table
