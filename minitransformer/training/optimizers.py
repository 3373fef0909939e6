"""The optimizers of a TrainConfig, by name."""

from __future__ import annotations

from typing import Any

from minigrad import nn, optim

from ..config import TrainConfig


def build_optimizer(model: nn.Module, config: TrainConfig) -> optim.Optimizer:
    """The optimizer of a config, for the parameters of the model."""
    groups = decay_groups(model, config.weight_decay)
    if config.optimizer == "sgd":
        return optim.SGD(groups, config.lr, config.momentum)
    return optim.AdamW(groups, config.lr, config.betas, config.adam_eps)


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Weight decay for matrices; none for biases and norms."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
