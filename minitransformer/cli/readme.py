"""The README.md of a run folder, which describes the run, its data and scores, and how to train it again.

It is generated from the other files of the folder. Its last line has the checksum of the text above it, so
that a README.md that was edited or written by somebody else is not replaced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from minigrad.io import write_atomically
from minigrad.nn.shapes import parameter_shapes

from .. import recipes
from ..errors import UserError, counted
from ..files import our_command, read_bytes, sha256, shell_command
from ..models.protocol import model_class
from ..recipes import Recipe
from ..recipes.expectations import compare, condition
from ..runs.folder import Record, read_config, read_record, read_tokenizer
from ..runs.summaries import metrics_of, progress_of, score_rows
from ..tasks import task_class
from ..training.storage import README, check_run, delete_leftovers, lock_evaluation
from .wording import command, needed_prompt

LIMIT = 2**20  # bytes of a README.md that are read
COMMAND = "started with"

FILES = {
    "config.toml": "all settings",
    "run.json": "the record: versions, machine, kernels, data and its checksums, changes of settings",
    "tokenizer.json": "the vocabulary",
    "checkpoints": "weights, moments and state (safetensors, JSON), with checksums",
    "log.jsonl": "losses, learning rate and speed, one entry per line",
    "curves.png": "a plot of the log",
    "diagnostics.png": "each layer's gradients, updates, attention entropy and dead units",
    "tensorboard": "the log for TensorBoard",
    "metrics.json": "the scores",
    "predictions.txt": "the model's prediction for each scored example",
    "predictions.hyp": "the predictions, one per line; sources and references are in `.src` and `.ref`",
    "statistics.safetensors": "each example's contribution to each score, for `compare`",
    "evaluations": "scores and predictions of other checkpoints and decodings",
}


def write_readme(folder: Path, run_id: str | None = None) -> bool:
    """Write the folder's README.md, if the folder still has the run `run_id`.

    Return False if there is a README.md that was edited or written by somebody else.
    """
    path = folder / README
    if path.exists() and not is_ours(path):
        return False
    record = read_record(folder)
    if record is None or not record.begun or run_id not in (None, record.id):
        return True
    lines = _lines(folder, record, read_config(folder, record))
    text = "".join(f"{line}\n" for line in lines).encode(errors="replace")
    with lock_evaluation(folder):
        check_run(folder, record.id)
        delete_leftovers(folder, [README])
        write_atomically(path, text + _signature(text))
    return True


def is_ours(path: Path) -> bool:
    """Whether a file was written by `write_readme` and has not been edited since."""
    with suppress(UserError):
        text, found, signature = read_bytes(path, LIMIT).rpartition(b"<!-- written by minitransformer")
        return bool(found) and found + signature == _signature(text)
    return False


def _signature(text: bytes) -> bytes:
    return f"<!-- written by minitransformer; sha256 of the text above: {sha256(text)} -->\n".encode()


# ---------------------------------------------------------------- the text


def _lines(folder: Path, record: Record, recipe: Recipe) -> Iterator[str]:
    yield f"# {_escape(folder.resolve().name)}\n"
    yield f"{_escape(recipe.description or recipe.name)}.\n"
    yield "| | |\n|---|---|"
    for name, value in facts(folder, record, recipe):
        shown = f"`{value}`" if name == COMMAND else _escape(value)
        yield f"| {name} | {shown} |"
    yield "\n## Data\n"
    yield from (f"- {_escape(line)}" for line in record.data_lines)
    yield from (f"- {line}" for line in _identity_of_data(record))
    if scores := list(_scores(folder, record, recipe)):
        yield "\n## Scores\n"
        yield from scores
    if (folder / "curves.png").is_file():
        yield "![Loss and learning rate](curves.png)"
    yield "\n## Use it\n\n```sh"
    prompt = needed_prompt(record, read_tokenizer(folder, record)) if record.imported else ""
    yield command(recipe, Path("."), record.examples, record.suggested, prompt)
    yield f"{our_command(['evaluate', '.'])}{' --data FILE' if record.imported else ''}\n```"
    if not record.imported:
        yield "\n## Train it again\n\n```sh"
        yield f"{our_command(['train', '.'])}{_data_flags(record)} --run-dir ../again\n```\n"
        yield "Settings are those of `config.toml`, and data is compared with the checksums above. With the"
        yield "same versions and kernels, on the same kind of machine, the weights are the same, bit for bit."
    yield "\n## Files\n\n| file | what it is |\n|---|---|"
    yield from (f"| `{name}` | {what} |" for name, what in FILES.items() if (folder / name).exists())
    yield ""


def facts(folder: Path, record: Record, recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield the rows of the first table, as names and values."""
    if not record.imported:
        yield "recipe", recipe.name
    if record.command:
        yield COMMAND, record.command
    if record.history:
        yield "started", f"{record.history[0].get('time', '')}, seed {record.seed}"
    yield "model", f"{recipe.model_type}, {counted(_parameters(folder, record, recipe), 'parameter')}"
    yield "task", recipe.task
    if changed := _changes(recipe):
        yield "changed settings", ", ".join(changed)
    for entry in record.history[1:]:
        changes = {**entry.get("changes", {}), **entry.get("environment", {})}.items()
        yield f"from step {entry['step']}", ", ".join(f"{k} {old} -> {new}" for k, (old, new) in changes)
    if record.init_from:
        yield (
            "initial weights",
            f"from a run of {record.init_from['recipe']}, {record.init_from['checkpoint']}",
        )
    if record.imported:
        yield "imported from", record.imported["folder"]
    else:
        yield "trained", progress_of(folder, recipe.training)
    yield "with", ", ".join(f"{name} {value}" for name, value in (record.versions | record.machine).items())


