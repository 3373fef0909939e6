"""A recipe's training from its data to its scores, the step as it is and captured: wall time and results.

Each is `minitransformer train` in a process of its own. Captured steps compute the same numbers, so that both
runs must have the same log.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from minitransformer.cli import main
from minitransformer.files import read_json
from minitransformer.recipes import load_recipe
from minitransformer.training.log import read_log

from .cards import NotTrainedError, command
from .children import in_child
from .comparison import DifferentWorkError
from .measuring import CLOCKS
from .tables import Table

RECIPES = ("phrasebook", "shakespeare-char-cpu")
WAYS = {"not captured": ["--no-capture"], "captured": ["--capture"]}


def whole(words: list[str], clock: str) -> dict[str, Any]:
    """The seconds of a training, the losses that it logged, and its scores."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as output:
        run, start = Path(folder) / "run", CLOCKS[clock]()
        with contextlib.redirect_stderr(output):
            code = main(["train", *words, "--run-dir", str(run)])
        seconds = CLOCKS[clock]() - start
        if code:
            raise NotTrainedError(output.getvalue())
        losses = [record["loss"] for record in read_log(run / "log.jsonl") if "loss" in record]
        scores = read_json(run / "metrics.json")
    expected = load_recipe(words[0]).expect[""]
    results = {"losses": losses, "scores": {name: scores[name] for name in expected}}
    return {"seconds": seconds, "results": results}


def runs(
    recipes: Sequence[str] = RECIPES,
    data_dir: Path | None = None,
    threads: Sequence[int] = (1,),
    clock: str = "wall",
    kernels: str | None = None,
) -> Iterator[Table]:
    """A table for each number of threads, a row for each recipe."""
    for number in threads:
        table = Table(f"a whole training, {number} thread{'s' if number > 1 else ''}: seconds")
        for case in recipes:
            words = command(case, data_dir)
            row: dict[str, Any] = {}
            results = {}
            for way, flags in WAYS.items():
                found = in_child("runs", "whole", [*words, *flags], clock, threads=number, kernels=kernels)
                row[way] = found["seconds"]
                results[way] = found["results"]
            if results["captured"] != results["not captured"]:
                raise DifferentWorkError(f"{case}: captured, losses or scores differ.\nFind what differs.")
            scores = results["captured"]["scores"].items()
            row["ratio"] = row["captured"] / row["not captured"]
            table.rows[case] = row | {"scores": ", ".join(f"{name} {score:.3f}" for name, score in scores)}
        yield table
