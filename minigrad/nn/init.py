"""Initialization (torch.nn.init): each function fills a tensor in place; draws are from the stream "init"."""

from __future__ import annotations

import math

import numpy as np

from .. import random
from ..checks import check_all
from ..devices import to_device_of
from ..errors import ShapeError
from ..modes import no_grad
from ..tensor import Tensor
from ..versions import bump_version


def _fill(tensor: Tensor, values: np.ndarray) -> Tensor:
    with no_grad():
        bump_version(tensor, "initialization")
        tensor.array[...] = to_device_of(values, tensor.array)
    return tensor


def _fans(tensor: Tensor) -> tuple[int, int]:
    """(inputs, outputs) of a weight of shape (out, in, ...)."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"a tensor of shape {tensor.shape} has no inputs and outputs.\nGive a weight (out, in)."
        )
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Uniform on [a, b)."""
    return _fill(tensor, random.generator(random.next_key("init")).uniform(a, b, tensor.shape))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal."""
    return _fill(tensor, random.generator(random.next_key("init")).normal(mean, std, tensor.shape))


def constant_(tensor: Tensor, val: float) -> Tensor:
    return _fill(tensor, np.full(1, val))


def zeros_(tensor: Tensor) -> Tensor:
    return _fill(tensor, np.zeros(1))


def ones_(tensor: Tensor) -> Tensor:
    return _fill(tensor, np.ones(1))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform on ±gain sqrt(6 / (in + out)) (Glorot and Bengio 2010)."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with deviation gain sqrt(2 / (in + out)) (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))))


def kaiming_uniform_(tensor: Tensor, a: float = 0.0) -> Tensor:
    """Uniform on ±sqrt(6 / ((1 + a**2) in)) (He et al. 2015)."""
    bound = math.sqrt(6 / ((1 + a * a) * _fans(tensor)[0]))
    return uniform_(tensor, -bound, bound)


check_all(globals())
