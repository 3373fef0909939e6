"""A run folder: its record, and the files that a training may write or delete there.

    .lock          held by the training that writes to the folder, see training/storage.py
    run.json       the record: versions, machine, paths of data, checksums, history
    config.toml  tokenizer.json  log.jsonl  checkpoints/  curves.png
    metrics.json  predictions.*  statistics.safetensors  evaluations/     see evaluations.py
    README.md      what the run is, and how to repeat it: generated from the other files, unless it was edited

run.json is written first, with `begun` = false: from then on the folder belongs to the new run. It is written
again, with `begun` = true, after the files of an earlier run are deleted, and tokenizer and settings written.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from minigrad.io import write_atomically

from .. import recipes
from ..base_config import Config
from ..data.splits import Sources
from ..errors import UserError
from ..files import read_bytes, read_json, sha256, to_json, write_json
from ..recipes import Recipe
from ..text.loading import load_tokenizer
from ..text.tokenizer import Tokenizer
from ..training import tensorboard
from ..training.checkpoint import Checkpoints
from ..training.storage import (
    CHECKPOINTS,
    LOCKS,
    RECORD,
    RUN_FILES,
    RunError,
    is_leftover,
    lock_evaluation,
    now,
)
from . import evaluations
from .machine import describe_machine, describe_versions

FIXED_SETTINGS = (  # settings that --resume cannot change
    "seed", "precision", "optimizer", "momentum", "betas", "adam_eps", "weight_decay",
    "freeze", "lora_rank", "lora_alpha", "lora_targets",
)  # fmt: skip

# ---------------------------------------------------------------- the record


@dataclass(frozen=True)
class Record(Config):
    """The content of run.json."""

    recipe: str
    seed: int
    versions: dict[str, Any]
    machine: dict[str, Any]
    data_sha256: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)  # dataset, name, and paths of files
    tokenizer_sha256: str = ""  # empty if the data has no text
    id: str = ""
    begun: bool = True  # False while `begin` deletes the files of an earlier run
    history: list[Any] = field(default_factory=list)  # the changes of settings, each with its step
    labels: list[str] = field(default_factory=list)  # the names of the classes
    reading: dict[str, Any] = field(default_factory=dict)  # how the training data was read (`Task.reading`)
    init_from: dict[str, Any] = field(default_factory=dict)  # the run that the initial weights come from
    command: str = ""  # the command that started the run
    data_lines: list[str] = field(default_factory=list)  # lines that were printed about the data
    examples: list[Any] = field(default_factory=list)  # short inputs (lists of texts) from the held-out data
    imported: dict[str, Any] = field(default_factory=dict)  # facts of the pretrained model (`import`)

    @property
    def identity(self) -> dict[str, str]:
        """The entries that identify the run in each of its checkpoints."""
        return {"run": self.id, "tokenizer_sha256": self.tokenizer_sha256}

    @property
    def generation(self) -> dict[str, Any]:
        """Options of `generate` that a pretrained model needs, also after fine-tuning; empty for others."""
        return (self.imported or self.init_from).get("generation", {})

    @property
    def suggested(self) -> dict[str, Any]:
        """Options of `generate` that the authors of a pretrained model suggest, such as {"num_beams": 4}."""
        return (self.imported or self.init_from).get("suggested", {})

    @property
    def environment(self) -> dict[str, Any]:
        """The versions and machine of the run, after the changes when it was last resumed."""
        now = {**self.versions, **self.machine}
        for entry in self.history:
            now |= {name: new for name, (_, new) in entry.get("environment", {}).items()}
        return now

    @property
    def sources(self) -> Sources:
        """The paths of the data when the run started."""
        return Sources.from_json(self.data)


def read_record(folder: Path) -> Record | None:
    """Read the record of a run. Return None if the folder has no run.json, or another program wrote it.

    Raises a RunError if run.json is damaged or was changed.
    """
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        content = read_json(path)
    except UserError as error:
        raise _unreadable(str(error).splitlines()[0]) from None
    if not isinstance(content, dict) or "sha256" not in content:
        return None
    if content.pop("sha256") != _sum(content):
        raise _unreadable(f"{path} is damaged or was changed: it does not match its checksum.")
    try:
        return Record(**content)
    except (TypeError, UserError) as error:
        raise _unreadable(f"{path} is not a record of this version: {str(error).splitlines()[0]}") from None


def _unreadable(problem: str) -> RunError:
    """The error for an unreadable run.json. It does not suggest --overwrite, since the owner is unknown."""
    return RunError(f"{problem}\nRestore the file, or choose another folder with --run-dir DIR.")


def new_record(
    recipe: Recipe,
    tokenizer: Tokenizer | None,
    data_sha256: dict[str, str],
    sources: Sources,
    labels: Sequence[str] = (),
    init_from: Mapping[str, Any] | None = None,
    command: str = "",
    data_lines: Sequence[str] = (),
    device: str = "cpu",
    ranks: int = 1,
    reading: Mapping[str, Any] | None = None,
    examples: Sequence[Sequence[str]] = (),
) -> Record:
    """Make the record of a run that starts now, on `device` and with `ranks` processes."""
    return Record(
        recipe.name,
        recipe.training.seed,
        describe_versions(device),
        describe_machine(device, ranks),
        data_sha256,
        _places(recipe, sources),
        "" if tokenizer is None else sha256(tokenizer.to_bytes()),
        secrets.token_hex(8),
        history=[{"step": 0, "config_sha256": sha256(_config(recipe)), "changes": {}, "time": now()}],
        labels=list(labels),
        reading=dict(reading or {}),
        init_from=dict(init_from or {}),
        command=command,
        data_lines=list(data_lines),
        examples=[list(texts) for texts in examples],
    )


def _places(recipe: Recipe, sources: Sources) -> dict[str, str | None]:
    return sources.to_json(getattr(recipe.data, "dataset", recipe.task))


def _config(recipe: Recipe) -> bytes:
    return recipes.to_toml(recipe).encode()


def _write_record(folder: Path, record: Record) -> None:
    content = asdict(record)
    write_json(folder / RECORD, {**content, "sha256": _sum(content)})


def _sum(content: Mapping[str, Any]) -> str:
    """The checksum of all entries of run.json except `sha256`."""
    return sha256(to_json(content).encode())


# ---------------------------------------------------------------- starting and resuming a run


def check_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise a RunError if a training may not write to `folder` with these flags."""
    if resume and overwrite:
        raise RunError("--resume and --overwrite contradict each other.\nPass one of them.")
    if not folder.exists():
        if resume:
            raise RunError(
                f"there is no run folder {folder} to resume.\n"
                f"Check --run-dir, or leave --resume out to start a run there."
            )
        return
    if _is_new(folder):
        return
    if not folder.is_dir() or read_record(folder) is None:
        raise RunError(
            f"{folder} exists and is not a run folder; nothing was changed.\n"
            f"Choose another with --run-dir DIR."
        )
    if not (resume or overwrite):
        raise RunError(
            f"{folder} already contains a run.\n"
            f"Resume it with --resume, replace it with --overwrite, or choose another with --run-dir DIR."
        )


