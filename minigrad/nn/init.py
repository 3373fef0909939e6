"""Initialization (torch.nn.init): each function fills a tensor in place and returns it.

Random numbers come from the stream "init", or from `generator`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import random
from ..core.devices import to_device_of
from ..core.errors import OptionError, ShapeError
from ..core.modes import no_grad
from ..core.tensor import Tensor
from ..core.versions import bump_version
from ..ops import draws
from ..ops.checked import check_all


def _fill(tensor: Tensor, values: np.ndarray) -> Tensor:
    with no_grad():
        bump_version(tensor, "initialization")
        tensor.array[...] = to_device_of(values, tensor.array)
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return (fan_in, fan_out) of a weight of shape (out, in, ...)."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"fan_in and fan_out need a tensor with at least 2 axes, got shape {tensor.shape}.\n"
            f"Pass a weight (out, in, ...)."
        )
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def _draws(generator: Any) -> np.random.Generator:
    return draws.generator(random.next_key("init", generator))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers drawn uniformly from [a, b); the bounds are rounded to the dtype."""
    first, last = draws.bounds(a, b, tensor.dtype)
    return _fill(tensor, _draws(generator).uniform(a, b, tensor.shape).clip(first, last))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normally distributed numbers."""
    return _fill(tensor, _draws(generator).normal(mean, std, tensor.shape))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fill from a normal distribution truncated to [a, b]: numbers outside are drawn again."""
    if not a < b:
        raise OptionError(f"trunc_normal_ needs a < b, got a={a} and b={b}.\nSwap them.")
    draws = _draws(generator)
    values = draws.normal(mean, std, tensor.shape)
    for _ in range(1000):
        outside = (values < a) | (values > b)
        if not outside.any():
            return _fill(tensor, values)
        values[outside] = draws.normal(mean, std, int(outside.sum()))
    # [a, b] is far in the tail: use its point nearest to the mean
    low = max(a, min(mean, b))
    high = min(b, max(mean, a))
    return _fill(tensor, np.where(outside, low if mean < a else high, values))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number."""
    return _fill(tensor, np.full(1, val))


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return _fill(tensor, np.zeros(1))


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return _fill(tensor, np.ones(1))


def scale_(tensor: Tensor, factor: float) -> Tensor:
    """Multiply the tensor by `factor`."""
    return _fill(tensor, tensor.array * factor)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on the diagonal and zeros elsewhere."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_ needs a matrix, got shape {tensor.shape}.\nPass a tensor with two axes.")
    return _fill(tensor, np.eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution kernel (out, in, ...) so that it copies as many channels as it can, per group."""
    if tensor.ndim not in (3, 4, 5) or groups < 1 or tensor.shape[0] % groups:
        raise ShapeError(
            f"dirac_ cannot fill shape {tensor.shape} with groups={groups}.\n"
            f"Pass a kernel with 3 to 5 axes whose first axis is divisible by groups."
        )
    values = np.zeros(tensor.shape)
    out = tensor.shape[0] // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for i in range(min(out, tensor.shape[1])):
            values[(group * out + i, i, *middle)] = 1
    return _fill(tensor, values)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with `gain` times a (semi-)orthogonal matrix, of shape (first axis, others) (Saxe et al. 2014)."""
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_ needs at least 2 axes, got shape {tensor.shape}.\nPass a matrix.")
    if not tensor.numel():
        return tensor
    flat = _draws(generator).normal(size=(tensor.shape[0], tensor.numel() // tensor.shape[0]))
    q, r = np.linalg.qr(flat if flat.shape[0] >= flat.shape[1] else flat.T)
    q *= np.sign(np.diag(r))
    return _fill(tensor, gain * (q if flat.shape[0] >= flat.shape[1] else q.T).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill with normally distributed numbers, a fraction `sparsity` of each column being 0 (Martens 2010)."""
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_ needs a matrix, got shape {tensor.shape}.\nPass a tensor with two axes.")
    draws = _draws(generator)
    rows, columns = tensor.shape
    values = draws.normal(0, std, (rows, columns))
    for column in range(columns):
        values[draws.permutation(rows)[: math.ceil(sparsity * rows)], column] = 0
    return _fill(tensor, values)


GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4, "sigmoid": 1.0, "linear": 1.0}
GAINS |= {f"conv{transpose}{n}d": 1.0 for transpose in ("", "_transpose") for n in (1, 2, 3)}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance through a nonlinearity; `param` is leaky_relu's slope."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise OptionError(f"leaky_relu's slope must be a number, got {slope!r}.\nPass one.")
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in GAINS:
        raise OptionError(
            f"unknown nonlinearity {nonlinearity!r}.\nChoose one of leaky_relu, {', '.join(GAINS)}."
        )
    return GAINS[nonlinearity]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill uniformly from ±gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).

    >>> w = nn.init.xavier_uniform_(mg.empty(3, 5))
    >>> bool((w.abs() <= (6 / (3 + 5)) ** 0.5).all())
    True
    """
    bound = gain * math.sqrt(6 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill from N(0, std²) with std = gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def _deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """Return the standard deviation gain / sqrt(fan), with the fan that `mode` names."""
    if mode not in ("fan_in", "fan_out"):
        raise OptionError(f'mode must be "fan_in" or "fan_out", got {mode!r}.\nChoose one of them.')
    fan = _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill uniformly from ±gain sqrt(3 / fan), gain² = 2 / (1 + a²) for leaky_relu (He et al. 2015)."""
    bound = math.sqrt(3) * _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill from N(0, std²), std = gain / sqrt(fan), gain² = 2 / (1 + a²) for leaky_relu (He et al. 2015)."""
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity), generator)


check_all(globals())
