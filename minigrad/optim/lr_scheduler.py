"""Learning-rate schedules: functions of the step, and PyTorch's classes that apply them."""

from __future__ import annotations

import math
from collections.abc import Callable

from .optimizer import Optimizer


def paper_schedule(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """factor d_model**-0.5 min(step**-0.5, step warmup_steps**-1.5), step from 1 ("Attention Is All You Need", section 5.3)."""
    step = max(step, 1)
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def inverse_sqrt_schedule(step: int, lr: float, warmup_steps: int) -> float:
    """The paper's schedule named by its peak: `lr` at step `warmup_steps`, linear before, step**-0.5 after."""
    step = max(step, 1)
    return lr * min(step / warmup_steps, math.sqrt(warmup_steps / step)) if warmup_steps else lr * step**-0.5


def cosine_schedule(
    step: int, lr: float, total_steps: int, warmup_steps: int = 0, min_lr: float = 0.0
) -> float:
    """Linear to `lr` over `warmup_steps`, then half a cosine down to `min_lr` at `total_steps` (Loshchilov and Hutter 2017)."""
    if step < warmup_steps:
        return lr * (step + 1) / (warmup_steps + 1)
    done = min((step - warmup_steps) / max(total_steps - warmup_steps, 1), 1.0)
    return min_lr + 0.5 * (lr - min_lr) * (1 + math.cos(math.pi * done))


class LambdaLR:
    """Each group's learning rate is its first one times `lr_lambda(number of step() calls)`."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float], last_epoch: int = -1) -> None:
        self.optimizer, self.lr_lambda, self.last_epoch = optimizer, lr_lambda, last_epoch
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.step()

    def step(self) -> None:
        self.last_epoch += 1
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * self.lr_lambda(self.last_epoch)

    def get_last_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, int]:
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.last_epoch = state_dict["last_epoch"] - 1
        self.step()


class CosineAnnealingLR(LambdaLR):
    """Half a cosine from the first learning rate down to `eta_min` at call `T_max`, and up again after it."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        first = optimizer.param_groups[0].get("initial_lr", optimizer.param_groups[0]["lr"])
        low = eta_min / first
        super().__init__(
            optimizer, lambda t: low + (1 - low) * (1 + math.cos(math.pi * t / T_max)) / 2, last_epoch
        )
