"""`minitransformer evaluate RUN`: score a run on held-out data."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..data.splits import Splits, example_line
from ..errors import UserError, counted_units
from ..files import one_line, read_bytes, sha256, to_json
from ..recipes.expectations import compare, condition
from ..runs import evaluations
from ..runs.evaluations import About, Evaluation, inputs_sha256, place, weights_sha256
from ..runs.run import Run
from ..tasks import Task
from ..tasks.bootstrap import RESAMPLES
from ..text.words import scored_words
from .decoding import Search
from .layout import FIXED, columns, print_lines, wrap
from .lines import warn_line
from .parsing import parse
from .readme import write_readme
from .wording import wording_of


@dataclass(frozen=True)
class FileOptions:
    """how --data is read"""

    format: str | None = None
    """The format of --data, if it differs from that of the run's data: see docs/your-data.md."""
    header: bool | None = None
    """Whether the first line of --data names its columns: --header or --no-header."""
    columns: str | None = None
    """The columns of --data to read, by name or number, such as 2,1."""
    skip_bad_rows: bool | None = None
    """Leave out rows of --data that cannot be used."""

    def apply_to(self, data: Any) -> Any:
        """Return a run's [data] settings with these options, to read another file."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        unknown = [name for name in known if not hasattr(data, name)]
        if unknown:
            raise UserError(f"--{unknown[0]} has no effect: this run does not read tables.\nLeave it out.")
        return replace(data, **known) if known else data


def run(argv: list[str]) -> None:
    def evaluate_run(
        run: Path,
        *,
        json: bool = False,
        data: Path | None = None,
        data_dir: Path | None = None,
        file: FileOptions = FileOptions(),
        search: Search = Search(),  # noqa: B008 (frozen)
        stride: int | None = None,
        checkpoint: str = "best",
        device: str = "cpu",
    ) -> None:
        """Score a run on data that it was not trained on: its own test split, or the file of --data.

        Args:
            json: Print one JSON object instead of a table.
            stride: For a language model: read the text in windows that move by this many tokens, so that each
                token has a long context; by default, in blocks.
        """
        decoding = search.options()
        trained = Run(run, checkpoint, device)
        check_generates(trained, decoding)
        if stride is not None:
            if not hasattr(trained.task, "generate"):
                raise UserError(f"--stride has no effect: {run} is not a language model.\nLeave it out.")
            decoding["stride"] = stride
        splits, own = splits_of(trained, data, data_dir, file)
        scores = evaluate(trained, splits, save=own, checkpoint=checkpoint, **decoding)
        if not own and data is not None:
            scores["split"] = data.name
        if json:
            print(to_json(scores))
        else:
            report(scores, trained.task)
        for line in compare_with_recipe(trained, scores, checkpoint) if own else ():
            print(one_line(line), file=sys.stderr if json else sys.stdout)
        if own:
            with suppress(OSError):  # the run folder may be read-only
                write_readme(run, trained.record.id)

    parse(evaluate_run, argv, "minitransformer evaluate")


def check_generates(run: Run, decoding: Mapping[str, Any]) -> None:
    """Raise a UserError if decoding options are passed for a run that does not generate texts."""
    if decoding and not hasattr(run.task, "translate"):
        flag = f"--{next(iter(decoding)).replace('_', '-')}"
        raise UserError(
            f"{flag} has no effect: {run.folder} is scored without generating texts.\nLeave it out."
        )


def splits_of(
    run: Run, data: Path | None, data_dir: Path | None, file: FileOptions | None = None
) -> tuple[Mapping[str, Any], bool]:
    """Return the splits to score, and whether they are the run's own.

    The run's own splits are returned if `data` is None or the run's training file. Otherwise, `data` is read
    as a test split, with a warning about examples that are in the training data.
    """
    if data is None or _is_own(run, data):
        return run.splits(data, data_dir), True
    if file is not None and file != FileOptions():
        run = copy(run)
        run.recipe = replace(run.recipe, data=file.apply_to(run.recipe.data))
    test = run.task.read_test_file(run, data)
    warnings = run.task.warnings(run.recipe.data, run.tokenizer, Splits({data.name: test}))
    for note in (*getattr(test, "notes", ()), *warnings):
        print(one_line(note), file=sys.stderr)
    if getattr(run.record, "imported", None):  # its training data is unknown
        return {"test": test}, False
    try:
        train = run.splits(None, data_dir)["train"]
    except (UserError, OSError) as error:
        warn_line(f"unknown whether the run was trained on {data}: {str(error).splitlines()[0]}")
    else:
        seen = set(map(example_line, train)) if isinstance(test, list) else set()
        if seen and (known := sum(example_line(example) in seen for example in test)):
            found = f"{known:,} of {counted_units(len(test), run.task.unit)}"
            is_or_are = "is" if known == 1 else "are"
            print(f"warning: {found} {is_or_are} in the training data", file=sys.stderr)
    return {"test": test}, False


def _is_own(run: Run, data: Path) -> bool:
    """Whether the file has the checksum of the one that the run was trained on."""
    return sha256(read_bytes(data)) == run.record.data.get("sha256")


def evaluate(
    run: Run, splits: Mapping[str, Any], save: bool = True, checkpoint: str = "best", **decoding: Any
) -> dict[str, Any]:
    """Score the test split, or the validation split if there is none. Return the content of metrics.json.

    If `save` is True, scores and predictions are written to the run folder (see runs/evaluations.py).
    `checkpoint` is the name that the run was loaded with; `decoding` has arguments of `generate`.
    """
    evaluation = score(run, splits, **decoding)
    if save:
        write(run, place(run.folder, checkpoint, run.checkpoint.name, decoding), evaluation)
    return evaluation.metrics


def score(run: Run, splits: Mapping[str, Any], file: Path | None = None, **decoding: Any) -> Evaluation:
    """Evaluate the test split, or the validation split if there is none.

    `file` is the file that the split was read from, if it is not the run's data.
    """
    split = "test" if "test" in splits else "validation"
    scores, rows = run.task.evaluate(run, splits[split], **decoding)
    scores |= {"split": split if file is None else file.name}
    if hasattr(run.task, "translate"):
        scores["decoding"] = describe_decoding(decoding)
    about = About(
        run.task.name,
        scores["split"],
        run.checkpoint.name,
        scores.get("decoding", ""),
        weights_sha256(run.model),
        run.record.tokenizer_sha256,
        run.record.data_sha256.get(split, "") if file is None else sha256(read_bytes(file)),
        inputs_sha256(scores, rows),
    )
    texts = rows[1:] if run.tokenizer is not None else []
    return Evaluation(about, scores, rows, [len(scored_words(row[0])) for row in texts])


def write(run: Run, folder: Path, evaluation: Evaluation) -> None:
    """Write the files of an evaluation, or print a warning if that fails."""
    try:
        evaluations.write(run.folder, folder, evaluation, run.record.id)
    except OSError as error:
        problem = f"cannot write {error.filename or folder}: {error.strerror}"
        warn_line(f"{problem}; the scores are only printed")


def compare_with_recipe(run: Run, scores: Mapping[str, Any], checkpoint: str = "best") -> list[str]:
    """Compare scores on the run's own test split with the recipe's expected ranges, one line per score."""
    how = condition(run.record.init_from, checkpoint, scores.get("decoding", "greedy"))
    return compare(run.recipe.expect.get(how, {}), scores)


def describe_decoding(decoding: Mapping[str, Any]) -> str:
    """Format the decoding options: "num_beams=4, length_penalty=0.6", or "greedy" without options."""
    return ", ".join(f"{name}={value}" for name, value in decoding.items()) or "greedy"


# ---------------------------------------------------------------- printing


def report(scores: Mapping[str, Any], task: type[Task]) -> None:
    """Print the scores, one per line, with their 95% intervals; then the scores by length."""
    intervals = scores.get("intervals", {})
    for key, value in scores.items():
        if key in ("intervals", "by_length"):
            continue
        metric = task.metric(key)
        shown = metric.text(value)
        if key in intervals:
            low, high = map(metric.text, intervals[key])
            shown = f"{shown:<9} [{low},{FIXED}{high}]"
        label = "  signature" if key.endswith("_signature") else metric.label
        label = wording_of(task).scored or task.unit if key == "n" else label
        print_lines(wrap(f"{label:<33} {shown}", 34))
    if intervals:
        print_lines(wrap(f"[low, high]: 95% of {RESAMPLES:,} bootstrap resamples of the examples", 13))
    if buckets := scores.get("by_length"):
        print()
        print_lines(columns(length_rows(buckets, task)))


def length_rows(buckets: Sequence[Mapping[str, Any]], task: type[Task]) -> list[list[str]]:
    """A table of scores by length, with a header row."""
    known = {name: m for name, m in task.known_metrics().items() if m.by_length and not m.of_tokens}
    names = [name for name in known if name in buckets[0]]
    rows = [["words", task.unit, *(known[name].short_label for name in names)]]
    for bucket in buckets:
        low, high = bucket["words"]
        words = str(low) if low == high else f"{low} to {high}"
        rows.append([words, str(bucket["n"]), *(known[name].text(bucket[name]) for name in names)])
    return rows
