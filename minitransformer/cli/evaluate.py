"""`minitransformer evaluate RUN`: how good a run is on its held-out data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from minigrad import no_grad
from minigrad.io import write_atomically

from ..recipes import LanguageRecipe
from ..training.metrics import translation_scores
from ..training.run import Run, build_task, load_splits, read_config, write_json
from ..training.tasks import Translation
from .translate import translations

LABELS = {
    "exact_match": "exact match",
    "token_accuracy": "token accuracy (teacher forced)",
    "bleu": "BLEU (sacreBLEU, cased raw text)",
    "bleu_signature": "sacreBLEU signature",
    "bleu_lc_tok": "BLEU, lowercased",
    "chrf": "chrF",
    "loss": "loss, nats per token",
    "perplexity": "perplexity",
    "bits_per_char": "bits per token",
    "n": "sentences, or tokens",
    "split": "split",
    "decoding": "decoding",
}


def run(argv: list[str]) -> None:
    def evaluate_run(
        run: tyro.conf.Positional[Path],
        json: bool = False,
        data: Path | None = None,
        data_dir: Path | None = None,
        checkpoint: str = "best",
    ) -> None:
        """Score a run on data that it was not trained on.

        Args:
            run: The run folder.
            json: Print one JSON object instead of a table.
            data: The file that the run was trained on, if it was one of your own.
            data_dir: The folder of a public data set, instead of fetching it.
            checkpoint: Which one to score, best or last.
        """
        opened = Run(run, checkpoint)
        scores = evaluate(opened, load_splits(read_config(run), data, data_dir))
        write_json(run / "metrics.json", scores)
        if json:
            print_json(scores)
        else:
            report(scores, Console())

    tyro.cli(evaluate_run, args=argv, prog="minitransformer evaluate")


def print_json(scores: Mapping[str, Any]) -> None:
    print(json.dumps(scores, ensure_ascii=False))


@no_grad()
def evaluate(run: Run, splits: Mapping[str, Any]) -> dict[str, Any]:
    """Scores on the test split (a language model's validation split), and `predictions.txt` beside them."""
    task, _ = build_task(run.recipe, run.tokenizer, splits)
    if isinstance(run.recipe, LanguageRecipe):
        scores = task.validate(run.model)
        tokens = len(task.validation) - 1  # type: ignore[attr-defined]
        return {**scores, "perplexity": math.exp(scores["loss"]), "n": tokens, "split": "validation"}
    assert isinstance(task, Translation)
    pairs = splits["test"]
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    hypotheses = translations(run, sources)
    lines = [
        "source\treference\tprediction",
        *("\t".join(row) for row in zip(sources, references, hypotheses, strict=True)),
    ]
    write_atomically(run.folder / "predictions.txt", ("\n".join(lines) + "\n").encode())
    taught = task.score(run.model, task._ids(pairs))
    return {
        **translation_scores(hypotheses, references),
        **taught,
        "perplexity": math.exp(taught["loss"]),
        "n": len(pairs),
        "split": "test",
        "decoding": "greedy",
    }


def report(scores: Mapping[str, Any], console: Console) -> None:
    """The scores as a table."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for key, value in scores.items():
        shown = (
            f"{value:.2%}"
            if key in ("exact_match", "token_accuracy")
            else f"{value:.4g}"
            if isinstance(value, float)
            else str(value)
        )
        table.add_row(LABELS[key], shown)
    console.print(table)
