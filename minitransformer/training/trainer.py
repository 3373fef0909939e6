"""The trainer: a loop that can be read in one sitting."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from minigrad import (
    GradScaler,
    Tensor,
    autocast,
    get_float32_matmul_precision,
    nn,
    no_grad,
    optim,
    random,
    set_float32_matmul_precision,
)
from minigrad import capture as capture_step
from minigrad.debug import first_nonfinite
from minigrad.errors import NonFiniteError
from minigrad.io import write_atomically

from ..config import TrainConfig
from ..errors import UserError
from ..files import to_json
from .checkpoint import Checkpoints
from .curves import read_log
from .ranks import Ranks, RanksError
from .tasks import Task


class Trainer:
    """Trains `model` on `task`, keeping a log and checkpoints in `folder`.

        Trainer(model, task, TrainConfig(steps=500), Path("runs/mine")).train()

    The same seed gives the same weights, bit for bit, also through `resume`. With `ranks` each computes its
    rows of every batch, and rank 0 writes to `folder`. With `capture` a GPU replays the step as a graph
    (`minigrad.capture`): the same weights, in less time. Its loss is then read, and found not to be finite,
    only when it is logged or saved, or a validation is due; a CPU takes the steps as ever.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        config: TrainConfig,
        folder: Path,
        console: Console | None = None,
        ranks: Ranks | None = None,
        capture: bool = False,
    ) -> None:
        self.model, self.task, self.config, self.folder = model, task, config, Path(folder)
        self.ranks = ranks or Ranks()
        if self.ranks.size > 1 and task.largest_batch < self.ranks.size:
            raise RanksError(
                f"{self.ranks.size} ranks have nothing to do for all of them: no batch has more than "
                f"{task.largest_batch} rows.\nStart fewer, or make the batches larger."
            )
        self.console = console or Console(stderr=True, quiet=self.ranks.rank > 0)
        self.checkpoints = Checkpoints(self.folder / "checkpoints")
        self._log = self.folder / "log.jsonl"
        self.optimizer = optim.AdamW(
            _decay_groups(model, config.weight_decay),
            config.lr,
            config.betas,
            config.adam_eps,
            config.weight_decay,
        )
        half = config.precision in ("bfloat16", "float16")
        self.autocast = autocast(dtype=config.precision if half else "bfloat16", enabled=half)
        self.scaler = GradScaler(enabled=config.precision == "float16")
        self.step, self.seconds, self.best_loss = 0, 0.0, math.inf
        on_gpu = next(model.parameters()).device != "cpu"
        self._captured: Any = self._capture() if capture and on_gpu else None
        self._unread: tuple[Any, list[Tensor], Tensor] | None = None  # a step's batch, losses, norm
        self._pace: list[tuple[int, float]] = []  # tokens and seconds since a loss was read
        self._last = {"loss": math.nan, "grad_norm": math.nan, "tokens_per_second": 0.0}
        random.manual_seed(config.seed)

    # ------------------------------------------------------------ one step

    def train_step(self) -> dict[str, float]:
        """One batch: forward, backward, clip, update. Gives what the log says of it."""
        config, start = self.config, time.perf_counter()
        step = self.step + 1
        batch = self.task.next_batch()
        random.set_step(step)
        self.model.train()
        lr = config.learning_rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        parts = list(self.ranks.shard(self.task.split(batch, config.micro_batches * self.ranks.size)))
        if self._captured is not None:
            return {"step": step, "lr": lr, **self._replay(batch, parts, start)}
        losses = self._backward(parts, batch.n_tokens)
        loss = self.ranks.sum_gradients(self.model.parameters(), sum((part.item() for part in losses), 0.0))
        self.scaler.unscale_(self.optimizer)
        norm = self._clip().item()
        if not (math.isfinite(loss) and (math.isfinite(norm) or self.scaler.enabled)):
            raise self._failed(step, batch, loss, norm)
        self.scaler.step(self.optimizer)
        try:
            self.scaler.update()
        except NonFiniteError as error:
            raise self._failed(step, batch, loss, norm, ", however small it is scaled") from error
        self.step = step
        seconds = time.perf_counter() - start
        self.seconds += seconds
        return {
            "step": step,
            "loss": loss,
            "lr": lr,
            "grad_norm": norm,
            "tokens_per_second": batch.n_tokens / seconds,
        }

    def _backward(self, parts: Iterable[tuple[int, Any]], n_tokens: Any) -> list[Tensor]:
        """Gradients of the mean loss of a batch, part by part; gives each part's share of the loss."""
        self.optimizer.zero_grad()
        losses = []
        with self._products():
            for first, part in parts:
                with random.rows(first), self.autocast:  # a part draws its rows of what the whole batch would
                    loss = self.task.loss(self.model, part, self.config.label_smoothing) / n_tokens
                self.scaler.scale(loss).backward()
                losses.append(loss.detach())
        return losses

    @contextmanager
    def _products(self) -> Iterator[None]:
        """Products of float32 are as precise as `config` says, and afterwards as they were before."""
        before = get_float32_matmul_precision()
        set_float32_matmul_precision("high" if self.config.precision == "tf32" else "highest")
        try:
            yield
        finally:
            set_float32_matmul_precision(before)

    def _clip(self) -> Tensor:
        return optim.clip_grad_norm_(self.model.parameters(), self.config.clip_norm or math.inf)

    def _failed(self, step: int, batch: Any, loss: float, norm: float, also: str = "") -> NonFiniteError:
        """What to say of a step whose numbers are not finite."""
        what = f"the loss is {loss:.4g}, the norm of its gradients {norm:.4g}{also}"
        forward = lambda: self.task.loss(self.model, batch, self.config.label_smoothing)
        return self._not_finite(step, what, forward)

    # ------------------------------------------------------------ one step, captured

    def _capture(self) -> Any:
        """The step from batch to update, to be replayed."""
        if self.ranks.size > 1 or self.scaler.enabled:
            what = (
                "several ranks" if self.ranks.size > 1 else "float16, whose gradients are checked on the CPU,"
            )
            raise UserError(
                f"a step of {what} cannot be captured.\nLeave --capture out, or train on one GPU in bfloat16."
            )

        def step(parts: list[tuple[int, type, list[Any]]], n_tokens: Tensor) -> tuple[list[Tensor], Tensor]:
            losses = self._backward([(first, kind(*arrays)) for first, kind, arrays in parts], n_tokens)
            norm = self._clip()
            self.optimizer.step()
            return losses, norm

        return capture_step(step, device=next(self.model.parameters()).device)

    def _replay(self, batch: Any, parts: list[tuple[int, Any]], start: float) -> dict[str, float]:
        """Take the step. Its loss is read when somebody needs it: that waits for the GPU."""
        given = [(first, type(part), list(vars(part).values())) for first, part in parts]
        losses, norm = self._captured(given, np.array(batch.n_tokens, np.float32))
        self.step += 1
        self._unread = batch, losses, norm
        needed = any(map(self._due, ("log_every", "validate_every", "checkpoint_every")))
        if needed:
            self._read()
        self._pace.append((batch.n_tokens, time.perf_counter() - start))
        self.seconds += self._pace[-1][1]
        if needed:
            tokens, seconds = map(sum, zip(*self._pace, strict=True))
            self._last["tokens_per_second"] = tokens / seconds
            self._pace = []
        return self._last

    def _read(self) -> None:
        """Read the loss and norm of the latest step, unless that is done: both must be finite."""
        if self._unread is None:
            return
        batch, losses, norm = self._unread
        loss, size = sum(part.item() for part in losses), norm.item()
        if not (math.isfinite(loss) and math.isfinite(size)):
            raise self._failed(self.step, batch, loss, size)
        self._last |= {"loss": loss, "grad_norm": size}
        self._unread = None

    def _not_finite(self, step: int, what: str, forward: Callable[[], Any]) -> NonFiniteError:
        """What to say of a failed step: `forward` is run again to find the first module that went wrong."""
        random.set_step(step)
        with self._products():
            module = first_nonfinite(self.model, self.autocast(forward))
        where = (
            f"first in module {module}"
            if module
            else "first outside of its modules: in the output layer (the logits) or the loss"
        )
        if module is None:
            where = "in the backward pass only: the forward pass is finite"
        last = self.checkpoints.index.get("last")
        kept = f"the last checkpoint is {self.checkpoints.folder / last}" if last else "no checkpoint was due"
        return NonFiniteError(
            f"step {step}: {what}, {where}; {kept}.\n"
            f"Lower the learning rate (--lr) or lengthen the warm-up (--warmup-steps); --overwrite the run."
        )

    # ------------------------------------------------------------ the run

    def train(self) -> bool:
        """Go on to `config.steps`, with validations and checkpoints. False if Ctrl-C ended it early."""
        if self.step == 0 and self.checkpoints.index:
            raise UserError(
                f"{self.folder} holds checkpoints already.\n"
                f"Go on with resume() (--resume), or name another folder (--overwrite deletes what is there)."
            )
        self.ranks.check_equal(self.model, self.step)
        log_file: Any = os.devnull
        if self.ranks.rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            log_file = self._log
        stop = False  # Ctrl-C reaches ranks in different steps; they stop after the same one
        calm = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # `train_step` looks for itself
        with calm, _interrupts() as interrupted, self._progress() as show, open(log_file, "a") as log:
            while self.step < self.config.steps and not (stop := self.ranks.any(interrupted.is_set())):
                record = self.train_step()
                if self._due("log_every"):
                    _write(log, record)
                show(record)
                if self._due("validate_every"):
                    self.validate(log)
                if self._due("checkpoint_every"):
                    self.save()
            if stop and self.step:
                self.save()
        return self.step >= self.config.steps

    def _due(self, every: str) -> bool:
        return self.step % getattr(self.config, every) == 0 or self.step == self.config.steps

    def validate(self, log: Any) -> None:
        """Score the validation split, and remember whether it is the best so far."""
        self.model.eval()
        with no_grad(), self._products():
            scores = self.ranks.broadcast(lambda: self.autocast(self.task.validate)(self.model))
        if not math.isfinite(scores["loss"]):
            what = f"the validation loss is {scores['loss']}"
            raise self._not_finite(self.step, what, lambda: self.task.validate(self.model))
        self.model.train()
        _write(log, {"step": self.step, **{f"val_{name}": value for name, value in scores.items()}})
        figures = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        self.console.print(
            f"step {self.step:>6}  {self.seconds:4.0f} s  validation: {figures}",
            highlight=False,
            soft_wrap=True,
        )
        if scores["loss"] < self.best_loss:
            self.best_loss = scores["loss"]
            self.save(best=True)

    def save(self, best: bool = False) -> None:
        """Write a checkpoint of this step, unless there is one already: rank 0 does, if all ranks agree."""
        self._read()  # what is saved is known to be finite
        self.ranks.check_equal(self.model, self.step)
        if self.ranks.rank:
            return
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "best_loss": self.best_loss,
            "task": self.task.state(),
            "scaler": self.scaler.state_dict(),
        }
        self.checkpoints.save(self.step, self.model, self.optimizer, state, best)

    def resume(self) -> bool:
        """Go to where the last checkpoint was; False if there is none. The log forgets what came after."""
        found = "last" in self.checkpoints.index
        if found:
            state = self.checkpoints.restore(self.model, self.optimizer)
            self._unread = None
            self.step, self.seconds = state["step"], state["seconds"]
            self.best_loss = math.inf if state["best_loss"] is None else state["best_loss"]
            self.task.restore(state["task"])
            self.scaler.load_state_dict(state.get("scaler") or self.scaler.state_dict())
        if self.ranks.rank == 0 and self._log.is_file():
            kept = [record for record in read_log(self._log) if record["step"] <= self.step]
            write_atomically(self._log, "".join(to_json(record) + "\n" for record in kept).encode())
        return found

    @contextmanager
    def _progress(self) -> Iterator[Any]:
        """A bar with loss, tokens a second and the time left, on a terminal."""
        columns = (
            TextColumn("training"), BarColumn(), MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4f}"), TextColumn("{task.fields[speed]:,.0f} tokens/s"),
            TimeRemainingColumn(),
        )  # fmt: skip
        speed = 0.0
        with Progress(*columns, console=self.console, disable=not self.console.is_terminal) as progress:
            bar = progress.add_task(
                "", total=self.config.steps, completed=self.step, loss=math.nan, speed=0.0
            )

            def show(record: dict[str, float]) -> None:
                nonlocal speed
                speed += (record["tokens_per_second"] - speed) * (0.1 if speed else 1.0)
                progress.update(bar, completed=self.step, loss=record["loss"], speed=speed)

            yield show


def _decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; biases and the parameters of norms do not."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _write(log: Any, record: dict[str, float]) -> None:
    log.write(to_json(record) + "\n")
    log.flush()


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Set the event on Ctrl-C, so that the step in hand is finished; a second Ctrl-C stops at once."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