def _is_new(folder: Path) -> bool:
    """Whether the folder is empty, except for leftovers of a training that was killed at its start."""
    return folder.is_dir() and all(path.name in LOCKS or is_leftover(path.name) for path in folder.iterdir())


def begin(folder: Path, record: Record, recipe: Recipe, tokenizer: Tokenizer | None) -> None:
    """Write the record, delete the files of an earlier run, and write tokenizer and settings."""
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints = Checkpoints(folder / CHECKPOINTS)
    for path in (folder, checkpoints.folder, *checkpoints.folder.glob("step-*")):
        if path.exists() and not os.access(path, os.W_OK | os.X_OK):
            raise RunError(f"cannot write to {path}; nothing was changed.\nChange its permissions.")
    with lock_evaluation(folder):
        _write_record(folder, replace(record, begun=False))
        for name in RUN_FILES:
            if name != RECORD:
                (folder / name).unlink(missing_ok=True)
        evaluations.clear(folder)
        checkpoints.clear()
        tensorboard.clear(folder)
        if tokenizer is not None:
            write_atomically(folder / "tokenizer.json", tokenizer.to_bytes())
        write_atomically(folder / "config.toml", _config(recipe))
        _write_record(folder, record)


def read_config(folder: Path, record: Record) -> Recipe:
    """Read the settings of a run. Raise a RunError if config.toml does not match its checksum."""
    path = folder / "config.toml"
    try:
        _check_sum(path, _config_sums(record))
    except RunError:
        now = read_record(folder)  # a training that resumes may have changed both files since
        if now is None or now.id != record.id or now.history == record.history:
            raise
        _check_sum(path, _config_sums(now))
    recipe = recipes.load_recipe(str(path))
    try:
        return replace(recipe, name=record.recipe)
    except UserError as error:  # in a run of somebody else, the name may be a path
        raise _unreadable(f"{folder / RECORD}: {str(error).splitlines()[0]}") from None


