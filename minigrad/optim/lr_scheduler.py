"""Learning-rate schedules: functions of the step, and PyTorch's classes that apply them."""

from __future__ import annotations

import math
from collections.abc import Callable

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


class Schedule:
    """Sets each group's learning rate from its first one and the number of step() calls."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.step()

    def lr(self, initial: float, group: int) -> float:
        """The learning rate of group number `group`, which began with `initial`."""
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


class LambdaLR(Schedule):
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
                f"{len(self.lr_lambdas)} functions for {groups} groups.\nGive one, or one a group."
            )
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        return initial * self.lr_lambdas[group](self.last_epoch)


class CosineAnnealingLR(Schedule):
    """Half a cosine from the first learning rate down to `eta_min` at call `T_max`, and up again after it."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def lr(self, initial: float, group: int) -> float:
        done = math.pi * self.last_epoch / self.T_max
        return self.eta_min + (initial - self.eta_min) * (1 + math.cos(done)) / 2
