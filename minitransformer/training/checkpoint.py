"""Checkpoints of a run: model, optimizer and trainer state. Each checkpoint is a folder.

    checkpoints/step-00000120/   model.safetensors  optimizer.safetensors  state.json  SHA256SUMS
                                 ema.safetensors, the moving average of the weights, if there is one

A checkpoint is written to a temporary folder, which is renamed when it is complete. Files are checked against
SHA256SUMS (the format of `sha256sum`) whenever they are read. state.json names the run and the best
checkpoint so far.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from minigrad import MinigradError, NonFiniteError, Tensor, nn, optim
from minigrad.io import (
    LEFTOVER,
    check_size,
    load_bytes,
    replace,
    sync_folder,
    temporary_name,
    to_bytes,
    write_atomically,
    write_new,
)

from ..errors import UserError, counted
from ..files import JSON_LIMIT, json_bytes, read_bytes, read_json, read_text, sha256
from .averaging import MovingAverage, mean_of

MODEL, EMA, OPTIMIZER, STATE, SUMS = FILES = (
    "model.safetensors", "ema.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS",
)  # fmt: skip
STATE_TYPES: dict[str, Any] = {"step": int, "seconds": float, "best": str}
_NAME = re.compile(r"step-([0-9]{8}|[1-9][0-9]{8,15})")
_UNUSABLE = re.compile(r"unusable-step-[0-9]+-[0-9]+")  # a damaged checkpoint that was moved aside
PATIENCE = 5.0  # seconds for which a reader retries while a training run replaces checkpoints

T = TypeVar("T")


class CheckpointError(UserError):
    """The error for a checkpoint that is missing or damaged, or belongs to another run."""


class Checkpoints:
    """The checkpoints of a run folder: the `keep` latest, and the best.

    `identity` (the run's id and the tokenizer's checksum) is written to each checkpoint, and checked when a
    checkpoint is read.
    """

    def __init__(self, folder: Path, keep: int = 2, identity: Mapping[str, str] | None = None) -> None:
        self.folder = Path(folder)
        self.keep = keep
        self.identity = dict(identity or {})
        self._current = ""  # the checkpoint that this process wrote or restored last
        self._best = ""

    def names(self) -> list[str]:
        """The names of the checkpoints, in order of their steps."""
        return sorted(filter(_NAME.fullmatch, self._list()), key=step_of)

    def _list(self) -> list[str]:
        """The names of all files in the folder; empty if the folder does not exist."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.listdir(self.folder)
        return []

    def retry_read(self, read: Callable[[], T]) -> T:
        """Call `read`, and retry if it fails because a training run replaces checkpoints.

        An error of `read` is raised only if the checkpoints did not change meanwhile, which means that they
        are damaged.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            before = self.names()
            try:
                return read()
            except (UserError, OSError):
                if self.names() == before:
                    raise
                if time.monotonic() > deadline:
                    raise CheckpointError(
                        f"a training replaces the checkpoints of {self.folder} before they can be read.\n"
                        f"Try again when it has ended, or train with a larger --checkpoint-every."
                    ) from None

    @property
    def index(self) -> dict[str, str]:
        """The names of the "last" and the "best" checkpoint; empty if there are no checkpoints."""
        return self.retry_read(self._index)

    def _index(self) -> dict[str, str]:
        names = self.names()
        if not names:
            return {}
        best = self._state(self.folder / names[-1])["best"]
        if best not in names:
            raise CheckpointError(
                f"the best checkpoint of {self.folder}, {best}, is missing.\n"
                f"Use another with --checkpoint {names[-1]}, or continue the run with `train --resume`."
            )
        return {"last": names[-1], "best": best}

    def path(self, which: str = "best") -> Path:
        """The folder of the "best" or the "last" checkpoint, or of a checkpoint by name."""
        names = self.names()
        if names and which == "last":
            return self.folder / names[-1]
        if names and which == "best":
            return self.folder / self.index["best"]
        if which in names:
            return self.folder / which
        fix = (
            f"Choose one of best, last, {', '.join(names)}, average:N; with --ema-decay also ema."
            if names
            else "Continue the run with --resume, or restore its folder checkpoints."
        )
        raise CheckpointError(f"{self.folder} has no checkpoint {which!r}.\n{fix}")

    # ------------------------------------------------------------ writing

    def save(
        self,
        step: int,
        model: nn.Module,
        optimizer: optim.Optimizer,
        state: dict[str, Any],
        best: bool,
        average: MovingAverage | None = None,
    ) -> Path | None:
        """Write the checkpoint of `step`, and mark it as the best if `best`. Return its folder.

        Returns None if the same checkpoint was already written, with the same mark.
        """
        name = name_of(step)
        best_name = name if best or not self._best else self._best
        state = {**state, "best": best_name, **self.identity}
        if name == self._current:
            if best_name == self._best:
                return None
            self._replace_state(self.folder / name, state)
            self._best = best_name
            return self.folder / name
        weights = model.state_dict()
        check_finite(weights, f"step {step}")
        parts = {MODEL: weights, OPTIMIZER: optimizer.state_dict()}
        if average is not None:
            parts[EMA] = average.state_dict()
        sums = ""
        partial = self.folder / temporary_name(name)
        self.folder.mkdir(exist_ok=True)  # without its parents, as the run may have been deleted
        partial.mkdir()
        for file, tensors in parts.items():
            content = to_bytes(tensors)
            write_new(partial / file, content)
            sums += _sum(file, content)
        content = json_bytes(state)
        write_new(partial / STATE, content)
        write_new(partial / SUMS, (sums + _sum(STATE, content)).encode())
        sync_folder(partial)
        if (self.folder / name).exists():
            self._discard(name)
        replace(partial, self.folder / name)
        self._current = name
        self._best = best_name
        self._delete_old()
        return self.folder / name

    def _delete_old(self) -> None:
        """Delete all checkpoints but the best and the last `keep`."""
        for old in self.names()[: -self.keep]:
            if old != self._best:
                self._discard(old)

    def _discard(self, name: str) -> None:
        """Delete a checkpoint. It is renamed first, so that a half-deleted checkpoint is never read."""
        temporary = self.folder / temporary_name(name)
        os.rename(self.folder / name, temporary)
        self._remove(temporary, name)

    def _remove(self, temporary: Path, name: str) -> None:
        """Delete the files of a checkpoint, and its folder. If it has other files, it is moved aside."""
        for path in temporary.iterdir():
            if path.name in FILES and path.is_file():
                path.unlink()
        try:
            temporary.rmdir()
        except OSError:
            os.rename(temporary, self._aside(name))

    def _aside(self, name: str) -> Path:
        """An unused path to which a checkpoint can be moved aside."""
        digits = name.removeprefix("unusable-").split("-")[1]
        number = 0
        while (path := self.folder / f"unusable-step-{digits}-{number}").exists():
            number += 1
        return path

    def remove_leftovers(self) -> None:
        """Remove temporary folders that were left behind when a process was killed or the disk was full."""
        for name in self._list():
            found = LEFTOVER.fullmatch(name)
            if found is not None and _is_ours(found["name"]):
                self._remove(self.folder / name, found["name"])

    def clear(self) -> None:
        """Delete all checkpoints, but no other files in their folder."""
        self.remove_leftovers()
        for name in filter(_is_ours, self._list()):
            self._discard(name)
        with suppress(OSError):  # the folder has other files, or does not exist
            self.folder.rmdir()

    # ------------------------------------------------------------ reading

    def read_model(self, which: str = "best") -> tuple[Path, bytes]:
        """The folder of a checkpoint, and the content of its weights file, checked against its checksum.

        For "ema" and "best", these are the averaged weights if there are any, as validation scored them.
        """
        return self.retry_read(lambda: self._read_model(which))

    def _read_model(self, which: str) -> tuple[Path, bytes]:
        path = self.path("last" if which == "ema" else which)
        self._state(path)  # raises an error if the checkpoint belongs to another run
        averaged = self._has_average(path)
        if which == "ema" and not averaged:
            raise CheckpointError(
                f"{path} has no moving average of the weights.\n"
                f"Train with --ema-decay 0.999, or use another with --checkpoint best."
            )
        return path, self._read(path, EMA if averaged and which in ("best", "ema") else MODEL)

    def read_weights(self, which: str = "best") -> tuple[Path, dict[str, Tensor]]:
        """The folder and the weights of a checkpoint, or for "average:5" the mean of the newest five."""
        kind, _, count = which.partition(":")
        if kind == "average":
            return self.folder / which, self.retry_read(lambda: self.mean_of_newest(count))
        path, content = self.read_model(which)
        return path, self._weights(path, content)

    def mean_of_newest(self, count: str) -> dict[str, Tensor]:
        """The mean of the weights of the newest `count` checkpoints (Vaswani et al. 2017, section 6.1)."""
        names = self.names()
        if not count.isdecimal() or not 1 <= int(count) <= len(names):
            raise CheckpointError(
                f"{self.folder} has {counted(len(names), 'checkpoint')}: cannot average {count!r:.20}.\n"
                f"Pass --checkpoint average:N with N from 1 to {len(names)}; `train --keep N` keeps more."
            )
        return mean_of([self._weights(*self.read_model(name)) for name in names[-int(count) :]])

    def _weights(self, path: Path, content: bytes) -> dict[str, Tensor]:
        """Parse the content of a weights file, and check that all weights are finite."""
        try:
            weights = load_bytes(content, str(path / MODEL))
            check_finite(weights, path.name)
        except MinigradError as error:
            raise self._unusable(path, error) from None
        return weights

    def load_model(self, model: nn.Module, which: str = "best") -> Path:
        """Load the weights of a checkpoint into `model`. Return the checkpoint's folder."""
        return self.load(model, *self.read_weights(which))

    def load(self, model: nn.Module, path: Path, weights: dict[str, Tensor], assign: bool = False) -> Path:
        """Load `weights`, read from the checkpoint `path`, into `model`; with `assign`, without a copy."""
        try:
            for name, own in model.state_dict().items():
                if name in weights and weights[name].dtype != own.dtype:  # load_state_dict would convert it
                    raise self._unusable(path, f"{name} is {weights[name].dtype}, expected {own.dtype}")
            model.load_state_dict(weights, assign=assign)
        except MinigradError as error:
            raise self._unusable(path, error) from None
        return path

    def restore(
        self, model: nn.Module, optimizer: optim.Optimizer, average: MovingAverage | None = None
    ) -> dict[str, Any]:
        """Load the last checkpoint into model, optimizer and average. Return the content of state.json."""
        path = self.path("last")
        state, averaged = self._restore(path, model, optimizer)
        if average is not None:  # without an average in the checkpoint, it starts from the weights
            average.load_state_dict(averaged or model.state_dict())
        self._current, self._best = path.name, state["best"]
        return state

    def _restore(
        self, path: Path, model: nn.Module, optimizer: optim.Optimizer
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        state = self._state(path)
        self.load(model, path, self._weights(path, self._read(path, MODEL)))
        averaged = self._weights(path, self._read(path, EMA)) if self._has_average(path) else {}
        try:
            moments = load_bytes(self._read(path, OPTIMIZER), str(path / OPTIMIZER))
            check_finite(moments, path.name)
            optimizer.load_state_dict(moments)
        except MinigradError as error:
            raise self._unusable(path, error) from None
        return state, averaged

    def repair(self, model: nn.Module, optimizer: optim.Optimizer) -> list[str]:
        """Move damaged checkpoints aside, so that the run continues from the last intact one.

        Each checkpoint is tested by loading it into model and optimizer. If the best one is damaged or
        missing, the last becomes the best. Returns a message for each problem.
        """
        self.remove_leftovers()
        names = self.names()
        problems = {}
        for name in names:
            try:
                self._restore(self.folder / name, model, optimizer)
            except CheckpointError as error:
                problems[name] = str(error).splitlines()[0]
        if problems and len(problems) == len(names):
            raise CheckpointError(
                f"{problems[names[-1]]}\nThere is no other checkpoint: start over with --overwrite."
            )
        messages = []
        for name, problem in problems.items():
            aside = self._aside(name)
            replace(self.folder / name, aside)
            messages.append(f"{problem}\nIt was moved to {aside.name}.")
        if names := self.names():
            best = self._state(self.folder / names[-1])["best"]
            if best not in names:
                self._make_best(self.folder / names[-1])
            if best not in (*names, *problems):
                messages.append(
                    f"the best checkpoint of {self.folder}, {best}, is missing: "
                    f"{names[-1]} takes its place until a validation is better."
                )
            self._best = best if best in names else names[-1]
            self._delete_old()  # in case the process was killed before
        return messages

    def _make_best(self, path: Path) -> None:
        """Mark a checkpoint as the best, without a score, so that any validation is better."""
        state = self._state(path)
        unknown = {**state["best_score"], "value": None}
        self._replace_state(path, {**state, "best": path.name, "best_score": unknown})

    def _replace_state(self, path: Path, state: dict[str, Any]) -> None:
        content = json_bytes(state)
        before = read_text(path / SUMS)
        after = before.replace(_sum(STATE, self._read(path, STATE)), _sum(STATE, content))
        write_atomically(path / SUMS, (before + after).encode())  # valid for both if killed here
        write_atomically(path / STATE, content)
        write_atomically(path / SUMS, after.encode())

    def _state(self, path: Path) -> dict[str, Any]:
        """Return the content of state.json. Raise an error if it is damaged or belongs to another run."""
        self._read(path, STATE)
        try:
            state = read_json(path / STATE, STATE_TYPES)
        except UserError as error:
            raise self._unusable(path, error) from None
        for key, value in self.identity.items():
            if state.get(key) != value:
                raise self._unusable(path, f"it belongs to another {'run' if key == 'run' else 'tokenizer'}")
        return state

    def _has_average(self, path: Path) -> bool:
        """Whether a checkpoint was saved with a moving average."""
        return EMA in read_text(path / SUMS)

    def _read(self, path: Path, file: str) -> bytes:
        """Return the content of a checkpoint's file. Raise an error if its checksum does not match."""
        try:
            limit = JSON_LIMIT
            if file.endswith(".safetensors"):
                check_size(path / file)
                limit = 2**40
            content = read_bytes(path / file, limit)
            sums = read_text(path / SUMS, 2**16)
        except (MinigradError, UserError, OSError) as error:
            raise self._unusable(path, error) from None
        if _sum(file, content) not in sums.splitlines(keepends=True):
            raise self._unusable(path, f"{file} does not match its checksum in {SUMS}")
        return content

    def _unusable(self, path: Path, problem: object) -> CheckpointError:
        """The error for a checkpoint that cannot be loaded."""
        others = [name for name in self.names() if name != path.name]
        fix = (
            f"Use another with --checkpoint {others[-1]}, or continue the run with `train --resume`, "
            f"which goes back to the last intact checkpoint."
            if others
            else "Start over with `train --overwrite`."
        )
        first = str(problem).splitlines()[0].rstrip(".")
        return CheckpointError(f"{path} cannot be loaded: {first}.\n{fix}")


def _is_ours(name: str) -> bool:
    """Whether this is the name of a checkpoint, or of a checkpoint that was moved aside."""
    return bool(_NAME.fullmatch(name) or _UNUSABLE.fullmatch(name))


def name_of(step: int) -> str:
    """The name of a checkpoint, such as `step-00000120`. From step 100,000,000 on, names are longer."""
    return f"step-{step:08d}"


def step_of(name: str) -> int:
    """The step in a checkpoint's name. Names are sorted by it, as they may differ in length."""
    return int(name.removeprefix("step-"))


def _sum(file: str, content: bytes) -> str:
    """The line of a file in SHA256SUMS."""
    return f"{sha256(content)}  {file}\n"


def check_finite(weights: Mapping[str, Tensor | np.ndarray], where: str) -> None:
    """Raise a NonFiniteError that names the first weight that is infinite or NaN."""
    for name, tensor in weights.items():
        if np.issubdtype(tensor.dtype, np.integer):  # their sum would convert all of them to int64
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(tensor.sum())  # fast, but a sum of finite numbers may overflow
        if not np.isfinite(total) and not np.isfinite(np.asarray(tensor)).all():
            raise NonFiniteError(
                f"{where}: {name} contains infinity or NaN.\n"
                f"Use an earlier checkpoint, or train again with a lower learning rate."
            )
