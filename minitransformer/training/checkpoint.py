"""Checkpoints of a run: the model, the optimizer and the trainer's state, each checkpoint in a folder of its own.

    checkpoints/step-00000120/   model.safetensors  optimizer.safetensors  state.json
    checkpoints/index.json       {"last": "step-00000120", "best": "step-00000100"}

A folder appears under its name only when it is complete, and the index changes after it: whatever interrupts a save,
the checkpoints before it stand.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from minigrad import load_file, nn, optim, save_file
from minigrad.io import write_atomically

from ..errors import UserError


class CheckpointError(UserError):
    """A checkpoint that is not there, or not what it should be."""


class Checkpoints:
    """The checkpoints of one run folder; `keep` is how many of the latest stay (the best always does)."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = Path(folder), keep

    @property
    def index(self) -> dict[str, str]:
        path = self.folder / "index.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def save(
        self, step: int, model: nn.Module, optimizer: optim.Optimizer, state: dict[str, Any], best: bool
    ) -> Path:
        """Write the checkpoint of `step`; it becomes the last one and, if `best`, the best."""
        name = f"step-{step:08d}"
        final, partial = self.folder / name, self.folder / f".{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_file(model.state_dict(), partial / "model.safetensors")
        save_file(optimizer.state_dict(), partial / "optimizer.safetensors")
        write_atomically(partial / "state.json", json.dumps(state, indent=1).encode())
        if (
            final.exists()
        ):  # the same step again: what stands there is as good, and stays until the new one is whole
            old = self.folder / f".{name}.old"
            os.replace(final, old)
            os.replace(partial, final)
            shutil.rmtree(old)
        else:
            os.replace(partial, final)
        index = {**self.index, "last": name}
        if best or "best" not in index:
            index["best"] = name
        write_atomically(self.folder / "index.json", json.dumps(index).encode())
        self._prune(index)
        return final

    def _prune(self, index: dict[str, str]) -> None:
        steps = sorted(path for path in self.folder.glob("step-*") if path.is_dir())
        for path in steps[: -self.keep]:
            if path.name not in index.values():
                shutil.rmtree(path)

    def path(self, which: str = "best") -> Path:
        """The folder of the "best" or the "last" checkpoint."""
        name = self.index.get(which)
        if name is None or not (self.folder / name).is_dir():
            raise CheckpointError(
                f"{self.folder} has no {which} checkpoint.\nTrain first, or continue the run with --resume."
            )
        return self.folder / name

    def load_model(self, model: nn.Module, which: str = "best") -> Path:
        """Copy a checkpoint's parameters into `model`."""
        path = self.path(which)
        try:
            model.load_state_dict(load_file(path / "model.safetensors"))
        except (KeyError, ValueError, OSError) as error:
            raise CheckpointError(f"{path} does not fit the run's config.toml: {error}") from None
        return path

    def restore(self, model: nn.Module, optimizer: optim.Optimizer) -> dict[str, Any]:
        """Put model and optimizer where the last checkpoint left them; gives its state."""
        path = self.load_model(model, "last")
        optimizer.load_state_dict(load_file(path / "optimizer.safetensors"))
        return json.loads((path / "state.json").read_text(encoding="utf-8"))
