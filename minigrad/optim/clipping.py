"""Gradient clipping (torch.nn.utils.clip_grad_norm_)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..autograd import mutate, no_grad
from ..devices import array_module
from ..errors import NonFiniteError, OptionError
from ..tensor import Tensor


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> float:
    """Scale all gradients, in place, so that their norm together is at most `max_norm`; give the norm before.

    As PyTorch's, the factor is max_norm / (norm + 1e-6), where that is below 1. `norm_type` is 2 or inf.
    """
    given = [parameters] if isinstance(parameters, Tensor) else parameters
    gradients = [p.grad for p in given if p.grad is not None]
    if norm_type == math.inf:
        norm = max((float(abs(g.data).max()) for g in gradients if g.data.size), default=0.0)
    elif norm_type == 2:
        norm = math.sqrt(sum(float(array_module(g.data).vdot(g.data, g.data)) for g in gradients))
    else:
        raise OptionError(f"norm_type is 2 or inf, got {norm_type}.\nChoose one of them.")
    if error_if_nonfinite and not math.isfinite(norm):
        raise NonFiniteError(
            f"the gradients' norm is {norm}.\n"
            f"Look for the first module with a NaN, or lower the learning rate."
        )
    factor = max_norm / (norm + 1e-6)
    if factor < 1:
        with no_grad():
            for g in gradients:
                mutate(g, "clip_grad_norm_")
                g.data *= factor
    return norm
