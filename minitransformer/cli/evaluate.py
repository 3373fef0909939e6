"""`minitransformer evaluate RUN`: scores on held-out data."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tyro

from minigrad.io import write_atomically

from ..data.splits import filter_by_length, read_test
from ..errors import UserError
from ..files import printable, read_bytes, sha256, to_json
from ..recipes import LanguageRecipe, TranslationRecipe
from ..training.metrics import translation_scores
from ..training.run import Run
from ..training.tasks import Translation, score_text
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
        """Score a run on data that it was not trained on: its own test split, or the file of --data.

        Args:
            json: Print one JSON object instead of a table.
        """
        trained = Run(run, checkpoint, device)
        splits, own = splits_of(trained, data, data_dir)
        scores = evaluate(trained, splits, save=own and checkpoint == "best")
        if not own and data is not None:
            scores["split"] = printable(data.name)
        if json:
            print(to_json(scores))
        else:
            report(scores)

    tyro.cli(evaluate_run, args=argv, prog="minitransformer evaluate")


def splits_of(run: Run, data: Path | None, data_dir: Path | None) -> tuple[Mapping[str, Any], bool]:
    """The run's splits, and True; or all of a file that is not its own as the test split, and False."""
    if data is None or _is_own(run, data):
        return run.splits(data, data_dir), True
    test = read_test(run.recipe, data)
    try:
        train = run.splits(None, data_dir)["train"]
    except (UserError, OSError) as error:
        problem = printable(str(error).splitlines()[0])
        print(f"warning: whether {printable(data)} was trained on is not known: {problem}", file=sys.stderr)
    else:
        seen = set(train) if isinstance(test, list) else set()
        if known := sum(pair in seen for pair in test):
            print(f"warning: {known} of {len(test)} pairs are in the training data", file=sys.stderr)
    return {"test": test}, False


def _is_own(run: Run, data: Path) -> bool:
    """Whether the file is the one that the run was trained on."""
    if run.record.data:
        return sha256(read_bytes(data)) == run.record.data.get("sha256")
    with suppress(UserError):  # of a run of an older version: whether it has the same splits
        return bool(run.splits(data))
    return False


def evaluate(run: Run, splits: Mapping[str, Any], save: bool = True) -> dict[str, Any]:
    """Scores on the test split (of a language model without one: the validation split).

    With `save`, they are written to `metrics.json`, and translations to `predictions.txt`.
    """
    files: dict[str, bytes] = {}
    if isinstance(run.recipe, TranslationRecipe):
        scores = _score_pairs(run, splits["test"], files)
    else:
        split = "test" if "test" in splits else "validation"
        scores = {**_score_text(run, splits[split]), "split": split}
    scores["perplexity"] = math.exp(scores["loss"]) if scores["loss"] < 700 else math.inf
    files["metrics.json"] = (to_json(scores, indent=1) + "\n").encode()
    for name, content in files.items() if save else ():
        try:
            write_atomically(run.folder / name, content)
        except OSError as error:  # a run that cannot be written to can be scored
            problem = f"cannot write {run.folder / name}: {error.strerror}"
            print(printable(f"warning: {problem}; the scores are printed only"), file=sys.stderr)
    return scores


def _score_text(run: Run, text: str) -> dict[str, Any]:
    assert isinstance(run.recipe, LanguageRecipe)
    data = run.recipe.data
    ids = run.tokenizer.encode_array(text)
    return {**score_text(run.model, run.tokenizer, ids, data.block_size, data.batch_size), "n": len(ids) - 1}


def _score_pairs(run: Run, test: Sequence[tuple[str, str]], files: dict[str, bytes]) -> dict[str, Any]:
    """Scores of greedy translations (for `predictions.txt`) and of the model with teacher forcing."""
    assert isinstance(run.recipe, TranslationRecipe)
    data = run.recipe.data
    pairs = filter_by_length(test, run.tokenizer, data.max_length)
    if len(pairs) < len(test):
        left_out = len(test) - len(pairs)
        print(f"warning: left out {left_out} test pairs of {data.max_length} tokens or more", file=sys.stderr)
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    hypotheses = translations(run, sources)
    rows = [("source", "reference", "prediction"), *zip(sources, references, hypotheses, strict=True)]
    lines = ["\t".join(cell.replace("\t", "\\t").replace("\n", "\\n") for cell in row) for row in rows]
    files["predictions.txt"] = ("\n".join(lines) + "\n").encode()
    task = Translation(run.tokenizer, pairs, [], data.max_tokens, run.recipe.training.seed)
    scores = {**translation_scores(hypotheses, references), **task.score(run.model, task.train)}
    return {**scores, "n": len(pairs), "split": "test", "decoding": "greedy"}


def report(scores: Mapping[str, Any]) -> None:
    """Print the scores, one per line."""
    for key, value in scores.items():
        shown = (
            f"{value:.2%}"
            if key in ("exact_match", "token_accuracy")
            else f"{value:.4g}"
            if isinstance(value, float)
            else str(value)
        )
        print(f"{LABELS[key]:<33} {shown}")
