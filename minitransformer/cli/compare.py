"""`minitransformer compare RUN RUN...`: compare the scores of runs, with a significance test."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import UserError, counted
from ..files import to_json
from ..runs.evaluations import STATISTICS, Evaluation, place, read, weights_sha256
from ..runs.folder import read_config
from ..runs.run import Run, record_of
from ..tasks import task_class
from ..tasks.bootstrap import RESAMPLES, Difference, differences
from ..tasks.metrics import Metric
from .decoding import Search
from .evaluate import (
    FileOptions,
    check_generates,
    describe_decoding,
    score,
    splits_of,
    write,
)
from .layout import FIXED, columns, print_lines, wrap, wrap_list
from .parsing import parse
from .readme import write_readme

SIGNIFICANT = 0.05


def run(argv: list[str]) -> None:
    def compare(
        runs: tuple[Path, ...],
        *,
        json: bool = False,
        data: Path | None = None,
        data_dir: Path | None = None,
        file: FileOptions = FileOptions(),  # noqa: B008 (frozen)
        search: Search = Search(),  # noqa: B008 (frozen)
        checkpoint: str = "best",
        device: str = "cpu",
    ) -> None:
        """Compare runs with the first one, on the same test examples, by a paired bootstrap test.

        A run that has no saved evaluation with this checkpoint and decoding is evaluated first. p is the
        probability of a difference this large if the runs are equally good and other test examples were
        drawn; it says nothing about training with another seed.

        Args:
            runs: Run folders, the baseline first; or folders in RUN/evaluations, for other checkpoints and
                decodings.
            json: Print a JSON object for each run but the first.
        """
        if len(runs) < 2:
            raise UserError(
                f"compare needs at least two runs, got {len(runs)}.\nPass the baseline first, then others."
            )
        check_tasks(runs)
        decoding = search.options()
        found = [load_or_evaluate(path, checkpoint, device, decoding, data, data_dir, file) for path in runs]
        for path, other in zip(runs[1:], found[1:], strict=True):
            check_comparable(runs[0], found[0], path, other)
        for path, other in zip(runs[1:], found[1:], strict=True):
            if json:
                print(to_json(comparison_values(runs[0], found[0], path, other)))
            else:
                report(runs[0], found[0], path, other)

    parse(compare, argv, "minitransformer compare")


def check_tasks(runs: Sequence[Path]) -> None:
    """Raise a UserError if the runs have different tasks, before any of them is evaluated."""
    found = {path: read_config(path, record_of(path)).task for path in runs if (path / "run.json").exists()}
    for path, task in found.items():
        first = next(iter(found))
        if task != found[first]:
            raise different_tasks(first, found[first], path, task)


def different_tasks(first: Path, one: str, path: Path, two: str) -> UserError:
    return UserError(f"{first} has the task {one}, {path} the task {two}.\nCompare runs of the same task.")


def load_or_evaluate(
    path: Path,
    checkpoint: str,
    device: str,
    decoding: dict[str, Any],
    data: Path | None,
    data_dir: Path | None,
    file: FileOptions | None = None,
) -> Evaluation:
    """Load the saved evaluation of a run if it is current (see `is_current`); otherwise evaluate the run.

    `path` may also be a folder in RUN/evaluations. If `data` is given, that file is scored, and nothing is
    saved.
    """
    if not (path / "run.json").exists() and (path / STATISTICS).exists():
        saved = read(path)
        if saved is None:
            raise UserError(f"{path / STATISTICS} is damaged.\nEvaluate the run again.")
        return saved
    run = Run(path, checkpoint, device)
    check_generates(run, decoding)
    if data is not None:
        splits, own = splits_of(run, data, data_dir, file)
        if not own:
            return score(run, splits, data, **decoding)
    folder = place(run.folder, checkpoint, run.checkpoint.name, decoding)
    if (saved := read(folder)) is not None and is_current(run, saved, decoding):
        return saved
    how = f" ({describe_decoding(decoding)})" if hasattr(run.task, "translate") else ""
    print(f"evaluating {path}, {run.checkpoint.name}{how}", file=sys.stderr)
    new = score(run, run.splits(data, data_dir), **decoding)
    write(run, folder, new)
    with suppress(OSError):
        write_readme(path, run.record.id)
    return new


def is_current(run: Run, saved: Evaluation, decoding: dict[str, Any]) -> bool:
    """Whether a saved evaluation has the run's current weights and data, and this decoding."""
    about = saved.about
    return (
        about.weights_sha256 == weights_sha256(run.model)
        and about.tokenizer_sha256 == run.record.tokenizer_sha256
        and about.data_sha256 == run.record.data_sha256.get(about.split)
        and about.decoding == (describe_decoding(decoding) if hasattr(run.task, "translate") else "")
    )


