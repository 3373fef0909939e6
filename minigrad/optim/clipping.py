"""Gradient clipping (torch.nn.utils.clip_grad_norm_)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..tensor import Tensor


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float, error_if_nonfinite: bool = False) -> float:
    """Scale all gradients, in place, so that the norm of all of them together is at most `max_norm`; give the norm before.

    As PyTorch's, the factor is max_norm / (norm + 1e-6), where that is below 1.
    """
    gradients = [p.grad.data for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(float(np.vdot(g, g)) for g in gradients))
    if error_if_nonfinite and not math.isfinite(norm):
        raise FloatingPointError(
            f"the gradients' norm is {norm}.\nLook for the first module with a NaN, or lower the learning rate."
        )
    factor = max_norm / (norm + 1e-6)
    if factor < 1:
        for g in gradients:
            g *= factor
    return norm
