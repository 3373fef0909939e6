"""Checkpoints of a run: model, optimizer and trainer state, each in a folder of its own.

    checkpoints/step-00000120/   model.safetensors  optimizer.safetensors  state.json
    checkpoints/index.json       {"last": "step-00000120", "best": "step-00000100"}

A checkpoint is written to a temporary folder, renamed when it is complete, and only then added to the index.
If a save is interrupted, the earlier checkpoints remain valid.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from minigrad import MinigradError, load_file, nn, optim, save_file

from ..errors import UserError
from ..files import read_json, write_json


class CheckpointError(UserError):
    """A checkpoint that is missing or damaged."""


class Checkpoints:
    """The checkpoints of a run folder: the `keep` latest, and the best."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = Path(folder), keep

    @property
    def index(self) -> dict[str, str]:
        path = self.folder / "index.json"
        return read_json(path) if path.is_file() else {}

    def save(
        self, step: int, model: nn.Module, optimizer: optim.Optimizer, state: dict[str, Any], best: bool
    ) -> Path:
        """Write the checkpoint of `step` if there is none. It becomes the last and, if `best`, the best."""
        index, name = self.index, f"step-{step:08d}"
        if name not in index.values():
            partial = self.folder / f".{name}.partial"
            for folder in (partial, self.folder / name):  # left over from an interrupted save
                shutil.rmtree(folder, ignore_errors=True)
            save_file(model.state_dict(), partial / "model.safetensors")
            save_file(optimizer.state_dict(), partial / "optimizer.safetensors")
            write_json(partial / "state.json", state)
            os.replace(partial, self.folder / name)
        index["last"] = name
        if best or "best" not in index:
            index["best"] = name
        write_json(self.folder / "index.json", index)
        self._prune(index)
        return self.folder / name

    def _prune(self, index: dict[str, str]) -> None:
        steps = sorted(path for path in self.folder.glob("step-*") if path.is_dir())
        for path in steps[: -self.keep]:
            if path.name not in index.values():
                shutil.rmtree(path)

    def path(self, which: str = "best") -> Path:
        """The folder of the "best" or the "last" checkpoint, or of a checkpoint by name."""
        index, saved = self.index, sorted(path.name for path in self.folder.glob("step-*"))
        name = index.get(which, which)
        if name in saved:
            return self.folder / name
        known = ", ".join([*sorted(key for key in index if index[key] in saved), *saved])
        fix = (
            f"Choose one of {known}." if known else "Train a model first, or continue the run with --resume."
        )
        raise CheckpointError(f"{self.folder} has no checkpoint {which!r}.\n{fix}")

    def load_model(self, model: nn.Module, which: str = "best") -> Path:
        """Load the parameters of a checkpoint into `model`."""
        path = self.path(which)
        try:
            model.load_state_dict(load_file(path / "model.safetensors"))
        except MinigradError as error:
            raise self._unusable(path, error, "Choose another with --checkpoint") from None
        return path

    def restore(self, model: nn.Module, optimizer: optim.Optimizer) -> dict[str, Any]:
        """Load the last checkpoint into model and optimizer; returns the trainer's state."""
        path = self.path("last")
        try:
            model.load_state_dict(load_file(path / "model.safetensors"))
            optimizer.load_state_dict(load_file(path / "optimizer.safetensors"))
        except MinigradError as error:
            fix = f'Set "last" to another in {self.folder / "index.json"}'
            raise self._unusable(path, error, fix) from None
        state = read_json(path / "state.json")
        if not {"step", "seconds", "best_loss", "task"} <= set(state):
            raise CheckpointError(
                f"{path / 'state.json'} is damaged.\nStart over with --overwrite, or set "
                f'"last" to another checkpoint in {self.folder / "index.json"}.'
            )
        return state

    def _unusable(self, path: Path, error: MinigradError, fix: str) -> CheckpointError:
        others = ", ".join(other.name for other in sorted(self.folder.glob("step-*")) if other != path)
        problem = f"{path} cannot be loaded: {str(error).splitlines()[0]}"
        return CheckpointError(
            f"{problem}\n{fix}: {others}." if others else f"{problem}\nStart over with --overwrite."
        )
