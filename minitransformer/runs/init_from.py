"""`train --init-from RUN`: takes the initial weights and the tokenizer from another run.

For example, it fine-tunes a BERT that was trained to fill in words, with a new head (Devlin et al. 2018,
section 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigrad import nn
from minigrad.io import load_bytes

from ..errors import UserError, counted
from ..files import sha256
from ..training.checkpoint import Checkpoints, check_finite
from .folder import Record, read_config, read_tokenizer
from .run import Run, record_of


@dataclass(frozen=True)
class Source:
    """Another run: its tokenizer and the weights of its best checkpoint."""

    folder: Path
    record: Record
    tokenizer: Any
    checkpoint: str
    weights: dict[str, Any]
    checksum: str

    @classmethod
    def read(cls, folder: Path) -> Source:
        """Read a run folder. Raise an error if it is not a run folder, or has no checkpoint to train."""
        record = record_of(folder)
        if record.imported.get("bits") == 8:
            raise UserError(
                f"{folder} has 8-bit weights, which cannot be trained.\n"
                f"Import the model again without --quantize."
            )
        path, content = Checkpoints(folder / "checkpoints", identity=record.identity).read_model("best")
        weights = load_bytes(content, str(path))
        check_finite(weights, path.name)
        if read_config(folder, record).training.lora_rank:  # `Run` merges the adapters
            weights = dict(Run(folder, path.name).model.state_dict())
        return cls(folder, record, read_tokenizer(folder, record), path.name, weights, sha256(content))

    def to_json(self) -> dict[str, Any]:
        """The entry `init_from` of run.json, with the options of `generate` of a pretrained model."""
        names = {"folder": str(self.folder.absolute()), "recipe": self.record.recipe, "run": self.record.id}
        options = {"generation": self.record.generation, "suggested": self.record.suggested}
        return {
            **names,
            "checkpoint": self.checkpoint,
            "model_sha256": self.checksum,
            **{name: value for name, value in options.items() if value},
        }


def initialize(model: nn.Module, source: Source) -> list[str]:
    """Load the weights that match by name and shape into the model. Return lines that say which match.

    Raises a UserError if no weight matches, or if the run has another type of model.
    """
    type_of_source = read_config(source.folder, source.record).model_type
    if type_of_source != (own_type := getattr(model, "model_type", "")):
        raise UserError(
            f"{source.folder} has a model of type {type_of_source}, expected {own_type}.\n"
            f"Choose a run of the same type, or leave --init-from out."
        )
    own = model.state_dict()
    weights = source.weights
    taken = {
        name: weights[name]
        for name, tensor in own.items()
        if name in weights and tuple(weights[name].shape) == tuple(tensor.shape)
    }
    new = [name for name in own if name not in taken]
    if not taken:
        name = new[0]
        found = f"{name} {tuple(weights[name].shape)}" if name in weights else next(iter(weights), "nothing")
        raise UserError(
            f"no weight of {source.folder} matches this model: "
            f"expected {name} {tuple(own[name].shape)}, found {found}.\n"
            f"Choose a model of the same sizes, or leave --init-from out."
        )
    model.load_state_dict(taken, strict=False)
    numbers = sum(own[name].numel() for name in taken), sum(tensor.numel() for tensor in own.values())
    of = f"{len(taken)} of {counted(len(own), 'weight')} ({numbers[0]:,} of {counted(numbers[1], 'number')})"
    lines = [f"{of} are from {source.folder}, {source.checkpoint}"]
    if new:
        changed = [f"{n} ({tuple(own[n].shape)}, not {tuple(weights[n].shape)})" for n in new if n in weights]
        missing = [n for n in new if n not in weights]
        modules = _modules(missing, list(taken) + [n for n in new if n in weights])
        lines.append(f"new: {_join([*modules, *changed])}")
    if unused := [name for name in weights if name not in taken and name not in own]:
        lines.append(f"not used: {_join(_modules(unused, list(taken)))}")
    return lines


def _modules(names: list[str], others: list[str]) -> list[str]:
    """The names of weights, where a module's name replaces the names of its weights if all are in `names`."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split(".")
        prefixes = (".".join(parts[:n]) for n in range(1, len(parts) + 1))
        found[next(p for p in prefixes if not any(f"{o}.".startswith(f"{p}.") for o in others))] = None
    return list(found)


def _join(names: list[str], most: int = 6) -> str:
    """Join names in a line. After the first `most`, the number of others follows."""
    others = f" and {counted(len(names) - most, 'other')}" if len(names) > most else ""
    return ", ".join(names[:most]) + others