def check_comparable(first: Path, baseline: Evaluation, path: Path, other: Evaluation) -> None:
    """Raise a UserError if two evaluations have different tasks or examples."""
    one = baseline.about
    two = other.about
    if one.task != two.task:
        raise different_tasks(first, one.task, path, two.task)
    if one.data_sha256 != two.data_sha256:
        raise UserError(
            f"{first} and {path} have different test data.\n"
            f"Score both on one file that neither was trained on, with --data FILE."
        )
    if one.inputs_sha256 != two.inputs_sha256 or not shared_scores(baseline, other):
        raise UserError(
            f"{first} and {path} were scored on different examples: their tokenizers or max_length differ.\n"
            f"Compare runs with the same tokenizer, or on shorter examples with --data FILE."
        )


def shared_scores(baseline: Evaluation, other: Evaluation) -> list[str]:
    """The names of the scores that both have; if their tokenizers differ, without scores of tokens."""
    names = [name for name in other.example_scores if name in baseline.example_scores]
    if baseline.about.tokenizer_sha256 == other.about.tokenizer_sha256 or "token_accuracy" not in names:
        return names
    task = task_class(other.about.task)
    return [name for name in names if not task.metric(name).of_tokens]


def compare_scores(baseline: Evaluation, other: Evaluation) -> dict[str, Difference]:
    """The differences of the scores in `shared_scores`, by name."""
    names = shared_scores(baseline, other)
    return differences(*({name: e.example_scores[name] for name in names} for e in (baseline, other)))


def verdict(metric: Metric, found: Difference) -> str:
    """Say whether a run is "better" or "worse" than the baseline, "equal" or "not significant".

    If it is unknown whether higher is better, a significant difference is just "significant".
    """
    if (found.value, found.low, found.high) == (0, 0, 0):
        return "equal"
    if found.p_value >= SIGNIFICANT:
        return "not significant"
    if metric.higher_is_better is None:
        return "significant"
    return "better" if (found.value > 0) == metric.higher_is_better else "worse"


# ---------------------------------------------------------------- printing


def report(first: Path, baseline: Evaluation, path: Path, other: Evaluation) -> None:
    """Print both runs' scores, their differences with 95% intervals, and p-values."""
    task = task_class(other.about.task)
    examples = len(next(iter(other.example_scores.values())).statistics)
    heading = []
    for name, folder, about in (("baseline", first, baseline.about), ("run", path, other.about)):
        decoding = f", {about.decoding}" if about.decoding else ""
        heading.append((name, f"{folder}  ({about.checkpoint}{decoding})"))
    print_lines(wrap_list([*heading, ("data", f"{other.about.split}, {counted(examples, 'example')}")]))
    print()
    rows = [["", "baseline", "run", "difference", "p", ""]]
    for name, found in compare_scores(baseline, other).items():
        metric = task.metric(name)
        values = [metric.text(e.example_scores[name]) for e in (baseline, other)]
        low, high = map(metric.difference, (found.low, found.high))
        change = f"{metric.difference(found.value)} [{low}, {high}]".replace(" ", FIXED)
        rows.append([metric.short_label, *values, change, f"{found.p_value:.4f}", verdict(metric, found)])
    print_lines(columns(rows))
    if left_out := [name for name in other.example_scores if name not in {*shared_scores(baseline, other)}]:
        named = ", ".join(task.metric(name).short_label for name in left_out)
        print_lines(wrap(f"not compared, because the tokenizers differ: {named}"))
    print()
    print_lines(
        wrap(f"[low, high]: 95% of {RESAMPLES:,} paired bootstrap resamples; significant: p < {SIGNIFICANT}")
    )


def comparison_values(first: Path, baseline: Evaluation, path: Path, other: Evaluation) -> dict[str, Any]:
    """The values of a comparison by name, for JSON."""
    scores = {
        name: {
            "baseline": baseline.example_scores[name],
            "run": other.example_scores[name],
            "difference": found.value,
            "interval": [found.low, found.high],
            "p_value": found.p_value,
        }
        for name, found in compare_scores(baseline, other).items()
    }
    about = {"baseline": str(first), "run": str(path), "split": other.about.split}
    return {**about, "n": len(next(iter(other.example_scores.values())).statistics), "scores": scores}
