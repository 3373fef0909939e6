"""Gradient clipping (torch.nn.utils.clip_grad_norm_)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..autograd import mutate, no_grad
from ..devices import float32
from ..errors import NonFiniteError, OptionError
from ..kernels import kernels
from ..tensor import Tensor


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients, in place, so that their norm together is at most `max_norm`; give the norm before.

    As PyTorch's, the factor is max_norm / (norm + 1e-6), where that is below 1. `norm_type` is 2 or inf.
    The norm is a 0-d tensor beside the gradients: on a GPU nothing waits for it until its number is asked.
    """
    if norm_type not in (2, math.inf):
        raise OptionError(f"norm_type is 2 or inf, got {norm_type}.\nChoose one of them.")
    given = [parameters] if isinstance(parameters, Tensor) else parameters
    gradients = [p.grad for p in given if p.grad is not None]
    if not gradients:
        return Tensor(np.zeros((), float32))
    arrays: list[Any] = [g.array for g in gradients]
    norm = kernels(arrays[0]).total_norm(arrays, norm_type == math.inf)
    if error_if_nonfinite and not math.isfinite(norm):
        raise NonFiniteError(
            f"the gradients' norm is {norm}.\n"
            f"Look for the first module with a NaN, or lower the learning rate."
        )
    if type(norm) is float:
        _scale(gradients, max_norm / (norm + 1e-6))
        return Tensor(np.array(norm, arrays[0].dtype))
    with no_grad():
        for g in gradients:
            mutate(g, "clip_grad_norm_")
    kernels(arrays[0]).scale(arrays, norm, max_norm)
    return Tensor(norm.astype(arrays[0].dtype))


def _scale(gradients: list[Tensor], factor: float) -> None:
    """Multiply gradients on the CPU, if that makes them smaller."""
    if factor < 1:
        with no_grad():
            for g in gradients:
                mutate(g, "clip_grad_norm_")
                g.array *= factor
