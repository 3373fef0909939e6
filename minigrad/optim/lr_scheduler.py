"""Learning-rate schedules: functions of the step, and PyTorch's classes that apply them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..checks import check_constructor
from ..errors import OptionError
from .optimizer import Optimizer


def paper_schedule(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """factor d_model**-0.5 min(step**-0.5, step warmup_steps**-1.5), step from 1.

    "Attention Is All You Need", section 5.3.
    """
    step = max(step, 1)
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def inverse_sqrt_schedule(step: int, lr: float, warmup_steps: int) -> float:
    """The paper's schedule by its peak: `lr` at step `warmup_steps`, linear before, as step**-0.5 after."""
    step = max(step, 1)
    return lr * min(step / warmup_steps, math.sqrt(warmup_steps / step)) if warmup_steps else lr * step**-0.5


def cosine_schedule(
    step: int, lr: float, total_steps: int, warmup_steps: int = 0, min_lr: float = 0.0
) -> float:
    """Linear to `lr` over `warmup_steps`, then half a cosine down to `min_lr` at `total_steps`.

    Loshchilov and Hutter 2017, equation 5, without restarts.
    """
    if step < warmup_steps:
        return lr * (step + 1) / (warmup_steps + 1)
    done = min((step - warmup_steps) / max(total_steps - warmup_steps, 1), 1.0)
    return min_lr + 0.5 * (lr - min_lr) * (1 + math.cos(math.pi * done))


class LRScheduler:
    """Sets each group's learning rate from its first one and the number of step() calls."""

    def __init_subclass__(cls) -> None:
        check_constructor(cls)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.step()

    def lr(self, initial: float, group: int) -> float:
        """The learning rate of group number `group`, whose first one was `initial`."""
        raise NotImplementedError

    def step(self) -> None:
        self.last_epoch += 1
        for i, group in enumerate(self.optimizer.param_groups):
            group["lr"] = self.lr(group["initial_lr"], i)

    def get_last_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, int]:
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.last_epoch = state_dict["last_epoch"] - 1
        self.step()


class LambdaLR(LRScheduler):
    """Each group's learning rate is its first one times `lr_lambda(number of step() calls)`."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = lr_lambda if isinstance(lr_lambda, list) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise OptionError(
                f"{len(self.lr_lambdas)} functions for {groups} groups.\nPass one, or one for each group."
            )
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        return initial * self.lr_lambdas[group](self.last_epoch)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate down to `eta_min` at call `T_max`, and up again after it."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        done = math.pi * self.last_epoch / self.T_max
        return self.eta_min + (initial - self.eta_min) * (1 + math.cos(done)) / 2


class MultiplicativeLR(LRScheduler):
    """Each step() call multiplies the learning rate by `lr_lambda(number of the call)`."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float], last_epoch: int = -1) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        return initial * math.prod(self.lr_lambda(t) for t in range(1, self.last_epoch + 1))


class StepLR(LRScheduler):
    """Multiplied by `gamma` every `step_size` calls."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if step_size < 1:
            raise OptionError(f"step_size must be a positive integer, got {step_size}.\nPass one.")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        return initial * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Multiplied by `gamma` at each of the calls in `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        return initial * self.gamma ** bisect_right(self.milestones, self.last_epoch)


class ExponentialLR(LRScheduler):
    """Multiplied by `gamma` at each call."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        return initial * self.gamma**self.last_epoch


class ConstantLR(LRScheduler):
    """Times `factor` for the first `total_iters` calls."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        return initial * (self.factor if self.last_epoch < self.total_iters else 1)


class LinearLR(LRScheduler):
    """Times a factor that goes linearly from `start_factor` to `end_factor` in `total_iters` calls."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        done = min(self.last_epoch, self.total_iters) / self.total_iters
        return initial * (self.start_factor + (self.end_factor - self.start_factor) * done)


