"""PyTorch under torch.compile: model and loss are compiled, the optimizer is the fused one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..works import MLP, Decoder, Phrasebook
from . import torch as eager
from .torch import set_threads

LABEL = "torch.compile"
PACKAGES = eager.PACKAGES
COMPILERS = ("g++", "clang++")
CANNOT = {"chain": "a chain of 2,000 operations is one kernel to it, and takes minutes to compile"}

__all__ = ["CANNOT", "LABEL", "PACKAGES", "decoder", "mlp", "phrasebook", "set_threads"]


def compiled(step: eager.Step, mode: str | None = None) -> eager.Step:
    """The step with its loss compiled."""
    import torch

    step.loss_of = torch.compile(step.loss_of, mode=mode)
    return step


def decoder(work: Decoder, weights: dict[str, np.ndarray], device: str = "cpu") -> Any:
    return compiled(eager.decoder(work, weights, device))


def phrasebook(work: Phrasebook, weights: dict[str, np.ndarray]) -> Any:
    return compiled(eager.phrasebook(work, weights))


def mlp(work: MLP, weights: dict[str, np.ndarray]) -> Any:
    return compiled(eager.mlp(work, weights))
