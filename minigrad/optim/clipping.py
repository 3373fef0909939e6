"""Gradient clipping (torch.nn.utils.clip_grad)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..core.devices import array_module, is_array, to_device_of
from ..core.dtypes import float32
from ..core.errors import ArgumentError, NonFiniteError, OptionError
from ..core.frames import caller
from ..core.kernels import Routine
from ..core.tensor import Tensor
from ..core.versions import bump_versions


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients in place so that their total norm is at most `max_norm`; return the old norm.

    As in PyTorch, the factor is max_norm / (norm + 1e-6) if that is below 1. A NaN in one gradient makes all
    of them NaN, and an infinity makes all others 0, unless `error_if_nonfinite` raises an error first. The
    norm is a 0-d tensor on the gradients' device; on a GPU, only reading it synchronizes. `foreach` has no
    effect.

    >>> w = nn.Parameter(mg.tensor([3.0, 4.0]))
    >>> (w * w).sum().backward()  # the gradient is (6, 8)
    >>> nn.utils.clip_grad_norm_([w], max_norm=1.0)
    tensor(10.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    single = isinstance(parameters, Tensor) or not isinstance(parameters, Iterable)
    tensors: list[Any] = [parameters] if single else list(parameters)
    if not all(isinstance(p, Tensor) for p in tensors):
        raise ArgumentError("only gradients of tensors can be clipped.\nPass model.parameters().")
    max_norm = _check_max_norm(max_norm)
    gradients: list[Tensor] = []
    arrays: list[Any] = []
    for p in tensors:
        if p.grad is not None:
            gradients.append(p.grad)
            arrays.append(p.grad.array)
    if not gradients:
        return Tensor(np.zeros((), float32))
    if norm_type not in (2, math.inf):
        total = get_total_norm(gradients, norm_type, error_if_nonfinite)
        clip_grads_with_norm_(tensors, max_norm, total)
        return total
    norm = norm_of_all(arrays, norm_type == math.inf)
    if error_if_nonfinite and not math.isfinite(norm):
        raise NonFiniteError(
            f"the gradients' norm is {norm}.\n"
            f"Look for the first module with a NaN, or lower the learning rate."
        )
    if is_array(norm):  # on the GPU, which decides whether to scale
        bump_versions(gradients, "clip_grad_norm_", caller())
        scale_down(arrays, norm, max_norm)
        return Tensor(norm.astype(arrays[0].dtype))
    if not max_norm / (norm + 1e-6) >= 1:  # also true for NaN
        bump_versions(gradients, "clip_grad_norm_", caller())
        scale_down(arrays, norm, max_norm)
    return Tensor(np.array(norm, arrays[0].dtype))


@Routine
def norm_of_all(arrays: list[Any], infinite: bool) -> Any:
    """Return sqrt(sum x**2) over all elements of all arrays, or with `infinite` the largest |x|.

    The norm is NaN if an element is NaN. On a GPU it is a 0-d array there, and nothing synchronizes.
    """
    xp = array_module(arrays[0])
    if infinite:
        largest = [abs(a).max().astype(np.float64) for a in arrays if a.size]
        return reduce(xp.maximum, largest, np.float64(0))
    return xp.sqrt(reduce(add, [xp.square(a.astype(np.float64)).sum() for a in arrays]))


@Routine
def scale_down(arrays: list[Any], norm: Any, max_norm: float) -> Any:
    """Multiply all arrays in place by max_norm / (norm + 1e-6) if that is below 1, or NaN."""
    xp = array_module(arrays[0])
    with np.errstate(invalid="ignore"):  # inf / inf, inf * 0
        factor = xp.minimum(max_norm / (norm + 1e-6), 1.0)
        for a in arrays:  # half precision is multiplied in float32, in which the factor has enough digits
            wide = factor.astype(np.result_type(a.dtype, np.float32))
            xp.multiply(a, wide, out=a, casting="same_kind")
    return arrays


def _check_max_norm(max_norm: Any) -> float:
    if not isinstance(max_norm, int | float | np.number | Tensor):
        raise ArgumentError(f"max_norm must be a number, got {max_norm!r}.\nPass one.")
    if not (number := float(max_norm)) >= 0:
        raise OptionError(
            f"max_norm must be at least 0, got {number}.\nPass inf to leave gradients unchanged."
        )
    return number


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in tensors if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all elements of the tensors: (sum |x|**norm_type)**(1 / norm_type), or max |x|."""
    if not norm_type > 0:
        raise OptionError(f"norm_type must be a positive number or inf, got {norm_type}.\nPass one.")
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return Tensor(np.zeros((), float32))
    arrays = [x.array for x in tensors]
    if norm_type in (2, math.inf):
        norm = norm_of_all(arrays, norm_type == math.inf)
    else:
        norm = sum((abs(a) ** norm_type).sum() for a in arrays) ** (1 / norm_type)
    if error_if_nonfinite and not math.isfinite(norm):
        raise NonFiniteError(
            f"the tensors' norm is {norm}.\nLook for the first one with a NaN, or lower the learning rate."
        )
    return Tensor(norm.astype(arrays[0].dtype) if is_array(norm) else np.array(norm, arrays[0].dtype))


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale all gradients in place by max_norm / (total_norm + 1e-6) if that is below 1, or NaN."""
    max_norm = _check_max_norm(max_norm)
    norm = float(total_norm)
    gradients = [] if max_norm / (norm + 1e-6) >= 1 else _gradients(parameters)
    bump_versions(gradients, "clip_grads_with_norm_", caller())
    if gradients:
        arrays = [g.array for g in gradients]
        scale_down(arrays, to_device_of(np.array(norm), arrays[0]), max_norm)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp all gradients to [-clip_value, clip_value], in place."""
    for g in _gradients(parameters):
        g.clamp_(-float(clip_value), float(clip_value))
