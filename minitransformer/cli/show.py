"""`minitransformer show RUN`: show a run's settings, curves, scores, and best and worst predictions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ..errors import check_integer
from ..files import read_text
from ..recipes import Recipe
from ..runs import evaluations
from ..runs.folder import Record, read_config
from ..runs.run import record_of
from ..runs.summaries import metrics_of
from ..tasks import task_class
from ..tasks.metrics import METRICS
from ..training.log import read_log, training_loss
from .charts import chart
from .evaluate import report
from .layout import FIXED, print_lines, terminal_width, wrap
from .parsing import parse
from .readme import COMMAND, facts


def run(argv: list[str]) -> None:
    def show(run: Path, *, predictions: int = 3) -> None:
        """Show a run's settings, curves, scores, and best and worst predictions.

        This reads the files of the run folder; the model is not run.

        Args:
            predictions: The number of best predictions, and of worst ones.
        """
        check_integer("predictions", predictions, 0)
        record = record_of(run)
        recipe = read_config(run, record)
        print_lines((*about(run, record, recipe), "", *curves(run)))
        scores = metrics_of(run)
        if scores:
            print()
            report(scores, task_class(recipe.task))
        print_lines(examples(run, predictions))

    parse(show, argv, "minitransformer show")


def about(folder: Path, record: Record, recipe: Recipe) -> Iterator[str]:
    """Yield lines with the run's description, settings and progress."""
    yield from wrap(f"{folder}: {recipe.description or recipe.name}", 2)
    rows = list(facts(folder, record, recipe))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        label = f"  {name:<{width}}  "
        value = value.replace("`", "")
        if name == COMMAND:  # a command to copy: escape line ends, and break no quotes
            quoted = re.sub("'[^']*'", lambda found: found[0].replace(" ", FIXED), value)
            yield from wrap(label + quoted, len(label), end=" \\")
        else:
            yield from wrap(label + value, len(label))


def curves(folder: Path) -> Iterator[str]:
    """Yield the lines of a chart: the training and the validation loss over steps."""
    entries = read_log(folder / "log.jsonl") if (folder / "log.jsonl").is_file() else []
    train, validation = (
        [(entry["step"], loss) for entry in entries if (loss := loss_of(entry)) is not None]
        for loss_of in (training_loss, lambda entry: entry.get("val_loss"))
    )
    small, large = ("·", "●") if can_print("·●") else (".", "o")
    if train or validation:
        yield f"loss over steps: {small} training, {large} validation"
        yield from chart({small: train, large: validation}, min(64, terminal_width() - 12))


def can_print(text: str) -> bool:
    """Whether standard output can encode a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def examples(folder: Path, count: int) -> Iterator[str]:
    """Yield lines with the best and worst predictions, by chrF for generated texts, otherwise by loss."""
    path = folder / "predictions.txt"
    evaluation = evaluations.read(folder)
    if not path.is_file() or evaluation is None or not count:
        return
    header, *rows = (line.split("\t") for line in read_text(path, 2**26).split("\n") if line)
    found = evaluation.example_scores
    name = next((name for name in ("chrf", "loss") if name in found), "")
    if not name or len(found[name].statistics) != len(rows):
        return
    values = [float(found[name].of([i])) for i in range(len(rows))]
    order = sorted(range(len(rows)), key=lambda i: values[i], reverse=name != "loss")
    half = min(count, len(rows) // 2)
    groups = [("best", order[:half]), ("worst", order[::-1][:half])]
    for title, chosen in groups if half else [("only", order)]:
        noun = "prediction" if len(chosen) == 1 else "predictions"
        yield from ["", f"{title} {noun} of {len(rows):,}, by {METRICS[name].label}"]
        for i in chosen:
            yield f"  {values[i]:.4g}"
            for label, cell in zip(header, rows[i], strict=False):
                yield from wrap(f"    {label}: {cell}", 6)