class PolynomialLR(LRScheduler):
    """Times (1 - t / total_iters)**power, down to 0 at call `total_iters`."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        return initial * (1 - min(self.last_epoch, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to `eta_min` in `T_0` calls, then again, each time `T_mult` times as long.

    Loshchilov and Hutter 2017, equation 5.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 < 1 or T_mult < 1:
            raise OptionError(
                f"T_0 and T_mult must be at least 1, got {T_0} and {T_mult}.\nPass such numbers."
            )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        since, length = self.last_epoch, self.T_0
        while since >= length:
            since, length = since - length, length * self.T_mult
        return self.eta_min + (initial - self.eta_min) * (1 + math.cos(math.pi * since / length)) / 2


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to `max_lr`, then down to that first one / final_div_factor (Smith 2018).

    The way up takes `pct_start` of all steps; `three_phase` comes down as it went up and then further. With
    `cycle_momentum` the momentum (or the first of betas) goes the opposite way, between `max_momentum` and
    `base_momentum`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise OptionError(
                "OneCycleLR needs the number of steps.\nPass total_steps, or epochs and steps_per_epoch."
            )
        if anneal_strategy not in ("cos", "linear"):
            raise OptionError(f'anneal_strategy is "cos" or "linear", got {anneal_strategy!r}.\nChoose one.')
        self.total_steps = total_steps or (epochs or 0) * (steps_per_epoch or 0)
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        groups = optimizer.param_groups
        tops = max_lr if isinstance(max_lr, list) else [max_lr] * len(groups)
        for group, top in zip(groups, tops, strict=True):
            group["initial_lr"] = top / div_factor
        first, last = 1 / div_factor, 1 / (div_factor * final_div_factor)  # of the largest
        up = pct_start * self.total_steps - 1
        low, high = base_momentum, max_momentum
        # (its last step, factor of max_lr at its start and end, momentum at its start and end) of each phase
        self.phases = [(up, first, 1.0, high, low), (self.total_steps - 1, 1.0, last, low, high)]
        if three_phase:
            self.phases[1:] = [
                (2 * up, 1.0, first, low, high),
                (self.total_steps - 1, first, last, high, high),
            ]
        self.div_factor = div_factor
        super().__init__(optimizer, last_epoch)

    def _factor_and_momentum(self) -> tuple[float, float]:
        """The factor of the largest learning rate, and the momentum, at this step."""
        if self.last_epoch >= self.total_steps:
            raise OptionError(
                f"step {self.last_epoch + 1} of a cycle of {self.total_steps}.\nPass a larger total_steps."
            )
        start = 0.0
        for phase in self.phases:
            if self.last_epoch <= phase[0]:
                break
            start = phase[0]
        end, a, b, m, n = phase
        done = (self.last_epoch - start) / (end - start)
        if self.anneal_strategy == "cos":
            done = (1 - math.cos(math.pi * done)) / 2
        return a + (b - a) * done, m + (n - m) * done

    def lr(self, initial: float, group: int) -> float:
        return initial * self.div_factor * self._factor_and_momentum()[0]

    def step(self) -> None:
        super().step()
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                momentum = self._factor_and_momentum()[1]
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum


class SequentialLR(LRScheduler):
    """One schedule after another: at each of `milestones` the next starts, at its own call 0."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise OptionError(
                f"{len(schedulers)} schedules and {len(milestones)} milestones.\n"
                f"Pass one milestone between every two schedules."
            )
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def step(self) -> None:
        self.last_epoch += 1
        now = bisect_right(self.milestones, self.last_epoch)
        self.schedulers[now].last_epoch = self.last_epoch - (self.milestones[now - 1] if now else 0) - 1
        self.schedulers[now].step()


class ReduceLROnPlateau:
    """Multiplied by `factor` when a metric was no better for more than `patience` calls of step(metric).

    `mode` "min" or "max" says what is better; better by less than `threshold` (of the best, or "abs") is not.
    After a reduction, `cooldown` calls are not counted; no learning rate goes below `min_lr`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise OptionError(
                f'mode must be "min" or "max", threshold_mode "rel" or "abs": {mode!r}, {threshold_mode!r}.\n'
                f"Choose among them."
            )
        if not 0 <= factor < 1:
            raise OptionError(f"factor must be from 0 to below 1, got {factor}.\nPass one in that range.")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = (
            threshold,
            threshold_mode,
            cooldown,
            eps,
        )
        self.min_lrs = min_lr if isinstance(min_lr, list) else [min_lr] * len(optimizer.param_groups)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def is_better(self, metric: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if math.isinf(self.best):
            return sign * metric > sign * self.best
        margin = self.threshold * (self.best if self.threshold_mode == "rel" else 1)
        return sign * metric > sign * self.best + margin

    def step(self, metrics: Any) -> None:
        self.last_epoch += 1
        if self.is_better(float(metrics)):
            self.best, self.num_bad_epochs = float(metrics), 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                lr = max(group["lr"] * self.factor, least)
                if group["lr"] - lr > self.eps:
                    group["lr"] = lr

    def get_last_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        names = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")
        return {name: getattr(self, name) for name in names} | {"lrs": self.get_last_lr()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        for group, lr in zip(self.optimizer.param_groups, state.pop("lrs"), strict=True):
            group["lr"] = lr
        self.__dict__.update(state)
