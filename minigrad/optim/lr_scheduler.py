"""Learning-rate schedules: functions of the step. PyTorch's scheduler classes are in `more/schedulers.py`."""

from __future__ import annotations

import math

__all__ = [
    "cosine_schedule", "inverse_sqrt_schedule", "linear_schedule", "paper_schedule", "wsd_schedule",
]  # fmt: skip


def paper_schedule(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """Return factor d_model**-0.5 min(step**-0.5, step warmup_steps**-1.5), with steps counted from 1.

    "Attention Is All You Need", section 5.3, equation 3.

    >>> rates = [optim.paper_schedule(step, d_model=512, warmup_steps=4000) for step in (1, 4000, 16000)]
    >>> [f"{rate:.1e}" for rate in rates]
    ['1.7e-07', '7.0e-04', '3.5e-04']
    """
    step = max(step, 1)
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def inverse_sqrt_schedule(step: int, lr: float, warmup_steps: int) -> float:
    """Return `paper_schedule` with the peak `lr`: linear up to step `warmup_steps`, then as step**-0.5."""
    step = max(step, 1)
    return lr * min(step / warmup_steps, math.sqrt(warmup_steps / step)) if warmup_steps else lr * step**-0.5


def cosine_schedule(
    step: int, lr: float, total_steps: int, warmup_steps: int = 0, min_lr: float = 0.0
) -> float:
    """Return the rate of a linear warm-up to `lr`, then half a cosine down to `min_lr` at `total_steps`.

    Loshchilov and Hutter 2017, equation 5, without restarts.

    >>> [round(optim.cosine_schedule(step, lr=1.0, total_steps=4, warmup_steps=1), 3) for step in range(5)]
    [0.5, 1.0, 0.75, 0.25, 0.0]
    """
    if step < warmup_steps:
        return lr * (step + 1) / (warmup_steps + 1)
    done = min((step - warmup_steps) / max(total_steps - warmup_steps, 1), 1.0)
    return min_lr + 0.5 * (lr - min_lr) * (1 + math.cos(math.pi * done))


def linear_schedule(
    step: int, lr: float, total_steps: int, warmup_steps: int = 0, min_lr: float = 0.0
) -> float:
    """Return the rate of a linear warm-up to `lr`, then a linear decay to `min_lr` at `total_steps`."""
    if step < warmup_steps:
        return lr * (step + 1) / (warmup_steps + 1)
    done = min((step - warmup_steps) / max(total_steps - warmup_steps, 1), 1.0)
    return lr + (min_lr - lr) * done


def wsd_schedule(
    step: int, lr: float, total_steps: int, warmup_steps: int = 0, decay_steps: int = 0, min_lr: float = 0.0
) -> float:
    """Return the rate of a warm-up, a stable phase at `lr`, and a decay to `min_lr`.

    Over the last `decay_steps`, the rate decays as 1 - sqrt(x) (Hu et al. 2024, section 4; Hägele et al.
    2024, section 3).
    """
    if step < warmup_steps:
        return lr * (step + 1) / (warmup_steps + 1)
    done = min(max(step - (total_steps - decay_steps), 0) / max(decay_steps, 1), 1.0)
    return min_lr + (lr - min_lr) * (1 - math.sqrt(done))
