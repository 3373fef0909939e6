"""All parameters as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...core.errors import ShapeError
from ...core.modes import no_grad
from ...core.tensor import Tensor
from ...ops.shaping import cat


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The parameters one behind the other, in a graph with them."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy a vector's numbers into the parameters."""
    parameters = list(parameters)
    size = sum(p.numel() for p in parameters)
    if vec.ndim != 1 or vec.numel() < size:
        raise ShapeError(
            f"a vector of shape {vec.shape} for {len(parameters)} parameters of {size} numbers.\n"
            f"Pass what parameters_to_vector returned."
        )
    with no_grad():
        end = 0
        for p in parameters:
            start = end
            end = end + math.prod(p.shape)
            p.copy_(vec[start:end].reshape(p.shape))
