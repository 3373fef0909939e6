"""The trainer: step, log, validate, save."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
from ..files import printable, to_json
from ..tasks.base import Task
from .checkpoint import CheckpointError, Checkpoints
from .curves import read_log
from .folder import lock
from .notebook import NotebookLine
from .ranks import Ranks, RanksError


class Trainer:
    """Trains `model` on `task` and writes a log and checkpoints to `folder`.

        Trainer(model, task, TrainConfig(steps=500), Path("runs/mine")).train()

    The same seed gives the same weights, bit for bit, also after `resume`. Of several `ranks`, each computes
    its shard of every batch, and rank 0 writes to `folder`. With `capture`, a GPU replays the step as a graph
    (`minigrad.capture`): the same weights in less time. The loss is then read, and checked to be finite, only
    when it is logged or saved or a validation is due. On a CPU, `capture` has no effect.
    `identity` (a `Record`'s) is written to the checkpoints, and checked by `resume`.
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
        identity: Mapping[str, str] | None = None,
    ) -> None:
        self.model, self.task, self.config, self.folder = model, task, config, Path(folder)
        self.ranks = ranks or Ranks()
        if self.ranks.size > 1 and task.largest_batch < self.ranks.size:
            raise RanksError(
                f"{self.ranks.size} ranks are too many: the largest batch has {task.largest_batch} rows.\n"
                f"Start fewer ranks, or make the batches larger."
            )
        task.check_parts(config.micro_batches * self.ranks.size)
        self.console = console or Console(stderr=True, quiet=self.ranks.rank > 0)
        self.checkpoints = Checkpoints(self.folder / "checkpoints", identity=identity)
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
        self._timings: list[tuple[int, float]] = []  # tokens and seconds of each step since the last reading
        self._metrics = {"loss": math.nan, "grad_norm": math.nan, "tokens_per_second": 0.0}
        random.manual_seed(config.seed)

    # ------------------------------------------------------------ one step

    def train_step(self) -> dict[str, float]:
        """One batch: forward, backward, clip, update. Returns the log record."""
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
            raise self._nonfinite_step(step, batch, loss, norm)
        self.scaler.step(self.optimizer)
        try:
            self.scaler.update()
        except NonFiniteError as error:
            raise self._nonfinite_step(step, batch, loss, norm, ", at the smallest loss scale") from error
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
        """Accumulate the gradients of the parts of a batch; returns the share of each in the mean loss."""
        self.optimizer.zero_grad()
        losses = []
        with self._matmul_precision():
            for first_row, part in parts:
                with (
                    random.rows(first_row),
                    self.autocast,
                ):  # dropout as in the whole batch
                    loss = self.task.loss(self.model, part, self.config.label_smoothing) / n_tokens
                self.scaler.scale(loss).backward()
                losses.append(loss.detach())
        return losses

    @contextmanager
    def _matmul_precision(self) -> Iterator[None]:
        """A context with the float32 matmul precision of the config."""
        before = get_float32_matmul_precision()
        set_float32_matmul_precision("high" if self.config.precision == "tf32" else "highest")
        try:
            yield
        finally:
            set_float32_matmul_precision(before)

    def _clip(self) -> Tensor:
        return optim.clip_grad_norm_(self.model.parameters(), self.config.clip_norm or math.inf)

    def _nonfinite_step(
        self, step: int, batch: Any, loss: float, norm: float, note: str = ""
    ) -> NonFiniteError:
        """The error for a step whose loss or gradient norm is not finite."""
        problem = f"the loss is {loss:.4g}, the norm of its gradients {norm:.4g}{note}"
        forward = lambda: self.task.loss(self.model, batch, self.config.label_smoothing)
        return self._nonfinite_error(step, problem, forward)

    # ------------------------------------------------------------ one step, captured

    def _capture(self) -> Any:
        """The step from batch to update, captured on the GPU."""
        if self.ranks.size > 1 or self.scaler.enabled:
            setting = (
                "several ranks" if self.ranks.size > 1 else "float16 (its gradients are checked on the CPU)"
            )
            raise UserError(
                f"a step with {setting} cannot be captured.\n"
                f"Leave --capture out, or train on one GPU in bfloat16."
            )

        def step(parts: list[tuple[int, type, list[Any]]], n_tokens: Tensor) -> tuple[list[Tensor], Tensor]:
            losses = self._backward(
                [(row, batch_type(*arrays)) for row, batch_type, arrays in parts], n_tokens
            )
            norm = self._clip()
            self.optimizer.step()
            return losses, norm

        return capture_step(step, device=next(self.model.parameters()).device)

    def _replay(self, batch: Any, parts: list[tuple[int, Any]], start: float) -> dict[str, float]:
        """Replay the step. Its loss is read only when it is needed, because that waits for the GPU."""
        arguments = [(row, type(part), list(vars(part).values())) for row, part in parts]
        losses, norm = self._captured(arguments, np.array(batch.n_tokens, np.float32))
        self.step += 1
        self._unread = batch, losses, norm
        needed = any(map(self._due, ("log_every", "validate_every", "checkpoint_every")))
        if needed:
            self._read()
        self._timings.append((batch.n_tokens, time.perf_counter() - start))
        self.seconds += self._timings[-1][1]
        if needed:
            tokens, seconds = map(sum, zip(*self._timings, strict=True))
            self._metrics["tokens_per_second"] = tokens / seconds
            self._timings = []
        return self._metrics

    def _read(self) -> None:
        """Read the loss and norm of the latest step, once. Both must be finite."""
        if self._unread is None:
            return
        batch, losses, norm = self._unread
        loss, grad_norm = sum(part.item() for part in losses), norm.item()
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            raise self._nonfinite_step(self.step, batch, loss, grad_norm)
        self._metrics |= {"loss": loss, "grad_norm": grad_norm}
        self._unread = None

    def _nonfinite_error(self, step: int, problem: str, forward: Callable[[], Any]) -> NonFiniteError:
        """The error for a failed step; runs `forward` again to find the first module that is not finite."""
        random.set_step(step)
        with self._matmul_precision():
            module = first_nonfinite(self.model, self.autocast(forward))
        where = (
            f"first in module {module}"
            if module
            else "in the backward pass only: the forward pass is finite"
            if module is None
            else "first outside of its modules: in the output layer (the logits) or the loss"
        )
        names = self.checkpoints.names()
        saved = (
            f"the last checkpoint is {self.checkpoints.folder / names[-1]}"
            if names
            else "no checkpoint was due"
        )
        return NonFiniteError(
            f"step {step}: {problem}, {where}; {saved}.\n"
            f"Lower the learning rate (--lr) or increase --warmup-steps, and start over with --overwrite."
        )

    # ------------------------------------------------------------ the run

    def train(self) -> bool:
        """Train up to `config.steps`, with validations and checkpoints. False if a signal stopped it."""
        if self.step == 0 and self.checkpoints.names():
            raise UserError(
                f"{self.folder} already contains checkpoints.\n"
                f"Continue with resume() (--resume), use another folder, or delete them (--overwrite)."
            )
        self.ranks.check_equal(self.model, self.step)
        stop = False  # a signal may reach ranks in different steps; they stop after the same step
        with ExitStack() as stack:
            if self.ranks.rank == 0:
                stack.enter_context(lock(self.folder))
            log = stack.enter_context(open(self._log if self.ranks.rank == 0 else os.devnull, "a"))
            stack.enter_context(np.errstate(over="ignore", invalid="ignore", divide="ignore"))  # checked
            stopped = stack.enter_context(_signals())
            show = stack.enter_context(self._progress())
            while self.step < self.config.steps and not (stop := self.ranks.any(stopped.is_set())):
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
        """Compute the validation metrics; save a checkpoint if the loss is the best so far."""
        self.model.eval()
        with no_grad(), self._matmul_precision():
            scores = self.ranks.broadcast(lambda: self.autocast(self.task.validate)(self.model))
        if not math.isfinite(scores["loss"]):
            problem = f"the validation loss is {scores['loss']}"
            raise self._nonfinite_error(self.step, problem, lambda: self.task.validate(self.model))
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
        """Write a checkpoint of this step, on rank 0, after checking that all ranks are equal."""
        self._read()  # only finite steps are saved
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
        """Load the last intact checkpoint, and truncate the log to its step. False if there is none."""
        if self.ranks.rank == 0:
            with lock(self.folder):
                for message in self.checkpoints.repair(self.model, self.optimizer):
                    self.console.print(f"warning: {printable(message)}", soft_wrap=True)
        self.ranks.barrier()
        found = bool(self.checkpoints.names())
        if found:
            self._restore(self.checkpoints.restore(self.model, self.optimizer))
        if self.ranks.rank == 0 and self._log.is_file():
            records = [record for record in read_log(self._log) if record["step"] <= self.step]
            write_atomically(self._log, "".join(to_json(record) + "\n" for record in records).encode())
        return found

    def _restore(self, state: dict[str, Any]) -> None:
        try:
            self._unread = None
            self.step, self.seconds = state["step"], state["seconds"]
            self.best_loss = math.inf if state["best_loss"] is None else state["best_loss"]
            self.task.restore(state["task"])
            self.scaler.load_state_dict(state.get("scaler") or self.scaler.state_dict())
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the state of step {state['step']} does not fit this training: {error!r}.\n"
                f"Start over with --overwrite."
            ) from None

    @contextmanager
    def _progress(self) -> Iterator[Any]:
        """Steps, loss, tokens per second and remaining time: a bar on a terminal, one line in a notebook."""
        columns = (
            TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
        )  # fmt: skip
        speed = 0.0
        line = NotebookLine() if self.console.is_jupyter and not self.console.quiet else None
        with Progress(*columns, console=self.console, disable=not self.console.is_terminal) as progress:
            bar = progress.add_task("", total=self.config.steps, completed=self.step, figures="")

            def show(record: dict[str, float]) -> None:
                nonlocal speed
                speed += (record["tokens_per_second"] - speed) * (0.1 if speed else 1.0)
                # a captured step's loss is read only now and then
                loss = "" if math.isnan(record["loss"]) else f"loss {record['loss']:.4f} "
                progress.update(bar, completed=self.step, figures=f"{loss}{speed:,.0f} tokens/s")
                if line:
                    line.update(progress.get_renderable(), last=self.step == self.config.steps)

            yield show


def _decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Weight decay for matrices; none for biases and norms."""
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
def _signals() -> Iterator[threading.Event]:
    """Ctrl-C, SIGTERM and SIGHUP set the event, so that the step is finished; a second one stops at once."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    previous = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP, and nohup ignores it
        if number is not None and (name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN):
            previous[number] = signal.signal(number, handle)
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
