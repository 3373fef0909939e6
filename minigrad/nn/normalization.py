"""Normalization as modules: learned scales and shifts, and the statistics that a batch norm remembers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import OptionError, ShapeError
from ..tensor import Tensor
from . import functional as F
from .module import Module, Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


class _Scaled(Module):
    """A scale that begins with ones and a shift that begins with zeros, where they are wanted."""

    weight: Parameter | None
    bias: Parameter | None

    def _learn(self, shape: tuple[int, ...], weight: bool, bias: bool) -> None:
        ones, zeros = np.ones(shape, np.float32), np.zeros(shape, np.float32)
        self.register_parameter("weight", Parameter(ones) if weight else None)
        self.register_parameter("bias", Parameter(zeros) if bias else None)


def _as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class LayerNorm(_Scaled):
    """Layer normalization over the last axes, with a learned scale and shift (Ba, Kiros and Hinton 2016)."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _as_shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        self._learn(self.normalized_shape, elementwise_affine, elementwise_affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """The last axes divided by their root mean square, with a learned scale (Zhang and Sennrich 2019)."""

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _as_shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        ones = np.ones(self.normalized_shape, np.float32)
        self.register_parameter("weight", Parameter(ones) if elementwise_affine else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Scaled):
    """Normalization of each group of channels of each image (Wu and He 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise OptionError(
                f"{num_channels} channels in {num_groups} groups.\nTake a number of groups that divides them."
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._learn((num_channels,), affine, affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _Remembering(_Scaled):
    """Statistics of what has come by, which are used in evaluation."""

    axes: tuple[int, ...]  # how many an input may have
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def _remember(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._learn((num_features,), affine, affine and bias)
        kept = track_running_stats
        self.register_buffer("running_mean", Tensor(np.zeros(num_features, np.float32)) if kept else None)
        self.register_buffer("running_var", Tensor(np.ones(num_features, np.float32)) if kept else None)
        self.register_buffer("num_batches_tracked", Tensor(np.array(0)) if kept else None)

    def _check(self, input: Tensor) -> None:
        if input.ndim not in self.axes:
            raise ShapeError(
                f"{type(self).__name__} of shape {input.shape}.\n"
                f"Give a tensor with {' or '.join(map(str, self.axes))} axes."
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Remembering):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
    ) -> None:
        self._remember(num_features, eps, momentum, affine, track_running_stats, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        follows = self.training and self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        if follows and self.num_batches_tracked is not None:
            self.num_batches_tracked.copy_(self.num_batches_tracked + 1)
            if self.momentum is None:  # the mean of all batches so far
                momentum = 1 / int(self.num_batches_tracked)
        own = self.training or self.running_mean is None
        remembered = (self.running_mean, self.running_var) if follows or not own else (None, None)
        return F.batch_norm(input, *remembered, self.weight, self.bias, own, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalization of each channel of (N, C) or (N, C, L) over the batch (Ioffe and Szegedy 2015).

    `momentum` None: the running statistics are the means over all batches.
    """

    axes = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalization of each channel of (N, C, H, W) over the batch (Ioffe and Szegedy 2015)."""

    axes = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalization of each channel of (N, C, D, H, W) over the batch (Ioffe and Szegedy 2015)."""

    axes = (5,)


class _InstanceNorm(_Remembering):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        bias: bool = True,
    ) -> None:
        self._remember(num_features, eps, momentum, affine, track_running_stats, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        single = input.ndim == self.axes[0]
        x = input.unsqueeze(0) if single else input
        own = self.training or not self.track_running_stats
        statistics = (self.running_mean, self.running_var)
        y = F.instance_norm(x, *statistics, self.weight, self.bias, own, self.momentum or 0.0, self.eps)
        return y.squeeze(0) if single else y


class InstanceNorm1d(_InstanceNorm):
    """Normalization of each channel of each of (N, C, L), or of one (C, L) (Ulyanov et al. 2016)."""

    axes = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalization of each channel of each of (N, C, H, W), or of one (C, H, W) (Ulyanov et al. 2016)."""

    axes = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalization of each channel of each of (N, C, D, H, W), or of one (Ulyanov et al. 2016)."""

    axes = (4, 5)


class LocalResponseNorm(Module):
    """Each number by the squares about it in `size` channels (Krizhevsky et al. 2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
