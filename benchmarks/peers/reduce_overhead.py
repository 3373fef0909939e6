"""PyTorch under torch.compile(mode="reduce-overhead"): forward and backward are replayed as CUDA graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..works import Decoder
from . import torch as eager
from .compile import COMPILERS, compiled
from .torch import set_threads

LABEL = "torch.compile, reduce-overhead"
PACKAGES = eager.PACKAGES
CANNOT = {"chain": "it captures nothing on a CPU"}

__all__ = ["CANNOT", "COMPILERS", "LABEL", "PACKAGES", "decoder", "set_threads"]


def decoder(work: Decoder, weights: dict[str, np.ndarray], device: str = "cpu") -> Any:
    return compiled(eager.decoder(work, weights, device), "reduce-overhead")
