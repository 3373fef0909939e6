"""Batch, group, instance and local response normalization, exported by `nn.functional`.

All arrange the elements that share a mean as rows.
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
    exact_in_half=True,  # the running statistics are updated in place
    samples=cases((real, 3, 2), None, None, (real, 2), (real, 2), True)
    | cases((real, 2, 2, 3), None, None, None, None, True)
    | cases((real, 2, 3), (real, 3), (positive, 3), (real, 3), None),
)
def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    """Normalize each channel of (N, C, ...) over batch and positions (Ioffe and Szegedy 2015, algorithm 1).

    In training the mean and variance are the input's, and running statistics, if given, move towards them by
    the fraction `momentum` (the running variance is unbiased). Otherwise the running statistics are used.
    """
    x = as_tensor(input)
    if not x.numel():
        return _per_channel(clone(x), weight, bias)
    shape = _check_channels("batch_norm", x, 2)
    for of_channels in (running_mean, running_var, weight, bias):
        if of_channels is not None and tuple(of_channels.shape) != shape[1:2]:
            raise ShapeError(
                f"batch_norm got {shape[1]} channels (axis 1 of {shape}) and a parameter of shape "
                f"{tuple(of_channels.shape)}.\nPass one number for each channel."
            )
    if eps < 0:
        raise OptionError(f"eps must be at least 0, got {eps}.\nThe default is 1e-5.")
    if not training:
        return _by_running_statistics("batch_norm", x, running_mean, running_var, weight, bias, eps)
    if eps <= 0:
        raise OptionError(f"eps must be above 0 in training, got {eps}.\nThe default is 1e-5.")
    n = math.prod(shape) // shape[1]
    if n == 1:
        raise ShapeError(
            f"batch_norm needs more than one element per channel in training, got shape {shape}.\n"
            f"Pass a larger batch, or use layer_norm."
        )
    as_rows = lambda x: x.transpose(0, 1).reshape(shape[1], n)
    _update_running(running_mean, running_var, lambda: _statistics(as_rows(x)), momentum)
    return _normalize_rows(
        x, weight, bias, eps, as_rows, lambda y: y.reshape(shape[1], shape[0], *shape[2:]).transpose(0, 1)
    )


@derived(
    autocast="float32",
    exact_in_half=True,  # see `_normalize_rows`
    samples=cases((real, 2, 4, 3), 2, (real, 4), (real, 4))
    | cases((real, 2, 6), 2)
    | cases((real, 1, 3, 2, 2), 3),
)
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalize each group of channels (axis 1) of each image, (N, C, ...) (Wu and He 2018)."""
    x = as_tensor(input)
    shape = _check_channels("group_norm", x, 2)
    if num_groups < 1 or shape[1] % num_groups:
        raise OptionError(
            f"group_norm got {shape[1]} channels and {num_groups} groups.\nPass a divisor of {shape[1]}."
        )
    n = shape[1] // num_groups * math.prod(shape[2:])
    as_rows = lambda x: x.reshape(shape[0] * num_groups, n)
    return _normalize_rows(x, weight, bias, eps, as_rows, lambda y: y.reshape(shape))


@derived(
    exact_in_half=True,  # the running statistics are updated in place
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
    """Normalize each channel (axis 1) of each image over its positions, (N, C, ...) (Ulyanov et al. 2016).

    If `use_input_stats` is True, the statistics are the input's, and running statistics, if given, move
    towards their mean over the images by the fraction `momentum`. Otherwise the running statistics are used.
    """
    x = as_tensor(input)
    if (running_mean is None) != (running_var is None):
        raise OptionError("running_mean and running_var must be given together.\nPass both, or neither.")
    shape = _check_channels("instance_norm", x, 3)
    if not use_input_stats:
        return _by_running_statistics("instance_norm", x, running_mean, running_var, weight, bias, eps)
    n = math.prod(shape[2:])
    if n == 1:
        raise ShapeError(
            f"instance_norm needs more than one element per channel, got shape {shape}.\nPass larger images."
        )
    as_rows = lambda x: x.reshape(shape[0] * shape[1], n)
    of_channels = lambda values: values.reshape(shape[:2]).mean(0)
    _update_running(running_mean, running_var, lambda: map(of_channels, _statistics(as_rows(x))), momentum)
    return _normalize_rows(x, weight, bias, eps, as_rows, lambda y: y.reshape(shape))


@derived(
    autocast="float32",
    samples=cases((real, 1, 4, 3), 3, alpha=0.5) | cases((real, 2, 3, 2, 2), 2, 0.5, 0.5, 2.0),
)
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha mean(x**2))**beta, averaged over `size` adjacent channels (Krizhevsky et al. 2012)."""
    x = as_floating(input)
    if size < 1:
        raise OptionError(f"size must be at least 1, got {size}.\nPass the number of channels.")
    _check_channels("local_response_norm", x, 3)
    if not x.numel():
        return clone(x)
    squares = x.square().transpose(1, -1)
    near = sliding_windows(squares, (size,), (1,), ((size // 2, (size - 1) // 2),), (1,))
    return x / (near.mean(-1).transpose(1, -1) * alpha + k) ** beta


def _check_channels(name, x, least):
    """Check that x is (N, C, ...) with at least `least` axes, and return its shape."""
    if x.ndim < least:
        raise ShapeError(f"{name} got shape {x.shape}.\nPass (N, C, ...) with at least {least} axes.")
    return tuple(x.shape)


def _per_channel(y, weight, bias):
    """y * weight + bias, with one weight and bias for each channel."""
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and p.shape != (y.shape[1],):
            raise ShapeError(
                f"{name} must have shape ({y.shape[1]},), got {p.shape}.\nPass one number for each channel."
            )
    places = [1] * (y.ndim - 2)
    if weight is not None:
        y = y * weight.reshape(-1, *places)
    return y if bias is None else y + bias.reshape(-1, *places)


@partial(round_once, precision="float32", like_first=True)
def _normalize_rows(x, weight, bias, eps, as_rows, back):
    """Normalize the rows of x, restore its layout, and scale by channel."""
    rows = as_rows(x)
    return _per_channel(back(layer_norm(rows, None, None, rows.shape[1:], eps)), weight, bias)


def _statistics(rows):
    """The rows' means and variances, in float32 for 16-bit rows."""
    wide = rows.float() if rows.dtype in HALF else rows
    return wide.mean(1), wide.var(1)


@partial(round_once, precision="float32", like_first=True)
def _by_running_statistics(name, x, mean, variance, weight, bias, eps):
    """Normalize x by the given mean and variance."""
    if mean is None or variance is None:
        raise OptionError(
            f"{name} needs running_mean and running_var.\nPass them, or use the input's statistics."
        )
    mean, variance = all_floating(mean, variance)
    scale = (variance + eps).rsqrt()
    return _per_channel(_per_channel(x, scale, -mean * scale), weight, bias)


def _update_running(running_mean, running_var, statistics, momentum):
    """Move running statistics, if given, towards the new ones that `statistics` computes."""
    if running_mean is None and running_var is None:
        return
    with no_grad():
        for running, new in zip((running_mean, running_var), statistics(), strict=True):
            if isinstance(running, Tensor):
                if running.shape != new.shape:
                    raise ShapeError(
                        f"running statistics must have shape ({len(new)},), got {running.shape}.\n"
                        f"Pass one number for each channel."
                    )
                old = running.to(new.dtype)
                running.copy_(old * (1 - momentum) + new * momentum)
