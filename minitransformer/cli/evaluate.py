"""`minitransformer evaluate RUN`: scores on held-out data."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tyro
from rich.console import Console
from rich.table import Column, Table

from minigrad.io import write_atomically

from ..files import to_json, write_json
from ..recipes import TranslationRecipe
from ..training.metrics import translation_scores
from ..training.run import Run, build_task, check_same_data, filter_by_length, load_splits
from ..training.tasks import LanguageModelling, Translation
from .arguments import Checkpoint, DataFile, DataFolder, Device, Flag, RunFolder
from .translate import translations

LABELS = {
    "exact_match": "exact match",
    "token_accuracy": "token accuracy (teacher forcing)",
    "bleu": "BLEU (sacreBLEU, cased raw text)",
    "bleu_signature": "sacreBLEU signature",
    "bleu_lc_tok": "BLEU, lowercased",
    "chrf": "chrF",
    "loss": "loss, nats per token",
    "perplexity": "perplexity",
    "bits_per_char": "bits per character",
    "n": "sentences, or tokens",
    "split": "split",
    "decoding": "decoding",
}


def run(argv: list[str]) -> None:
    def evaluate_run(
        run: RunFolder,
        json: Flag = False,
        data: DataFile = None,
        data_dir: DataFolder = None,
        checkpoint: Checkpoint = "best",
        device: Device = "cpu",
    ) -> None:
        """Score a run on data that it was not trained on.

        Args:
            json: Print one JSON object instead of a table.
        """
        trained = Run(run, checkpoint, device)
        splits = load_splits(trained.recipe, data, data_dir)
        check_same_data(run, trained.recipe, splits)
        scores = evaluate(trained, splits)
        if json:
            print(to_json(scores))
        else:
            report(scores, Console())

    tyro.cli(evaluate_run, args=argv, prog="minitransformer evaluate")


def evaluate(run: Run, splits: Mapping[str, Any]) -> dict[str, Any]:
    """Scores on the test split (for a language model the validation split), also in `metrics.json`."""
    task = build_task(run.recipe, run.tokenizer, splits)
    scores = (
        _score_text(run, task)
        if isinstance(task, LanguageModelling)
        else _score_pairs(run, task, splits["test"])
    )
    scores["perplexity"] = math.exp(scores["loss"]) if scores["loss"] < 700 else math.inf
    write_json(run.folder / "metrics.json", scores)
    return scores


def _score_text(run: Run, task: LanguageModelling) -> dict[str, Any]:
    return {**task.validate(run.model), "n": len(task.validation) - 1, "split": "validation"}


def _score_pairs(run: Run, task: Translation, test: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Scores of greedy translations (written to `predictions.txt`) and of the model with teacher forcing."""
    assert isinstance(run.recipe, TranslationRecipe)
    limit = run.recipe.data.max_length
    pairs = filter_by_length(test, run.tokenizer, limit)
    if len(pairs) < len(test):
        left_out = len(test) - len(pairs)
        print(f"warning: left out {left_out} test pairs of {limit} tokens or more", file=sys.stderr)
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    hypotheses = translations(run, sources)
    rows = [("source", "reference", "prediction"), *zip(sources, references, hypotheses, strict=True)]
    write_atomically(run.folder / "predictions.txt", "".join("\t".join(row) + "\n" for row in rows).encode())
    scores = {**translation_scores(hypotheses, references), **task.score(run.model, task.ids(pairs))}
    return {**scores, "n": len(pairs), "split": "test", "decoding": "greedy"}


def report(scores: Mapping[str, Any], console: Console) -> None:
    """The scores as a table."""
    table = Table("", Column(overflow="fold"), show_header=False, box=None, padding=(0, 2, 0, 0))
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
