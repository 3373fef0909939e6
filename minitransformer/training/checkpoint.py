"""Checkpoints of a run: model, optimizer and trainer state. Each checkpoint is a folder.

    checkpoints/step-00000120/   model.safetensors  optimizer.safetensors  state.json  SHA256SUMS
                                 ema.safetensors, the moving average of the weights, if there is one
    checkpoints/index.json       {"last": "step-00000120", "best": "step-00000100"}

A checkpoint is written to a temporary folder, which is renamed when it is complete. Links are never followed
(see directory.py). Files are checked against SHA256SUMS (the format of `sha256sum`) whenever they are read.
state.json names the run and the best checkpoint so far. index.json repeats that for other programs, and shows
whether a folder is missing.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from minigrad import MinigradError, NonFiniteError, Tensor, nn, optim
from minigrad.io import LEFTOVER, check_size, load_bytes, temporary_name, to_bytes

from ..errors import UserError, counted
from ..files import json_bytes, read_bytes, read_json, read_text, sha256
from .averaging import MovingAverage, mean_of
from .directory import Directory, Inode
from .lock import open_folder
from .log import suppress_full_disk

MODEL, EMA, OPTIMIZER, STATE, SUMS = FILES = (
    "model.safetensors", "ema.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS",
)  # fmt: skip
STATE_TYPES: dict[str, Any] = {"step": int, "seconds": float, "task": dict}
INDEX = "index.json"
UNUSABLE = "unusable-"  # prefix of a damaged checkpoint, moved aside
_UNUSABLE = re.compile(rf"{UNUSABLE}step-[0-9]{{8,}}-[0-9]+")
_OLD_LEFTOVER = re.compile(rf"\.(?P<name>({UNUSABLE})?step-[0-9]{{8,}}(-[0-9]+)?)\.partial[0-9]*")
PATIENCE = 5.0  # seconds for which a reader retries while a training replaces checkpoints

MAX_SHOWN = 10  # checkpoints in a message

T = TypeVar("T")


def list_names(names: list[str]) -> str:
    """The names for a message; if there are many, their number and the newest."""
    return ", ".join(names) if len(names) <= MAX_SHOWN else f"{len(names):,} steps up to {names[-1]}"


class CheckpointError(UserError):
    """Raised for a checkpoint that is missing, damaged, or belongs to another run."""


class UnusableError(CheckpointError):
    """Raised for a checkpoint that cannot be loaded.

    The `others` are listed only when the message is shown: listing thousands of folders for each error would
    take minutes.
    """

    def __init__(self, problem: str, others: Callable[[], list[str]]) -> None:
        super().__init__(problem)
        self.others = others

    def __str__(self) -> str:
        others = self.others()
        fix = (
            f"Use another with --checkpoint {others[-1]}, or continue the run with `train --resume`, "
            f"which goes back to the last intact checkpoint."
            if others
            else "Start over with `train --overwrite`."
        )
        return f"{self.args[0]}\n{fix}"


class Checkpoints:
    """The checkpoints of a run folder: the `keep` latest, and the best.

    `identity` (the run's id and the tokenizer's checksum) is written to each checkpoint, and checked when one
    is read.
    """

    def __init__(self, folder: Path, keep: int = 2, identity: Mapping[str, str] | None = None) -> None:
        self.folder = Path(folder)
        self.keep = keep
        self.identity = dict(identity or {})
        self._inode: Inode | None = None  # of the folder that this process has written to
        self._current = ""  # the checkpoint that this process wrote or restored last
        self._best = ""

    def names(self) -> list[str]:
        """The names of the checkpoints, in order of their steps."""
        return sorted(filter(_is_name, self._list()), key=step_of)

    def _list(self) -> list[str]:
        """The names in the folder; empty if it does not exist."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.listdir(self.folder)
        return []

    def retry_read(self, read: Callable[[], T]) -> T:
        """Call `read`, and retry if it fails because a running training replaces checkpoints.

        Its error is raised only if the checkpoints did not change meanwhile: then they are damaged.
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
        """The names of the "last" and the "best" checkpoint; empty if there is none."""
        return self.retry_read(self._index)

    def _index(self) -> dict[str, str]:
        names = self.names()
        if not names:
            return {}
        self._check_newest(names)
        best = self._best_of(names)
        if best not in names:
            raise CheckpointError(
                f"the best checkpoint of {self.folder}, {best}, is missing.\n"
                f"Use another with --checkpoint {names[-1]}, or continue the run with `train --resume`."
            )
        return {"last": names[-1], "best": best}

    def _best_of(self, names: list[str]) -> str | None:
        """The best checkpoint, which the last one names."""
        best = self._state(self.folder / names[-1]).get("best")
        if best in names:
            return best
        # index.json knows its replacement; runs of older versions have only the index
        return self._from_index("best") or best

    def _from_index(self, which: str) -> str | None:
        """The "last" or the "best" checkpoint according to index.json."""
        with suppress(UserError):
            name = read_json(self.folder / INDEX, {which: str})[which]
            return name if _is_name(name) else None
        return None

    def _missing(self, names: list[str]) -> str | None:
        """The newest checkpoint according to index.json, if it is missing."""
        last = self._from_index("last")
        if last is None or (names and step_of(last) <= step_of(names[-1])):
            return None
        return (
            None if (self.folder / last).exists() else last
        )  # it may have been written after `names` was read

    def _check_newest(self, names: list[str]) -> None:
        if missing := self._missing(names):
            raise CheckpointError(
                f"the newest checkpoint of {self.folder}, {missing}, is missing.\n"
                f"Use another with --checkpoint {names[-1]}, or continue the run with `train --resume`."
            )

    def path(self, which: str = "best") -> Path:
        """The folder of the "best" or the "last" checkpoint, or of a checkpoint by name."""
        names = self.names()
        if names and which == "last":
            self._check_newest(names)
            return self.folder / names[-1]
        if names and which == "best":
            return self.folder / self.index["best"]
        if which in names:
            return self.folder / which
        fix = (
            f"Choose one of best, last, {list_names(names)}, average:N; with --ema-decay also ema."
            if names
            else "Train a model first, or continue the run with --resume."
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
        """Write a checkpoint of `step`: the last and, if `best`, the best. Returns None if it exists."""
        name = name_of(step)
        if name == self._current:
            return None
        weights = model.state_dict()
        check_finite(weights, f"step {step}")
        index = {"last": name, "best": name if best or not self._best else self._best}
        parts = {MODEL: weights, OPTIMIZER: optimizer.state_dict()}
        if average is not None:
            parts[EMA] = average.state_dict()
        sizes = {}
        sums = {}
        with self._open(create=True) as folder:
            with folder.temporary_folder(name) as partial:
                for file, tensors in parts.items():
                    content = to_bytes(tensors)
                    partial.write(file, content)
                    sizes[file], sums[file] = len(content), sha256(content)
                run = {"run": None, **self.identity}
                content = json_bytes({**state, "best": index["best"], "bytes": sizes, **run})
                partial.write(STATE, content)
                sums[STATE] = sha256(content)
                partial.write(SUMS, "".join(f"{sums[file]}  {file}\n" for file in sums).encode())
            self._discard(folder, name)
            folder.rename(partial.path.name, name)
            self._current = name
            self._best = index["best"]
            self._finish(folder, index)
        return self.folder / name

    @contextmanager
    def _open(self, create: bool = False) -> Iterator[Directory]:
        """Open the folder for writing."""
        with (
            open_folder(self.folder.parent, create) as run,
            run.folder(self.folder.name, create) as folder,
        ):
            if self._inode not in (None, folder.inode):
                raise run.replaced_error(self.folder)
            self._inode = folder.inode
            yield folder

    def _finish(self, folder: Directory, index: dict[str, str]) -> None:
        """Write the index, and delete checkpoints that are neither among the latest nor the best."""
        with suppress_full_disk():  # a copy for other programs: the checkpoints say the same
            folder.write(INDEX, json_bytes(index))
        for old in sorted(filter(_is_name, folder.folders()), key=step_of)[: -self.keep]:
            if old != index["best"]:
                self._discard(folder, old)

    def _discard(self, folder: Directory, name: str) -> None:
        """Delete a checkpoint. It is renamed first, so that an incomplete one never counts as complete."""
        if folder.kind(name):
            temporary = temporary_name(name)
            folder.rename(name, temporary)
            self._remove(folder, temporary, name)

    def _remove(self, folder: Directory, temporary: str, name: str) -> None:
        """Delete the files of a checkpoint, and its folder unless a user has put something else there."""
        with folder.folder(temporary) as files:
            for file in files.names():
                if _is_checkpoint_file(file, temporary) and stat.S_ISREG(files.kind(file)):
                    files.delete(file)
        if not folder.delete_folder(temporary):
            folder.rename(temporary, _unusable_name(folder, name.removeprefix(UNUSABLE)))

    def remove_leftovers(self) -> None:
        """Remove the files that a killed process left behind."""
        with open_folder(self.folder.parent) as run:
            if not run.kind(self.folder.name):
                return
            with run.folder(self.folder.name) as folder:
                for temporary in folder.folders():
                    found = LEFTOVER.fullmatch(temporary) or _OLD_LEFTOVER.fullmatch(temporary)
                    if found and (_is_name(found["name"]) or _UNUSABLE.fullmatch(found["name"])):
                        self._remove(folder, temporary, found["name"])
                for file in folder.names():
                    if (found := LEFTOVER.fullmatch(file)) and found["name"] == INDEX:
                        folder.delete(file)

    def clear(self) -> None:
        """Delete all checkpoints, and nothing else in their folder."""
        with open_folder(self.folder.parent) as run:
            if not run.kind(self.folder.name):
                return
            with run.folder(self.folder.name) as folder:
                for name in folder.folders():
                    if _is_name(name) or _UNUSABLE.fullmatch(name):
                        self._discard(folder, name)
                folder.delete(INDEX)
            run.delete_folder(self.folder.name)

    # ------------------------------------------------------------ reading

    def read_model(self, which: str = "best") -> tuple[Path, bytes]:
        """The folder of a checkpoint, and the content of its weights file, checked against its checksum.

        "ema" and "best" read the averaged weights, if there are any: validation scored those.
        """
        return self.retry_read(lambda: self._read_model(which))

    def _read_model(self, which: str) -> tuple[Path, bytes]:
        path = self.path("last" if which == "ema" else which)
        state = self._state(path)
        averaged = EMA in _sizes(state)
        if which == "ema" and not averaged:
            raise CheckpointError(
                f"{path} has no moving average of the weights.\n"
                f"Train with --ema-decay 0.999, or use another with --checkpoint best."
            )
        return path, self._read(path, EMA if averaged and which in ("best", "ema") else MODEL, state)

    def read_weights(self, which: str = "best") -> tuple[Path, dict[str, Tensor]]:
        """The folder and the weights of a checkpoint; for "average:5", the mean of the newest five."""
        kind, _, count = which.partition(":")
        if kind == "average":
            return self.folder / which, self.retry_read(lambda: self.average(count))
        path, content = self.read_model(which)
        return path, self._weights(path, content)

    def average(self, count: str) -> dict[str, Tensor]:
        """The mean of the weights of the newest `count` checkpoints (Vaswani et al. 2017, section 6.1)."""
        names = self.names()
        if names:
            self._check_newest(names)
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
            raise self._unusable(path, str(error).splitlines()[0]) from None
        return weights

    def load_model(self, model: nn.Module, which: str = "best") -> Path:
        """Load the parameters of a checkpoint into `model`."""
        return self.load(model, *self.read_weights(which))

    def load(self, model: nn.Module, path: Path, weights: dict[str, Tensor], assign: bool = False) -> Path:
        """Load the weights of a checkpoint into `model`; with `assign`, without a copy."""
        try:
            for name, own in model.state_dict().items():
                if name in weights and weights[name].dtype != own.dtype:  # load_state_dict would convert it
                    raise self._unusable(path, f"{name} is {weights[name].dtype}, expected {own.dtype}")
            model.load_state_dict(weights, assign=assign)
        except MinigradError as error:
            raise self._unusable(path, str(error).splitlines()[0]) from None
        return path

    def restore(
        self, model: nn.Module, optimizer: optim.Optimizer, average: MovingAverage | None = None
    ) -> dict[str, Any]:
        """Load the last checkpoint into model, optimizer and average; returns the trainer's state."""
        path = self.path("last")
        state, averaged = self._restore(path, model, optimizer)
        if average is not None:  # if the run has none yet, it starts from the weights
            average.load_state_dict(averaged or model.state_dict())
        # runs of older versions monitor the loss
        state.setdefault("best_score", {"monitor": "loss", "value": state.get("best_loss"), "waited": 0})
        if state.get("best") != self.index["best"]:
            state["best_score"]["value"] = None  # it was damaged: the next validation becomes the best
        self._current, self._best = path.name, self.index["best"]
        return state

    def _restore(
        self, path: Path, model: nn.Module, optimizer: optim.Optimizer
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        state = self._state(path)
        weights = {
            file: self._weights(path, self._read(path, file, state))
            for file in (MODEL, EMA)
            if file == MODEL or file in _sizes(state)
        }
        self.load(model, path, weights[MODEL])
        try:
            moments = load_bytes(self._read(path, OPTIMIZER, state), str(path / OPTIMIZER))
            check_finite(moments, path.name)
            optimizer.load_state_dict(moments)
        except MinigradError as error:
            raise self._unusable(path, str(error).splitlines()[0]) from None
        return state, weights.get(EMA, {})

    def repair(self, model: nn.Module, optimizer: optim.Optimizer) -> list[str]:
        """Move damaged checkpoints aside, so that the run continues from the last intact one.

        To test a checkpoint, it is loaded into model and optimizer. Returns a message for each damaged one.
        """
        names = self.names()
        problems = {}
        missing = self._missing(names)
        if missing and not names:
            raise CheckpointError(
                f"all checkpoints of {self.folder} are missing; the newest was {missing}.\n"
                f"Put them back, or start over with --overwrite."
            )
        for name in names:
            try:
                self._restore(self.folder / name, model, optimizer)
            except CheckpointError as error:
                problems[name] = error.args[0].splitlines()[0]
        if problems and len(problems) == len(names):
            raise CheckpointError(
                f"{problems[names[-1]]}\nThere is no other checkpoint: start over with --overwrite."
            )
        if not names:
            return []
        messages = []
        with self._open() as folder:
            for name, problem in problems.items():
                aside = _unusable_name(folder, name)
                folder.rename(name, aside)
                messages.append(f"{problem}\nIt was moved to {aside}.")
            names = self.names()
            if missing and missing not in problems:
                messages.append(
                    f"the newest checkpoint of {self.folder}, {missing}, is missing: "
                    f"the run continues from {names[-1]}."
                )
            best = self._best_of(names)
            if best not in names:  # the last takes its place
                if best is not None and best not in problems:
                    messages.append(
                        f"the best checkpoint of {self.folder}, {best}, is missing: "
                        f"{names[-1]} takes its place until a validation is better."
                    )
                best = names[-1]
            self._finish(folder, {"last": names[-1], "best": best})
        more = [f"... and {len(messages) - MAX_SHOWN:,} more"] if len(messages) > MAX_SHOWN else []
        return messages[:MAX_SHOWN] + more

    def _state(self, path: Path) -> dict[str, Any]:
        """The content of state.json; raises an error if it is damaged, or another run's."""
        sums = self._sums(path)
        try:
            self._check(path, STATE, read_bytes(path / STATE), sums)
            state = read_json(path / STATE, STATE_TYPES)
        except CheckpointError:
            raise
        except UserError as error:
            raise self._unusable(path, str(error).splitlines()[0]) from None
        best = state.get("best")
        if not (best is None or (isinstance(best, str) and _is_name(best))):
            raise self._unusable(path, f"{STATE} does not name a best checkpoint")
        if not sums and "run" in state:
            raise self._unusable(path, f"it has no {SUMS}")
        for key, value in self.identity.items():
            if state.get(key) != value:
                of = "run" if key == "run" else "tokenizer"
                raise self._unusable(path, f"it belongs to another {of}")
        return state

    def _sums(self, path: Path) -> dict[str, str]:
        """The checksums of a checkpoint; empty if an older version wrote it."""
        if not (path / SUMS).is_file():
            return {}
        try:
            lines = read_text(path / SUMS, 2**16).splitlines()
        except UserError as error:
            raise self._unusable(path, str(error).splitlines()[0]) from None
        return {file: checksum for checksum, _, file in (line.partition("  ") for line in lines)}

    def _read(self, path: Path, file: str, state: Mapping[str, Any]) -> bytes:
        """The content of a checkpoint's file, checked against its size and checksum."""
        size = _sizes(state).get(file)
        try:
            found = (path / file).stat().st_size
            if isinstance(size, int) and found != size:
                raise self._unusable(path, f"{file} has {counted(found, 'byte')}, expected {size:,}")
            check_size(path / file)
            content = read_bytes(path / file, 2**40)
        except CheckpointError:
            raise
        except MinigradError as error:
            raise self._unusable(path, str(error).splitlines()[0].removesuffix(".")) from None
        except OSError as error:
            raise self._unusable(path, f"{file}: {error.strerror}") from None
        except UserError as error:
            raise self._unusable(path, str(error).splitlines()[0]) from None
        sums = self._sums(path)
        if not sums and "run" in state:
            raise self._unusable(path, f"it has no {SUMS}")
        self._check(path, file, content, sums)
        return content

    def _check(self, path: Path, file: str, content: bytes, sums: Mapping[str, str]) -> None:
        if sums and sha256(content) != sums.get(file):
            raise self._unusable(path, f"{file} does not match its checksum in {SUMS}")

    def _unusable(self, path: Path, problem: str) -> CheckpointError:
        return UnusableError(
            f"{path} cannot be loaded: {problem.rstrip('.')}.",
            lambda: [name for name in self.names() if name != path.name],
        )


def _is_name(name: str) -> bool:
    """Whether a name is that of a checkpoint."""
    digits = name.removeprefix("step-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < 20  # int() rejects 4,301 digits
    return is_number and name == name_of(int(digits))


def name_of(step: int) -> str:
    """`step-00000120`. From step 100,000,000 on, names are longer."""
    return f"step-{step:08d}"


def step_of(name: str) -> int:
    """The step in a checkpoint's name. Names sort by it, not as strings: see `name_of`."""
    return int(name.removeprefix("step-"))


def _is_checkpoint_file(file: str, folder: str) -> bool:
    """Whether `save` wrote a file in a checkpoint's folder, or a temporary file of it."""
    found = LEFTOVER.fullmatch(file)
    if found is None and _OLD_LEFTOVER.fullmatch(folder):
        found = re.fullmatch(r"\.(?P<name>.+)\.[0-9a-f]{8}", file)
    return file in FILES or (found is not None and found["name"] in FILES)


def _unusable_name(folder: Directory, name: str) -> str:
    """A free name for a damaged checkpoint that is moved aside."""
    name = re.sub(r"-\d+$", "", name) if name.count("-") > 1 else name
    number = 0
    while folder.kind(f"{UNUSABLE}{name}-{number}"):
        number += 1
    return f"{UNUSABLE}{name}-{number}"


def _sizes(state: Mapping[str, Any]) -> dict[str, Any]:
    """The size of each file of a checkpoint in bytes; empty if an older version wrote it."""
    sizes = state.get("bytes")
    return sizes if isinstance(sizes, dict) else {}


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
