"""Conversion of parameters to one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...core.errors import ShapeError
from ...core.modes import no_grad
from ...core.tensor import Tensor
from ...ops.shaping import cat


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate the parameters, flattened, to one vector; gradients flow back to them."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of a vector into the parameters, in order."""
    parameters = list(parameters)
    size = sum(p.numel() for p in parameters)
    if vec.ndim != 1 or vec.numel() < size:
        raise ShapeError(
            f"expected a vector of at least {size} elements for {len(parameters)} parameters, got shape "
            f"{vec.shape}.\nPass the result of parameters_to_vector."
        )
    with no_grad():
        end = 0
        for p in parameters:
            start = end
            end = end + math.prod(p.shape)
            p.copy_(vec[start:end].reshape(p.shape))
