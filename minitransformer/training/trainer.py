"""The trainer: it trains step by step, and logs, validates and saves at intervals."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from minigrad import (
    GradScaler,
    Tensor,
    autocast,
    get_float32_matmul_precision,
    nn,
    no_grad,
    optim,
    set_float32_matmul_precision,
)
from minigrad.core import random
from minigrad.core.errors import NonFiniteError

from ..base_config import check_config
from ..errors import UserError, counted
from ..files import printable
from ..tasks.base import Task
from ..tasks.losses import record_unsmoothed_losses
from .averaging import MovingAverage
from .callbacks import Callbacks
from .captured_step import CapturedStep
from .checkpoint import CheckpointError, Checkpoints
from .config import TrainConfig
from .freezing import freeze
from .log import Log, disk_is_full, sync_log, truncate_log
from .nonfinite import nonfinite_error, nonfinite_step
from .optimizers import build_optimizer
from .progress import SlowSteps, show_progress
from .ranks import Ranks, RanksError, checksum_of
from .schedules import resolve
from .signals import stop_signals
from .stopping import BestScore
from .storage import CHECKPOINTS, LOG, check_owner, lock
from .validation import Validation


class Trainer:
    """Trains `model` on `task`, and writes a log and checkpoints to `folder`.

        Trainer(model, task, TrainConfig(steps=500), Path("runs/mine")).train()

    The same seed gives the same weights, bit for bit, also after `resume`. With several `ranks`, each
    computes its shard of every batch, and rank 0 writes to `folder`.

    `step_runner` takes the step as a function, and returns a function that runs it, such as
    `minigrad.capture`, which captures the step on a GPU and replays it. The loss is then read, and checked to
    be finite, only when a log entry, a validation or a checkpoint is due.

    `identity` (from the run's `Record`) is written to the checkpoints, and checked by `resume`. callbacks.py
    describes `callbacks`. An `optimizer` of the model's parameters replaces the one that the config names;
    the schedule sets its learning rates.

    >>> from pathlib import Path
    >>> from minitransformer import ArrayTask, TrainConfig, Trainer
    >>> x = np.linspace(-1, 1, 64, dtype="float32").reshape(-1, 1)
    >>> task = ArrayTask((x, 3 * x), loss=F.mse_loss, batch_size=16)
    >>> Trainer(nn.Linear(1, 1), task, TrainConfig(steps=20, lr=0.1), Path("runs/line")).train()
    True
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        config: TrainConfig,
        folder: Path,
        console: Console | None = None,
        ranks: Ranks | None = None,
        step_runner: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
        identity: Mapping[str, str] | None = None,
        callbacks: Sequence[Any] = (),
        optimizer: optim.Optimizer | None = None,
    ) -> None:
        self.config = config = resolve(check_config(config, TrainConfig), model, task)
        self.model = model
        self.task = task
        self.folder = Path(folder)
        self.ranks = ranks or Ranks()
        if self.ranks.size > 1 and task.largest_batch < self.ranks.size:
            raise RanksError(
                f"{self.ranks.size} ranks are too many: the largest batch has "
                f"{counted(task.largest_batch, 'row')}.\n"
                f"Start fewer ranks, or make the batches larger."
            )
        task.check_parts(config.micro_batches * self.ranks.size)
        self.console = console or Console(stderr=True, quiet=self.ranks.rank > 0)
        self.checkpoints = Checkpoints(self.folder / CHECKPOINTS, config.keep, identity)
        self._log = self.folder / LOG
        self.callbacks = Callbacks(callbacks if self.ranks.rank == 0 else ())
        if config.freeze:
            freeze(model, config.freeze)
        self.optimizer = build_optimizer(model, config) if optimizer is None else optimizer
        self.average = MovingAverage(model, config.ema_decay) if config.ema_decay else None
        self.validation = Validation(task, config.validation_texts, config.samples)
        self.best = BestScore(config.monitor, config.patience, task.metric(config.monitor))
        self._is_monitor_checked = self._is_batch_checked = False
        half = config.precision in ("bfloat16", "float16")
        self.autocast = autocast(dtype=config.precision if half else "bfloat16", enabled=half)
        self.scaler = GradScaler(enabled=config.precision == "float16")
        self.step = 0
        self.seconds = 0.0
        self.device = next(model.parameters()).device
        self._captured = CapturedStep(self, step_runner) if step_runner is not None else None
        self._slow = SlowSteps()
        self._unsaved_step = -1  # the latest step that did not fit on the disk
        random.manual_seed(config.seed)

    @property
    def trained_parameters(self) -> list[Tensor]:
        """The parameters that are not frozen."""
        return [p for p in self.model.parameters() if p.requires_grad]

    # ------------------------------------------------------------ one step

    def train_step(self) -> dict[str, float]:
        """Train on one batch: forward, backward, clip, update. Return the log entry."""
        start = time.perf_counter()
        step = self.step + 1
        batch = self.task.batch(self.step)
        self._check_batch(batch)
        random.set_step(step)
        self.model.train()
        lr = self._set_learning_rate(step)
        # the micro-batches of this rank; without micro-batches and ranks, the whole batch
        parts = list(self.ranks.shard(self.task.split(batch, self.config.micro_batches * self.ranks.size)))
        if self._captured is not None:
            return {"step": step, "lr": lr, **self._captured.run(batch, parts, start)}
        self.optimizer.zero_grad()
        n_tokens = max(batch.n_tokens, 1)  # a batch may have no targets
        losses = [self.forward_backward(part, first_row, n_tokens) for first_row, part in parts]
        loss, nll = self.ranks.sum_gradients(self.trained_parameters, self.sum_losses(losses))
        norm = self.clip().item()
        self._check_finite(step, batch, loss, norm)
        self.scaler.step(self.optimizer)  # the optimizer's step, unless float16 gradients overflowed
        self._update_loss_scale(step, batch, loss, norm)
        self.step = step
        seconds = time.perf_counter() - start
        self.seconds += seconds
        tokens_per_second = batch.n_tokens / seconds
        return {
            "step": step, "loss": loss, **self.comparable_loss(nll), "lr": lr, "grad_norm": norm,
            "tokens_per_second": tokens_per_second,
        }  # fmt: skip

    def forward_backward(self, part: Any, first_row: int, n_tokens: Any) -> tuple[Tensor, Tensor | float]:
        """Add the gradients of a part of a batch that has `n_tokens` targets in all.

        Returns the part's share of the mean loss, with label smoothing, and without (NaN if unknown).
        """
        smoothing = self.config.label_smoothing
        record: Any = record_unsmoothed_losses() if smoothing else nullcontext([])
        with self.matmul_precision():
            # `random.rows` gives each row the same dropout as in the whole batch
            with random.rows(first_row), self.autocast, record as plain:
                loss = self.task.loss(self.model, part, smoothing) / n_tokens
            self.scaler.scale(loss).backward()
        return loss.detach(), sum(plain) / n_tokens if plain else math.nan

    @staticmethod
    def sum_losses(parts: Sequence[tuple[Any, Any]]) -> list[float]:
        """The losses of a batch, with label smoothing and without, summed over its parts."""
        return [sum((float(part[i]) for part in parts), 0.0) for i in (0, 1)]

    @staticmethod
    def comparable_loss(nll: float) -> dict[str, float]:
        """The log entry of the loss without label smoothing, which is comparable to the validation loss.

        It is empty if the loss is NaN, which means unknown.
        """
        return {} if math.isnan(nll) else {"nll_loss": nll}

    def clip(self) -> Tensor:
        """Clip the gradients to a global norm of `config.clip_norm`. Return the norm before clipping."""
        self.scaler.unscale_(self.optimizer)
        return optim.clip_grad_norm_(self.trained_parameters, self.config.clip_norm or math.inf)

    def _check_finite(self, step: int, batch: Any, loss: float, norm: float) -> None:
        """Raise a NonFiniteError if the loss or, without a loss scale, the norm is not finite."""
        if not (math.isfinite(loss) and (math.isfinite(norm) or self.scaler.enabled)):
            raise nonfinite_step(self, step, batch, loss, norm)

    def _update_loss_scale(self, step: int, batch: Any, loss: float, norm: float) -> None:
        """Update the loss scale of float16. Raise a NonFiniteError if gradients overflow at the smallest."""
        try:
            self.scaler.update()
        except NonFiniteError as error:
            raise nonfinite_step(self, step, batch, loss, norm, ", at the smallest loss scale") from error

    def _set_learning_rate(self, step: int) -> float:
        lr = self.config.learning_rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return lr

    def _check_batch(self, batch: Any) -> None:
        """Raise a RanksError unless all ranks have the same first batch."""
        if self.ranks.size > 1 and not self._is_batch_checked:
            self.ranks.check_same({"the checksum of the first batch": checksum_of(batch.values())})
        self._is_batch_checked = True

    @contextmanager
    def matmul_precision(self) -> Iterator[None]:
        """A context with the float32 matmul precision of the config."""
        before = get_float32_matmul_precision()
        set_float32_matmul_precision("high" if self.config.precision == "tf32" else "highest")
        try:
            yield
        finally:
            set_float32_matmul_precision(before)

    # ------------------------------------------------------------ the run

    def check_monitor(self) -> None:
        """Raise a UserError if validations do not have the score `config.monitor`."""
        if not self._is_monitor_checked and (self.config.monitor != "loss" or not self.task.has_loss):
            self.best.check(self._scores(texts=1)[0])
        self._is_monitor_checked = True

    def train(self) -> bool:
        """Train up to `config.steps`, with validations and checkpoints. Return False if a signal stops it."""
        if self.step == 0 and self.checkpoints.names():
            raise UserError(
                f"{self.folder} already contains checkpoints.\n"
                f"Continue with resume() (--resume), use another folder, or delete them (--overwrite)."
            )
        self._check_ranks()
        if self.config.warmup_steps > self.config.steps:
            rate = self.config.learning_rate(self.config.steps)
            warm_up = f"warmup_steps = {self.config.warmup_steps} is more than steps = {self.config.steps}"
            self._warn(f"{warm_up}: the learning rate ends at {rate:.3g}, below lr = {self.config.lr:.3g}")
        stop = False  # whether any rank has received a signal, so that all stop after the same step
        with ExitStack() as stack:
            if self.ranks.rank == 0:
                stack.enter_context(lock(self.folder))
            log = stack.enter_context(Log(None if self.ranks.rank else self._log, self._warn))
            # NumPy's warnings are not needed, as `_check_finite` raises an error
            stack.enter_context(np.errstate(over="ignore", invalid="ignore", divide="ignore"))
            stopped = stack.enter_context(stop_signals())
            show = stack.enter_context(show_progress(self.console, self.step, self.config.steps, self.device))
            self.check_monitor()
            self.callbacks.notify("on_train_begin", self)
            while not self.finished and not (stop := self.ranks.any(stopped.is_set())):
                self.advance(log, show)
            if self.step and not self.save():
                raise self._unsaved_error()
            self.callbacks.notify("on_train_end", self)
        if stop:  # the caller may ignore what is returned
            name = stopped.signal or "a signal to another rank"
            steps = f"step {self.step} of {self.config.steps}"
            self.console.print(f"{name} stopped the training after {steps}", highlight=False)
        if self.best.is_out_of_patience:
            waited = f"{counted(self.best.waited, 'validation')} without a better {self.config.monitor}"
            reason = f"{waited} (patience = {self.config.patience})"
            self.console.print(f"stopped early, at step {self.step}: {reason}", highlight=False)
        return not stop

    def _check_ranks(self) -> None:
        """Raise a RanksError unless all ranks have the same settings, progress and weights."""
        if self.ranks.size == 1:
            return
        state = self.optimizer.state_dict()["state"]  # the order depends on whether it was loaded
        moments = [own[name] for _, own in sorted(state.items()) for name in sorted(own)]
        self.ranks.check_same(
            {
                **asdict(self.config),
                "the config of the model": getattr(self.model, "config", ""),
                "step": self.step,
                "the best score": self.best.state_dict(),
                "the checksum of the moments": checksum_of(
                    x.numpy() if isinstance(x, Tensor) else np.asarray(x) for x in moments
                ),
            }
        )
        self.ranks.check_equal(self.model, self.step)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or the patience of early stopping is exhausted."""
        return self.step >= self.config.steps or self.best.is_out_of_patience

    def advance(self, log: Log, show: Callable[[int, Mapping[str, float]], None]) -> None:
        """Train one step, then log, validate and save if these are due."""
        entry = self.train_step()
        if self.average is not None:
            self.average.update(self.step)
        self.callbacks.notify("on_step_end", self, entry)
        if self.due("log_every"):
            log.write(entry)
        show(self.step, entry)
        if self.device == "cpu" and (warning := self._slow.warning(entry["tokens_per_second"])):
            self._warn(warning)
        if self.due("validate_every"):
            self.validate(log)
        if self.due("checkpoint_every"):
            self.save()

    def due(self, every: str) -> bool:
        """Whether the action with the interval `every`, such as "log_every", is due after this step."""
        return self.step % getattr(self.config, every) == 0 or self.step == self.config.steps

    def _warn(self, message: str) -> None:
        self.console.print(f"warning: {message}", highlight=False, markup=False, soft_wrap=True)

    def validate(self, log: Log) -> None:
        """Compute and log the validation scores, and save a checkpoint if they are the best so far.

        If there is a moving average of the weights, its weights are scored.
        """
        scores, samples = self._scores()
        if not math.isfinite(scores.get("loss", 0.0)):
            problem = f"the validation loss is {scores['loss']}"
            raise nonfinite_error(self, self.step, problem, lambda: self.task.validate(self.model))
        entry = {"step": self.step, **{f"val_{name}": value for name, value in scores.items()}}
        log.write(entry | ({"samples": samples} if samples else {}))
        figures = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        lines = [f"step {self.step:>6}  {self.seconds:4.0f} s  validation: {figures}"]
        lines += ["    " + printable(sample).replace("\n", "\n    ") for sample in samples]
        self.console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
        self.callbacks.notify("on_validation_end", self, scores)
        before = self.best.state_dict()
        if self.best.update(scores) and not self.save(best=True):
            self.best.load_state_dict(before)

    def _scores(self, texts: int | None = None) -> tuple[dict[str, float], list[str]]:
        """The scores and samples of a validation, computed on rank 0."""
        self.model.eval()
        averaged = self.average.in_model() if self.average is not None else nullcontext()
        with no_grad(), averaged, self.matmul_precision():
            found = self.ranks.broadcast(lambda: self.autocast(self.validation)(self.model, texts))
        self.model.train()
        return found

    def save(self, best: bool = False) -> bool:
        """Write a checkpoint of this step, on rank 0, after checking that all ranks are equal.

        Returns False, on all ranks, if the disk is full; earlier checkpoints are then unchanged.
        """
        if self._captured is not None:
            self._captured.read()  # raises an error if the step is not finite
        self.ranks.check_equal(self.model, self.step)
        return self.ranks.broadcast(lambda: self._write(best))

    def _write(self, best: bool) -> bool:
        """Write the checkpoint. Only rank 0 calls this. Return False if the disk is full."""
        if self._unsaved_step == self.step:
            return False
        check_owner(self.folder)
        state = {
            "step": self.step,
            "steps": self.config.steps,
            "seconds": self.seconds,
            "best_score": self.best.state_dict(),
            "scaler": self.scaler.state_dict(),
        }
        try:
            sync_log(self._log)
            path = self.checkpoints.save(self.step, self.model, self.optimizer, state, best, self.average)
        except OSError as error:
            if not disk_is_full(error):
                raise
            self._unsaved_step = self.step
            self.checkpoints.remove_leftovers()
            self._warn(
                f"the disk is full: step {self.step} is not saved, {self.describe_last_checkpoint()}. "
                f"Training continues; free some space before the next checkpoint."
            )
            return False
        if path is not None:
            self.callbacks.notify("on_checkpoint", self, path)
        return True

    def describe_last_checkpoint(self) -> str:
        """A clause for messages that says where the last checkpoint is."""
        names = self.checkpoints.names()
        path = f"the last checkpoint is {self.checkpoints.folder / names[-1]}" if names else ""
        return path or "no checkpoint was due"

    def _unsaved_error(self) -> UserError:
        """The error if the last step cannot be saved."""
        return UserError(
            f"the disk of {self.folder} is full: step {self.step} cannot be saved, "
            f"{self.describe_last_checkpoint()}.\nFree some space, and continue from there with --resume."
        )

    def resume(self) -> bool:
        """Load the last intact checkpoint and truncate the log to its step. Return False if there is none."""
        if self.ranks.rank == 0:
            with lock(self.folder):
                for message in self.checkpoints.repair(self.model, self.optimizer):
                    self._warn(message)
        self.ranks.barrier()
        found = bool(self.checkpoints.names())
        if found:
            self._restore(self.checkpoints.restore(self.model, self.optimizer, self.average))
        if self.ranks.rank == 0:
            with lock(self.folder):
                truncate_log(self._log, self.step)
        return found

    def _restore(self, state: dict[str, Any]) -> None:
        try:
            if self._captured is not None:
                self._captured.forget()
            self.step, self.seconds = state["step"], state["seconds"]
            self.best.load_state_dict(state["best_score"])
            self.scaler.load_state_dict(state["scaler"])
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the state of step {state['step']} does not fit this training: {error!r}.\n"
                f"Start over with --overwrite."
            ) from None