def _parameters(folder: Path, record: Record, recipe: Recipe) -> int:
    tokenizer = read_tokenizer(folder, record)
    config = task_class(recipe.task).model_config(recipe.model, tokenizer, record.labels)
    return sum(map(math.prod, parameter_shapes(lambda: model_class(recipe.model_type)(config))))


def _changes(recipe: Recipe) -> list[str]:
    """The settings that differ from the package's recipe of the same name."""
    if recipe.name not in recipes.names():
        return []
    original = recipes.load_recipe(recipe.name)
    changed = []
    for part in ("data", "model", "training"):
        old = asdict(getattr(original, part))
        new = asdict(getattr(recipe, part))
        changed += [f"{k} = {v}" for k, v in new.items() if k != "seed" and v not in ("", old.get(k))]
    return changed


def _identity_of_data(record: Record) -> Iterator[str]:
    """Yield a line for each checksum of the data."""
    if checksum := record.data.get("sha256"):
        yield f"your file `{record.data.get('name', '')}`, SHA-256 `{checksum}`"
    for split, checksum in record.data_sha256.items():
        yield f"SHA-256 of the {split} split: `{checksum}`"


def _data_flags(record: Record) -> str:
    """The flags that name the user's data files and the run of --init-from."""
    words: list[object] = []
    for key in ("data", "validation_data", "test_data"):
        if path := record.data.get(key):
            words += [f"--{key.replace('_', '-')}", Path(Path(path).name)]
    words += ["--init-from", Path(Path(record.init_from["folder"]).name)] if record.init_from else []
    return f" {shell_command(words)}" if words else ""


def _scores(folder: Path, record: Record, recipe: Recipe) -> Iterator[str]:
    """Yield the lines of a table for each evaluation, and a comparison with the recipe's expected ranges."""
    for path in [folder / "metrics.json", *sorted(folder.glob("evaluations/*/metrics.json"))]:
        if not (scores := metrics_of(path.parent)):
            continue
        if path.parent != folder:
            yield f"{path.parent.name}:\n"
        yield "| score | |\n|---|---|"
        for name, value, interval in score_rows(scores):
            yield f"| {_escape(name)} | {_escape(value)}{interval} |"
        how = condition(record.init_from, "best", str(scores.get("decoding", "greedy")))
        lines = compare(recipe.expect.get(how, {}), scores) if path.parent == folder else []
        yield from (["", *(f"- {_escape(line)}" for line in lines)] if lines else [])
        yield ""


def _escape(text: object) -> str:
    """Escape `|`, which would end a cell of a table, and `<`, which would begin a tag."""
    return str(text).replace("|", "\\|").replace("<", "\\<")