def _config_sums(record: Record) -> list[str]:
    return [entry["config_sha256"] for entry in record.history]


def read_tokenizer(folder: Path, record: Record) -> Tokenizer | None:
    """Read the tokenizer of a run; None if its data has no text. Raise a RunError if it was changed."""
    if not record.tokenizer_sha256:
        return None
    path = folder / "tokenizer.json"
    _check_sum(path, [record.tokenizer_sha256])
    return load_tokenizer(path)


def _check_sum(path: Path, sums: list[str]) -> None:
    if not path.exists():
        raise RunError(f"{path} is missing.\nRestore the file, or start over with `train --overwrite`.")
    if sha256(read_bytes(path)) not in sums:
        raise RunError(
            f"{path} is damaged or was changed: it does not match the checksum in run.json.\n"
            f"Restore the file, or start over with `train --overwrite`."
        )


def check_same_run(before: Recipe, recipe: Recipe, folder: Path) -> None:
    """Raise a RunError if the settings of model or data, or `FIXED_SETTINGS`, differ from the run's."""
    if recipe.model_type != before.model_type:
        raise RunError(
            f"{folder} was started with different settings: model_type is {before.model_type}, "
            f"not {recipe.model_type}.\n"
            f"Leave that flag out, or start over with --overwrite."
        )
    for part in ("data", "model", "training"):
        changed = [
            f"{name} is {_setting(old)}, not {_setting(new)}"
            for name, (old, new) in _differences(before, recipe, part).items()
            if part != "training" or name in FIXED_SETTINGS
        ]
        if changed:
            raise RunError(
                f"{folder} was started with different settings: {', '.join(changed)}.\n"
                f"Leave those flags out, or start over with --overwrite."
            )


def _setting(value: Any) -> str:
    """A setting's value for a message. An empty string is shown in quotes."""
    return repr(value) if value == "" else str(value)


def continue_run(
    folder: Path,
    record: Record,
    before: Recipe,
    recipe: Recipe,
    sources: Sources,
    step: int,
    environment: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write the settings that --resume changes to the folder. Return a line for each change.

    `environment` has the changes of versions and machine (`rounding_differences`).
    """
    changes = {name: list(pair) for name, pair in _differences(before, recipe, "training").items()}
    used = sha256(read_bytes(folder / "config.toml"))
    last = max((i for i, entry in enumerate(record.history) if entry["config_sha256"] == used), default=-1)
    history = record.history[: last + 1]  # without changes that never reached config.toml
    went_back = bool(history) and step < history[-1]["step"]  # because later checkpoints were damaged
    if changes or environment or went_back:
        entry = {"step": step, "config_sha256": sha256(_config(recipe)), "changes": changes, "time": now()}
        history = [*history, entry | ({"environment": dict(environment)} if environment else {})]
    data = _places(recipe, sources)
    if (history, data) != (record.history, record.data):
        _write_record(folder, replace(record, history=history, data=data))
    if changes:
        write_atomically(folder / "config.toml", _config(recipe))
    both = {**changes, **(environment or {})}
    return [f"{name} {old} -> {new} from step {step}" for name, (old, new) in both.items()]


def _differences(before: Recipe, recipe: Recipe, part: str) -> dict[str, tuple[Any, Any]]:
    old = asdict(getattr(before, part))
    new = asdict(getattr(recipe, part))
    return {name: (old.get(name), new[name]) for name in new if old.get(name) != new[name]}
