"""Summaries of runs and evaluations, as a line or as a table for notebooks."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import UserError, counted
from ..files import read_bytes, read_json
from ..layers.quantized import count_weights
from ..training.checkpoint import Checkpoints
from ..training.config import TrainConfig

CELL = "text-align: left; padding: 2px 12px 2px 0; vertical-align: top"
QUIET = "opacity: 0.7"


def metrics_of(folder: Path) -> dict[str, Any]:
    """The saved scores of a run; empty if there are none, or they cannot be read."""
    with suppress(UserError, OSError):
        found = read_json(folder / "metrics.json", {})
        return found if isinstance(found, dict) else {}
    return {}


def run_facts(run: Any) -> list[tuple[str, str]]:
    """The properties of a loaded run, as names and values."""
    recipe = run.recipe
    vocabulary = getattr(run.model.config, "vocab_size", None)
    facts = [
        ("recipe", f"{recipe.name}, {recipe.task}"),
        ("model", f"{type(run.model).__name__}, {counted(count_weights(run.model), 'parameter')}"),
        ("checkpoint", checkpoint_of(run)),
        ("seed", str(run.record.seed)),
    ]
    return facts if vocabulary is None else [*facts, ("vocabulary", counted(vocabulary, "token"))]


def checkpoint_of(run: Any) -> str:
    """A run's checkpoint: `step-00000600 of 600 steps`, or the folder that a model was imported from."""
    if run.record.imported and run.checkpoint.name == "step-00000000":
        return f"imported from {run.record.imported['folder']}"
    return f"{run.checkpoint.name} of {length_of(run.folder, run.recipe.training)}"


def last_state(folder: Path) -> dict[str, Any]:
    """The state of a run's last checkpoint; empty if there is none, or it cannot be read."""
    checkpoints = Checkpoints(folder / "checkpoints")
    with suppress(UserError, OSError, LookupError):
        return checkpoints.retry_read(
            lambda: read_json(
                checkpoints.folder / checkpoints.names()[-1] / "state.json", {"step": int, "seconds": float}
            )
        )
    return {}


def length_of(folder: Path, settings: TrainConfig) -> str:
    """The length of a run's training: `1,200 steps`, `9 steps (3 epochs)`."""
    if not settings.epochs:
        return counted(settings.steps, "step")
    epochs = counted(settings.epochs, "epoch")
    steps = last_state(folder).get("steps")
    return epochs if steps is None else f"{counted(steps, 'step')} ({epochs})"


def progress_of(folder: Path, settings: TrainConfig) -> str:
    """The progress of a training run: `300 of 1,200 steps in 25 s; checkpoints: last step-..., best ...`."""
    state = last_state(folder)
    length = length_of(folder, settings)
    if not state:
        return f"0 of {length}: no checkpoint yet"
    total = state.get("steps") if settings.epochs else settings.steps
    try:
        names = [f"{which} {name}" for which, name in Checkpoints(folder / "checkpoints").index.items()]
    except UserError as error:  # one is missing or damaged
        names = [str(error).splitlines()[0]]
    done = "" if state["step"] == total else f"{state['step']:,} of "
    return f"{done}{length} in {state['seconds']:.0f} s; checkpoints: {', '.join(names)}"


def run_line(run: Any) -> str:
    """A run in one line: `<Run runs/phrasebook: phrasebook, translation; Transformer, ...; step-...>`."""
    return f"<Run {run.folder}: {'; '.join(value for _, value in run_facts(run)[:3])}>"


def run_html(run: Any) -> str:
    """A loaded run's properties, scores and curves, as HTML."""
    parts = [f"<b>{html.escape(str(run.folder))}</b>", _table(run_facts(run))]
    parts.append(_score_table(metrics_of(run.folder)))
    with suppress(UserError, OSError):
        picture = base64.b64encode(read_bytes(run.folder / "curves.png")).decode()
        parts.append(f'<img alt="Curves of the run" src="data:image/png;base64,{picture}" width="480">')
    return "".join(parts)


def score_rows(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, value and interval of each score as texts: ("bleu", "0.994", " [0.986, 1]").

    The interval contains 95% of bootstrap resamples.
    """
    intervals = metrics.get("intervals")
    for name, value in metrics.items():
        if isinstance(value, int | float | str):
            bounds = intervals.get(name) if isinstance(intervals, dict) else None
            bounds = [_shown(bound) for bound in bounds if isinstance(bound, float)] if bounds else []
            yield name, _shown(value), f" [{', '.join(bounds)}]" if bounds else ""


def evaluation_line(evaluation: Any) -> str:
    """An evaluation in one line: `<Evaluation of the test split, step-...: exact_match 0.994 [...], ...>`."""
    about = evaluation.about
    numbers = {name: value for name, value in evaluation.metrics.items() if not isinstance(value, str)}
    scores = ", ".join(f"{name} {value}{interval}" for name, value, interval in score_rows(numbers))
    return f"<Evaluation of the {about.split} split, {about.checkpoint}: {scores}>"


def evaluation_html(evaluation: Any) -> str:
    """An evaluation's scores as an HTML table."""
    about = evaluation.about
    head = f"{about.task}, {about.split} split, {about.checkpoint}"
    return f"<b>{html.escape(head)}</b>{_score_table(evaluation.metrics)}"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _score_table(metrics: Mapping[str, Any]) -> str:
    return _table((name, f"{value}{interval}") for name, value, interval in score_rows(metrics))


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = [
        f'<tr><td style="{CELL}; {QUIET}">{html.escape(name)}</td>'
        f'<td style="{CELL}">{html.escape(value)}</td></tr>'
        for name, value in rows
    ]
    return (
        f'<table style="border-collapse: collapse; margin: 4px 0">{"".join(lines)}</table>' if lines else ""
    )
