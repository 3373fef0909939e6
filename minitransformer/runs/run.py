"""Builds splits and model from a recipe. `Run` loads a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from minigrad import nn
from minigrad.core.devices import check_device
from minigrad.nn.shapes import shapes_only

from ..data import labels
from ..data.splits import Sources, Splits, check_sources, checksums
from ..errors import UserError, did_you_mean
from ..files import our_command
from ..layers.lora import add_lora, merge_lora
from ..layers.quantized import quantize
from ..models.protocol import model_class
from ..recipes import Recipe
from ..tasks import task_class
from ..training.checkpoint import Checkpoints
from . import evaluations
from .folder import Record, RunError, read_config, read_record, read_tokenizer
from .memory_needed import check_memory
from .summaries import last_state, run_html, run_line

# ---------------------------------------------------------------- building


def load_splits(
    recipe: Recipe, data: Path | None = None, data_dir: Path | None = None, sources: Sources | None = None
) -> Splits:
    """Load the splits of the recipe's data set, or of the user's files."""
    sources = sources or Sources(data, data_dir=data_dir)
    check_sources(recipe.data, sources)
    return task_class(recipe.task).splits(recipe.data, sources)


def build_model(recipe: Recipe, tokenizer: Any, labels: Sequence[str] = ()) -> nn.Module:
    """Build the recipe's model, with initial weights, for the tokenizer's vocabulary and the labels."""
    config = task_class(recipe.task).model_config(recipe.model, tokenizer, labels)
    return model_class(recipe.model_type)(config)


def check_labels(
    recipe: Recipe, splits: Mapping[str, Any], sources: Sources, strict: bool = True
) -> list[str]:
    """Return a warning for each held-out split that has labels which are not in the training split.

    If `strict` is True, such labels in a user's file raise a DataError.
    """
    kind = task_class(recipe.task)
    lines = []
    known = set(kind.labels_in(splits["train"]))
    files = {"validation": sources.validation_data, "test": sources.test_data}
    for name in [name for name in files if known and name in splits]:
        found = kind.labels_in(splits[name])
        file = files[name]
        if file is not None and strict:
            labels.check_labels(str(file), found, known)
        elif problem := labels.unknown_labels(found, known):
            lines.append(f"warning: the {name} split has {problem}; they count as wrong")
    return lines


# ---------------------------------------------------------------- loading


class Run:
    """A run, loaded from its folder: recipe, task, tokenizer, labels, and the model on `device`.

    `which` is a checkpoint: "best", "last", "ema", "average:5" or a name. Files are checked against their
    checksums; a damaged file raises an error that names it. LoRA adapters are merged if `merge` is True.
    """

    def __init__(self, folder: Path, which: str = "best", device: str = "cpu", merge: bool = True) -> None:
        self.folder = Path(folder)
        device = check_device(device)
        record = record_of(self.folder)
        self.record = record
        checkpoints = Checkpoints(self.folder / "checkpoints", identity=record.identity)
        with ThreadPoolExecutor(1) as thread:  # reads the weights while the model is built
            weights = thread.submit(checkpoints.read_weights, which)
            self.recipe = read_config(self.folder, self.record)
            self.task: Any = task_class(self.recipe.task)  # a subclass of `Task`
            self.tokenizer = read_tokenizer(self.folder, self.record)
            self.labels = record.labels
            check_memory(self.recipe, self.tokenizer, self.labels, training=False)
            with shapes_only():
                self.model: Any = build_model(self.recipe, self.tokenizer, self.labels)
            if record.imported.get("bits") == 8:
                quantize(self.model)
            training = self.recipe.training
            if training.lora_rank:
                add_lora(self.model, training.lora_rank, training.lora_alpha, training.lora_targets)
            self.checkpoint = checkpoints.load(self.model, *weights.result(), assign=True)
            if training.lora_rank and merge:
                merge_lora(self.model)
        self.model.to(device).eval()

    def __repr__(self) -> str:
        return run_line(self)

    def _repr_html_(self) -> str:
        return run_html(self)

    @property
    def generation(self) -> dict[str, Any]:
        """Options of `generate` that the model needs (`Record.generation`)."""
        return self.record.generation

    @property
    def reading(self) -> dict[str, Any]:
        """How the training data was read (`Task.reading`). Other inputs must be read in the same way."""
        return self.record.reading

    def splits(self, data: Path | None = None, data_dir: Path | None = None) -> Splits:
        """Load the splits that the run was trained on, from the original paths, or from `data` or `data_dir`.

        Raises a RunError if the data is not the same.
        """
        if self.record.imported and data is None:
            raise RunError(
                f"{self.folder} is an imported run, which has no data set.\n"
                f"Pass your own data with --data FILE."
            )
        sources = self.record.sources.updated(Sources(data, data_dir=data_dir))
        splits = load_splits(self.recipe, sources=sources)
        check_same_data(self.folder, self.record, splits)
        return splits


def record_of(folder: Path) -> Record:
    """Read the record of a run folder. Raise a RunError if the folder is not a run folder."""
    if not folder.is_dir():
        raise RunError(
            f"there is no run folder {folder}.{did_you_mean(str(folder), known_runs(folder))}\n"
            f"Train one with `{our_command(['train', 'RECIPE', '--run-dir', folder])}`."
        )
    if not (folder / "run.json").exists() and (folder / "config.json").exists():
        command = our_command(["import", folder, "--run-dir", f"runs/{folder.name}"])
        raise RunError(f"{folder} is a pretrained model, not a run folder.\nImport it first: `{command}`.")
    for name in ("run.json", "config.toml"):
        if not (folder / name).exists():
            raise _not_a_run(folder, f"it has no {name}")
    record = read_record(folder)
    if record is None:
        raise _not_a_run(folder, "its run.json was not written by a training")
    return record


def is_finished(folder: Path) -> bool:
    """Whether a run's training is finished, and its best checkpoint is evaluated.

    The existence of scores is not enough, as a run can be evaluated during its training.
    """
    with suppress(UserError, OSError, LookupError):
        record, scored = read_record(folder), evaluations.read(folder)
        if record is None or not record.begun or scored is None:
            return False
        names = Checkpoints(folder / "checkpoints", identity=record.identity).index
        settings = read_config(folder, record).training
        state = last_state(folder)
        steps = state["steps"] if settings.epochs else settings.steps
        waited = state["best_score"]["waited"] if settings.patience else -1
        is_at_end = state["step"] >= steps or 0 < settings.patience <= waited
        return is_at_end and scored.about.checkpoint == names["best"]
    return False


def known_runs(folder: Path) -> list[str]:
    """The run folders beside `folder`, and in `runs`."""
    found: dict[str, None] = {}
    for parent in (folder.parent, Path("runs")):
        with suppress(OSError):
            found |= dict.fromkeys(str(path.parent) for path in parent.glob("*/run.json"))
    return list(found)


def _not_a_run(folder: Path, problem: str) -> RunError:
    return RunError(
        f"{folder} is not a run folder: {problem}.\nChoose a folder that `minitransformer train` wrote."
    )


def check_same_data(folder: Path, record: Record, splits: Mapping[str, Any]) -> None:
    """Raise a RunError unless the run was trained on this data.

    The test split of other data may contain examples that the run was trained on.
    """
    if record.data_sha256 != checksums(splits):
        raise RunError(
            f"{folder} was trained on other data.\n"
            f"Pass the same --data or --data-dir, or start over with `train --overwrite`."
        )
