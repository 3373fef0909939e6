"""Normalization over channels, groups or a batch. All lay out as rows what they take together.

Their names are in `nn.functional`.
"""

from __future__ import annotations

import math
from functools import partial

from ..core.dtypes import HALF
from ..core.errors import OptionError, ShapeError
from ..core.half import round_once
from ..core.modes import no_grad
from ..core.op import derived
from ..core.tensor import Tensor, as_tensor
from ..ops.arithmetic import clone
from ..ops.axes import all_floating, as_floating
from ..ops.normalization import layer_norm
from ..ops.samplers import cases, positive, real
from .windows import sliding_windows

__family__ = "normalization"
__all__ = ["batch_norm", "group_norm", "instance_norm", "local_response_norm"]


@derived(
    exact_in_half=True,  # the running statistics are changed in place
    samples=cases((real, 3, 2), None, None, (real, 2), (real, 2), True)
    | cases((real, 2, 2, 3), None, None, None, None, True)
    | cases((real, 2, 3), (real, 3), (positive, 3), (real, 3), None),
)
def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    """Each channel (axis 1) over the batch and all places: (N, C, ...) (Ioffe and Szegedy 2015, algorithm 1).

    In training with the input's own mean and variance, which the running ones, where given, approach by the
    fraction `momentum` (their variance divides by n - 1); otherwise with the running ones.
    """
    x = as_tensor(input)
    if not x.numel():
        return _per_channel(clone(x), weight, bias)
    shape = _with_channels("batch_norm", x, 2)
    for of_channels in (running_mean, running_var, weight, bias):
        if of_channels is not None and tuple(of_channels.shape) != shape[1:2]:
            raise ShapeError(
                f"batch_norm of {shape[1]} channels (axis 1 of {shape}) with parameters of shape "
                f"{tuple(of_channels.shape)}.\nGive one number for each channel."
            )
    if eps < 0:
        raise OptionError(f"eps must be at least 0, got {eps}.\nPass such a number: 1e-5.")
    if not training:
        return _as_before("batch_norm", x, running_mean, running_var, weight, bias, eps)
    if eps <= 0:
        raise OptionError(f"eps must be above 0 in training, got {eps}.\nPass such a number: 1e-5.")
    n = math.prod(shape) // shape[1]
    if n == 1:
        raise ShapeError(
            f"batch_norm of shape {shape}: a channel has one element, whose variance is 0.\n"
            f"Give more than one in training, or normalize otherwise: layer_norm."
        )
    as_rows = lambda x: x.transpose(0, 1).reshape(shape[1], n)
    _follow(running_mean, running_var, lambda: _statistics(as_rows(x)), momentum)
    return _by_rows(
        x, weight, bias, eps, as_rows, lambda y: y.reshape(shape[1], shape[0], *shape[2:]).transpose(0, 1)
    )


