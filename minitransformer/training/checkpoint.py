"""Checkpoints of a run: the model, the optimizer and the trainer's state, a folder for each checkpoint.

    checkpoints/step-00000120/   model.safetensors  optimizer.safetensors  state.json
    checkpoints/index.json       {"last": "step-00000120", "best": "step-00000100"}

A folder appears under its name only when it is complete, and the index changes after it: whatever interrupts
a save, the earlier checkpoints remain.
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
    """A checkpoint that is not there, or not what it should be."""


class Checkpoints:
    """The checkpoints of one run folder; `keep` is how many of the latest stay (the best always does)."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = Path(folder), keep

    @property
    def index(self) -> dict[str, str]:
        path = self.folder / "index.json"
        return read_json(path) if path.is_file() else {}

    def save(
        self, step: int, model: nn.Module, optimizer: optim.Optimizer, state: dict[str, Any], best: bool
    ) -> Path:
        """Write the checkpoint of `step`, unless it exists; it becomes the last and, if `best`, the best."""
        index, name = self.index, f"step-{step:08d}"
        if name not in index.values():
            partial = self.folder / f".{name}.partial"
            for leftover in (
                partial,
                self.folder / name,
            ):  # of a save that was cut short before the index knew of it
                shutil.rmtree(leftover, ignore_errors=True)
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
        """The folder of the "best" or the "last" checkpoint, or of one by its name."""
        index, stand = self.index, sorted(path.name for path in self.folder.glob("step-*"))
        name = index.get(which, which)
        if name in stand:
            return self.folder / name
        known = ", ".join([*sorted(key for key in index if index[key] in stand), *stand])
        fix = f"Choose one of {known}." if known else "Train first, or continue the run with --resume."
        raise CheckpointError(f"{self.folder} has no checkpoint {which!r}.\n{fix}")

    def load_model(self, model: nn.Module, which: str = "best") -> Path:
        """Copy a checkpoint's parameters into `model`."""
        path = self.path(which)
        try:
            model.load_state_dict(load_file(path / "model.safetensors"))
        except MinigradError as error:
            raise self._unusable(path, error, "Use another with --checkpoint") from None
        return path

    def restore(self, model: nn.Module, optimizer: optim.Optimizer) -> dict[str, Any]:
        """Put model and optimizer where the last checkpoint left them; gives its state."""
        path = self.path("last")
        try:
            model.load_state_dict(load_file(path / "model.safetensors"))
            optimizer.load_state_dict(load_file(path / "optimizer.safetensors"))
        except MinigradError as error:
            fix = f'Name another as "last" in {self.folder / "index.json"}'
            raise self._unusable(path, error, fix) from None
        state = read_json(path / "state.json")
        if not {"step", "seconds", "best_loss", "task"} <= set(state):
            raise CheckpointError(
                f"{path / 'state.json'} is damaged.\nTrain anew with --overwrite, or name another checkpoint "
                f'"last" in {self.folder / "index.json"}.'
            )
        return state

    def _unusable(self, path: Path, error: MinigradError, fix: str) -> CheckpointError:
        others = ", ".join(other.name for other in sorted(self.folder.glob("step-*")) if other != path)
        what = f"{path} cannot be used: {str(error).splitlines()[0]}"
        return CheckpointError(
            f"{what}\n{fix}: {others}." if others else f"{what}\nTrain anew with --overwrite."
        )
