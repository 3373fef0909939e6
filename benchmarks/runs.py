"""A recipe's training from its data to its scores: wall time and results.

Each is `minitransformer train` in its own process.
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

from .cards import NotTrainedError, command
from .children import in_child
from .measuring import CLOCKS
from .tables import Table

RECIPES = ("phrasebook", "shakespeare-char-cpu")


def run_recipe(words: list[str], clock: str) -> dict[str, Any]:
    """The seconds of a run, and its scores."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as output:
        run = Path(folder) / "run"
        start = CLOCKS[clock]()
        with contextlib.redirect_stderr(output):
            code = main(["train", *words, "--run-dir", str(run)])
        seconds = CLOCKS[clock]() - start
        if code:
            raise NotTrainedError(output.getvalue())
        scores = read_json(run / "metrics.json")
    expected = load_recipe(words[0]).expect[""]
    return {"seconds": seconds, "scores": {name: scores[name] for name in expected}}


def runs(
    recipes: Sequence[str] = RECIPES,
    data_dir: Path | None = None,
    threads: Sequence[int] = (1,),
    clock: str = "wall",
    kernels: str | None = None,
) -> Iterator[Table]:
    """A table for each number of threads, a row for each recipe."""
    for number in threads:
        table = Table(f"a whole training, {number} thread{'s' if number > 1 else ''}")
        for case in recipes:
            words = command(case, data_dir)
            found = in_child("runs", "run_recipe", words, clock, threads=number, kernels=kernels)
            scores = ", ".join(f"{name} {score:.3f}" for name, score in found["scores"].items())
            table.rows[case] = {"seconds": found["seconds"], "scores": scores}
        yield table
