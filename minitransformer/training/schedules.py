"""Resolves settings that depend on data and model: `epochs`, `validate_every = 0`, the schedule "paper"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minigrad import nn, optim

from ..errors import UserError
from .config import TrainConfig

WIDTHS = ("d_model", "n_embd", "hidden_size")  # names of d_model in models' configs


def resolve(config: TrainConfig, model: nn.Module, task: Any) -> TrainConfig:
    """Return a config in which settings that depend on data and model are replaced by numbers.

    `epochs` becomes `steps`. `validate_every = 0` becomes the steps of an epoch, but at least 50 and at most
    1,000. The schedule "paper" becomes "inverse_sqrt" with the paper's peak as `lr`: the rate is
    d_model**-0.5 min(step**-0.5, step warmup_steps**-1.5) ("Attention Is All You Need", section 5.3).
    """
    if config.epochs:
        config = replace(config, steps=config.epochs * task.batches_per_epoch)
    if not config.validate_every:
        config = replace(config, validate_every=min(max(task.batches_per_epoch, 50), 1000))
    if config.schedule == "paper":
        if not config.warmup_steps:
            raise UserError(
                "schedule 'paper' needs a warm-up, got warmup_steps = 0.\nChoose a value >= 1, such as 4000."
            )
        peak = optim.paper_schedule(config.warmup_steps, width(model), config.warmup_steps)
        config = replace(config, schedule="inverse_sqrt", lr=peak)
    return config


def width(model: nn.Module) -> int:
    """Return the width (d_model) in a model's config. Raise a UserError if the config has none of WIDTHS."""
    settings = getattr(model, "config", None)
    for name in WIDTHS:
        if found := getattr(settings, name, 0):
            return found
    raise UserError(
        f"schedule 'paper' needs the model's d_model; the config of {type(model).__name__} has none of "
        f"{', '.join(WIDTHS)}.\nChoose schedule 'inverse_sqrt', with the peak as lr."
    )