@derived(
    autocast="float32",
    samples=cases((real, 2, 4, 3), 2, (real, 4), (real, 4))
    | cases((real, 2, 6), 2)
    | cases((real, 1, 3, 2, 2), 3),
)
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Each group of channels (axis 1) of each image: (N, C, ...) (Wu and He 2018)."""
    x = as_tensor(input)
    shape = _with_channels("group_norm", x, 2)
    if num_groups < 1 or shape[1] % num_groups:
        raise OptionError(
            f"group_norm of {shape[1]} channels in {num_groups} groups.\nTake a number that divides them."
        )
    n = shape[1] // num_groups * math.prod(shape[2:])
    y = layer_norm(x.reshape(shape[0] * num_groups, n), None, None, (n,), eps)
    return _per_channel(y.reshape(shape), weight, bias)


@derived(
    exact_in_half=True,  # the running statistics are changed in place
    samples=cases((real, 2, 2, 3), None, None, (real, 2), (real, 2))
    | cases((real, 1, 2, 2, 2))
    | cases((real, 2, 3, 2), (real, 3), (positive, 3), (real, 3), None, False),
)
def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    """Each channel (axis 1) of each image, over its places: (N, C, ...) (Ulyanov et al. 2016).

    Without `use_input_stats` by the running mean and variance; with it these, where given, approach the mean
    of the images' by the fraction `momentum`.
    """
    x = as_tensor(input)
    if (running_mean is None) != (running_var is None):
        raise OptionError("a running mean without a variance, or one without a mean.\nPass both, or neither.")
    shape = _with_channels("instance_norm", x, 3)
    if not use_input_stats:
        return _as_before("instance_norm", x, running_mean, running_var, weight, bias, eps)
    n = math.prod(shape[2:])
    if n == 1:
        raise ShapeError(
            f"instance_norm of shape {shape}: a channel has one element, whose variance is 0.\n"
            f"Give images of more than one place."
        )
    as_rows = lambda x: x.reshape(shape[0] * shape[1], n)
    of_channels = lambda values: values.reshape(shape[:2]).mean(0)
    _follow(running_mean, running_var, lambda: map(of_channels, _statistics(as_rows(x))), momentum)
    return _by_rows(x, weight, bias, eps, as_rows, lambda y: y.reshape(shape))


@derived(
    autocast="float32",
    samples=cases((real, 1, 4, 3), 3, alpha=0.5) | cases((real, 2, 3, 2, 2), 2, 0.5, 0.5, 2.0),
)
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha mean(x**2))**beta, the mean over `size` channels about each (Krizhevsky et al. 2012)."""
    x = as_floating(input)
    if size < 1:
        raise OptionError(f"a mean over {size} channels.\nPass a size of at least 1.")
    _with_channels("local_response_norm", x, 3)
    if not x.numel():
        return clone(x)
    squares = x.square().transpose(1, -1)
    near = sliding_windows(squares, (size,), (1,), ((size // 2, (size - 1) // 2),), (1,))
    return x / (near.mean(-1).transpose(1, -1) * alpha + k) ** beta


def _with_channels(name, x, least):
    """The shape of x, which must be (N, C, ...)."""
    if x.ndim < least:
        raise ShapeError(f"{name} of shape {x.shape}.\nGive (N, C, ...) with at least {least} axes.")
    return tuple(x.shape)


def _per_channel(y, weight, bias):
    """y * weight + bias, a number of each for each channel."""
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and p.shape != (y.shape[1],):
            raise ShapeError(
                f"{name} of shape {p.shape} for {y.shape[1]} channels.\nGive one number for each channel."
            )
    places = [1] * (y.ndim - 2)
    if weight is not None:
        y = y * weight.reshape(-1, *places)
    return y if bias is None else y + bias.reshape(-1, *places)


@partial(round_once, precision="float32")
def _by_rows(x, weight, bias, eps, as_rows, back):
    """Each row of x normalized, and in its old place scaled by channels."""
    rows = as_rows(x)
    return _per_channel(back(layer_norm(rows, None, None, rows.shape[1:], eps)), weight, bias)


def _statistics(rows):
    """The rows' means and variances, of 16 bits in float32."""
    wide = rows.float() if rows.dtype in HALF else rows
    return wide.mean(1), wide.var(1)


@partial(round_once, precision="float32")
def _as_before(name, x, mean, variance, weight, bias, eps):
    """x normalized by a mean and a variance that are known."""
    if mean is None or variance is None:
        raise OptionError(
            f"{name} without running_mean and running_var.\nGive them, or let it use the input's."
        )
    mean, variance = all_floating(mean, variance)
    scale = (variance + eps).rsqrt()
    return _per_channel(_per_channel(x, scale, -mean * scale), weight, bias)


def _follow(running_mean, running_var, statistics, momentum):
    """Move running statistics, where there are any, towards the new ones that `statistics` computes."""
    if running_mean is None and running_var is None:
        return
    with no_grad():
        for running, new in zip((running_mean, running_var), statistics(), strict=True):
            if isinstance(running, Tensor):
                if running.shape != new.shape:
                    raise ShapeError(
                        f"running statistics of shape {running.shape} for {len(new)} channels.\n"
                        f"Give one number for each channel."
                    )
                old = running.to(new.dtype)
                running.copy_(old * (1 - momentum) + new * momentum)
