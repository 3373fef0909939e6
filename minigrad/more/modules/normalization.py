"""Normalization over batches, groups of channels and images."""

from __future__ import annotations

from typing import Any

from ...core.errors import OptionError, ShapeError
from ...core.modes import no_grad
from ...core.tensor import Tensor
from ...nn import functional as F
from ...nn.function_module import FunctionModule
from ...nn.layers import new_parameter, reset_scale_and_shift
from ...nn.module import Module, Parameter
from ...ops.creation import ones, zeros
from .bases import Family

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LocalResponseNorm",
]  # fmt: skip


class _Affine(Module):
    """Holds a learned scale (initially 1) and shift (initially 0), either of which may be None."""

    weight: Parameter | None
    bias: Parameter | None

    def _add_parameters(self, features: int, weight: bool, bias: bool, **where: Any) -> None:
        for name, is_there in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, new_parameter(features, **where) if is_there else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_scale_and_shift(self)


class GroupNorm(_Affine):
    """Normalize each group of channels of each image (Wu and He 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise OptionError(
                f"num_channels {num_channels} must be divisible by num_groups, got {num_groups}.\n"
                f"Pass a divisor of {num_channels}."
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._add_parameters(num_channels, affine, affine and bias, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _RunningNorm(_Affine, Family):
    """Holds running statistics for evaluation."""

    axes: tuple[int, ...]  # allowed numbers of axes of an input
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def _set_up(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        bias: bool,
        **where: Any,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **where) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **where) if tracked else None)
        count = zeros((), dtype="int64", device=where["device"])
        self.register_buffer("num_batches_tracked", count if tracked else None)
        self._add_parameters(num_features, affine, affine and bias, **where)

    def reset_running_stats(self) -> None:
        if self.running_mean is not None:
            with no_grad():
                for buffer, value in zip(self.buffers(recurse=False), (0, 1, 0), strict=True):
                    buffer.fill_(value)

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        super().reset_parameters()

    def _check(self, input: Tensor) -> None:
        if input.ndim not in self.axes:
            raise ShapeError(
                f"{type(self).__name__} got shape {input.shape}.\n"
                f"Pass a tensor with {' or '.join(map(str, self.axes))} axes."
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        how = (num_features, eps, momentum, affine, track_running_stats, bias)
        self._set_up(*how, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        update = self.training and self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        if update and self.num_batches_tracked is not None:
            self.num_batches_tracked.copy_(self.num_batches_tracked + 1)
            if self.momentum is None:  # average over all batches so far
                momentum = 1 / int(self.num_batches_tracked)
        of_batch = self.training or self.running_mean is None
        running = (self.running_mean, self.running_var) if update or not of_batch else (None, None)
        return F.batch_norm(input, *running, self.weight, self.bias, of_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm, axes=(2, 3)):
    """Normalize each channel of (N, C) or (N, C, L) over the batch (Ioffe and Szegedy 2015).

    With momentum=None the running statistics are the means over all batches.
    """


class BatchNorm2d(_BatchNorm, axes=(4,)):
    """Normalize each channel of (N, C, H, W) over the batch (Ioffe and Szegedy 2015)."""


class BatchNorm3d(_BatchNorm, axes=(5,)):
    """Normalize each channel of (N, C, D, H, W) over the batch (Ioffe and Szegedy 2015)."""


class _InstanceNorm(_RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: str | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        how = (num_features, eps, momentum, affine, track_running_stats, bias)
        self._set_up(*how, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        single = input.ndim == self.axes[0]
        x = input.unsqueeze(0) if single else input
        of_input = self.training or not self.track_running_stats
        running = (self.running_mean, self.running_var)
        y = F.instance_norm(x, *running, self.weight, self.bias, of_input, self.momentum or 0.0, self.eps)
        return y.squeeze(0) if single else y


class InstanceNorm1d(_InstanceNorm, axes=(2, 3)):
    """Normalize each channel of each example of (N, C, L), or of one (C, L) (Ulyanov et al. 2016)."""


class InstanceNorm2d(_InstanceNorm, axes=(3, 4)):
    """Normalize each channel of each image of (N, C, H, W), or of one (C, H, W) (Ulyanov et al. 2016)."""


class InstanceNorm3d(_InstanceNorm, axes=(4, 5)):
    """Normalize each channel of each volume of (N, C, D, H, W), or of one (Ulyanov et al. 2016)."""


class LocalResponseNorm(FunctionModule, function=F.local_response_norm):
    """x / (k + alpha mean(x**2))**beta over `size` neighbouring channels (Krizhevsky et al. 2012)."""

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
