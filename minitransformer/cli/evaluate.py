"""`minitransformer evaluate RUN`: scores on held-out data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import arg

from minigrad.io import write_atomically

from ..data.splits import example_line
from ..errors import UserError
from ..files import printable, read_bytes, sha256, to_json
from ..recipes.expectations import compare, condition
from ..tasks import Task
from ..training.readme import write_readme
from ..training.run import Run
from .arguments import Checkpoint, DataFile, DataFolder, Device, Flag, RunFolder
from .decoding import Search

LABELS = {
    "exact_match": "exact match",
    "token_accuracy": "token accuracy (teacher forcing)",
    "bleu": "BLEU (sacreBLEU, cased raw text)",
    "bleu_signature": "sacreBLEU signature",
    "bleu_lc_tok": "BLEU, lowercased",
    "chrf": "chrF",
    "loss": "loss, nats",
    "perplexity": "perplexity",
    "bits_per_char": "bits per character",
    "accuracy": "accuracy",
    "f1": "F1",
    "split": "split",
    "decoding": "decoding",
}
SHARES = ("accuracy", "exact_match", "f1", "token_accuracy")  # printed as percentages


def run(argv: list[str]) -> None:
    def evaluate_run(
        run: RunFolder,
        json: Flag = False,
        data: DataFile = None,
        data_dir: DataFolder = None,
        search: Annotated[Search, arg(name="")] = Search(),  # noqa: B008 (frozen)
        checkpoint: Checkpoint = "best",
        device: Device = "cpu",
    ) -> None:
        """Score a run on data that it was not trained on: its own test split, or the file of --data.

        Args:
            json: Print one JSON object instead of a table.
        """
        decoding = search.options()
        trained = Run(run, checkpoint, device)
        check_generates(trained, decoding)
        splits, own = splits_of(trained, data, data_dir)
        scores = evaluate(trained, splits, save=own and checkpoint == "best", **decoding)
        if not own and data is not None:
            scores["split"] = printable(data.name)
        if json:
            print(to_json(scores))
        else:
            report(scores, trained.task)
        for line in promised(trained, scores, checkpoint) if own else ():
            print(line, file=sys.stderr if json else sys.stdout)
        if own:
            with suppress(OSError):  # a run that cannot be written to can be scored
                write_readme(run)

    tyro.cli(evaluate_run, args=argv, prog="minitransformer evaluate")


def check_generates(run: Run, decoding: Mapping[str, Any]) -> None:
    """Raise a UserError for options of decoding if the run's scores are not of generated texts."""
    if decoding and run.task.verb != "translate":
        flag = f"--{next(iter(decoding)).replace('_', '-')}"
        raise UserError(
            f"{flag} has no effect: {run.folder} is scored without generating texts.\nLeave it out."
        )


def splits_of(run: Run, data: Path | None, data_dir: Path | None) -> tuple[Mapping[str, Any], bool]:
    """The run's splits, and True; or all of a file that is not its own as the test split, and False."""
    if data is None or _is_own(run, data):
        return run.splits(data, data_dir), True
    test = run.task.read_test_file(run, data)
    try:
        train = run.splits(None, data_dir)["train"]
    except (UserError, OSError) as error:
        problem = printable(str(error).splitlines()[0])
        print(f"warning: whether {printable(data)} was trained on is not known: {problem}", file=sys.stderr)
    else:
        seen = set(map(example_line, train)) if isinstance(test, list) else set()
        if seen and (known := sum(example_line(example) in seen for example in test)):
            print(
                f"warning: {known} of {len(test)} {run.task.unit} are in the training data", file=sys.stderr
            )
    return {"test": test}, False


def _is_own(run: Run, data: Path) -> bool:
    """Whether the file is the one that the run was trained on."""
    if run.record.data:
        return sha256(read_bytes(data)) == run.record.data.get("sha256")
    with suppress(UserError):  # of a run of an older version: whether it has the same splits
        return bool(run.splits(data))
    return False


def evaluate(run: Run, splits: Mapping[str, Any], save: bool = True, **decoding: Any) -> dict[str, Any]:
    """Scores on the test split, or of data without one on the validation split.

    With `save`, they are written to `metrics.json`, and predictions to `predictions.txt`. `decoding` are
    arguments of `generate`.
    """
    files: dict[str, bytes] = {}
    split = "test" if "test" in splits else "validation"
    scores, rows = run.task.evaluate(run, splits[split], **decoding)
    scores |= {"split": split}
    if run.task.verb == "translate":
        scores["decoding"] = describe_decoding(decoding)
    if rows:
        lines = ["\t".join(cell.replace("\t", "\\t").replace("\n", "\\n") for cell in row) for row in rows]
        files["predictions.txt"] = ("\n".join(lines) + "\n").encode()
    files["metrics.json"] = (to_json(scores, indent=1) + "\n").encode()
    for name, content in files.items() if save else ():
        try:
            write_atomically(run.folder / name, content)
        except OSError as error:  # a run that cannot be written to can be scored
            problem = f"cannot write {run.folder / name}: {error.strerror}"
            print(printable(f"warning: {problem}; the scores are printed only"), file=sys.stderr)
    return scores


def promised(run: Run, scores: Mapping[str, Any], checkpoint: str = "best") -> list[str]:
    """Whether the scores of the run's own test split are those that its recipe states; a line for each."""
    how = condition(run.record.init_from, checkpoint, scores.get("decoding", "greedy"))
    return compare(run.recipe.expect.get(how, {}), scores)


def describe_decoding(decoding: Mapping[str, Any]) -> str:
    """How texts were generated: "greedy", or "num_beams=4, length_penalty=0.6"."""
    return ", ".join(f"{name}={value}" for name, value in decoding.items()) or "greedy"


def report(scores: Mapping[str, Any], task: type[Task]) -> None:
    """Print the scores, one per line."""
    labels = {**LABELS, "n": task.unit, **task.metrics}
    for key, value in scores.items():
        shown = (
            f"{value:.2%}"
            if key.partition(",")[0] in SHARES
            else f"{value:.4g}"
            if isinstance(value, float)
            else str(value)
        )
        print(f"{labels.get(key, key.replace('_', ' ')):<33} {shown}")
