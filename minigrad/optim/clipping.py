"""The gradients of many parameters: forgetting and clipping them (torch.nn.utils.clip_grad)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..devices import float32
from ..errors import NonFiniteError, OptionError
from ..kernels import kernels
from ..tensor import Tensor
from ..versions import bump_versions, caller


def zero_gradients(parameters: Iterable[Tensor], set_to_none: bool) -> None:
    """Forget the gradients, or set them to zero in place (and out of any graph)."""
    for p in parameters:
        if set_to_none or p.grad is None:
            p.grad = None
        else:
            p.grad = p.grad.detach() if p.grad.requires_grad else p.grad
            p.grad.zero_()


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients, in place, so that their common norm is at most `max_norm`; give the norm before.

    As in PyTorch, the factor is max_norm / (norm + 1e-6) where that is below 1. `norm_type` is 2 or inf.
    The norm is a 0-d tensor on the gradients' device: on a GPU nothing waits for it until it is read.
    """
    if norm_type not in (2, math.inf):
        raise OptionError(f"norm_type must be 2 or inf, got {norm_type}.\nChoose one of them.")
    tensors = [parameters] if isinstance(parameters, Tensor) else parameters
    gradients: list[Tensor] = []
    arrays: list[Any] = []
    for p in tensors:
        if p.grad is not None:
            gradients.append(p.grad)
            arrays.append(p.grad.array)
    if not gradients:
        return Tensor(np.zeros((), float32))
    norm = kernels(arrays[0]).total_norm(arrays, norm_type == math.inf)
    if error_if_nonfinite and not math.isfinite(norm):
        raise NonFiniteError(
            f"the gradients' norm is {norm}.\n"
            f"Look for the first module with a NaN, or lower the learning rate."
        )
    if type(norm) is not float:  # it is on the GPU, which decides whether to scale
        bump_versions(gradients, "clip_grad_norm_", caller())
        kernels(arrays[0]).scale(arrays, norm, max_norm)
        return Tensor(norm.astype(arrays[0].dtype))
    factor = max_norm / (norm + 1e-6)
    if factor < 1:
        bump_versions(gradients, "clip_grad_norm_", caller())
        for array in arrays:
            array *= factor
    return Tensor(np.array(norm, arrays[0].dtype))
