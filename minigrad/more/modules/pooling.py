"""Pooling and resampling modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...nn import functional as F
from ...nn.function_module import FunctionModule
from ...nn.module import Module
from ..windows import per_axis
from .bases import Family

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "ChannelShuffle",
    "Flatten", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
    "PixelShuffle", "PixelUnshuffle", "Unflatten", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]  # fmt: skip

Sizes = int | Sequence[int]


# ---------------------------------------------------------------- windows


class Pool(FunctionModule):
    """A pooling module whose stride defaults to its kernel size."""

    def _configure(self, **settings: Any) -> None:
        if settings["stride"] is None:
            settings["stride"] = settings["kernel_size"]
        super()._configure(**settings)


class MaxPool(Pool):
    """A pooling module whose constructor takes `return_indices` before `ceil_mode`, as in PyTorch."""

    def __init_subclass__(cls, function: Callable[..., Any] | None = None) -> None:
        settings = "kernel_size stride padding dilation return_indices ceil_mode"
        super().__init_subclass__(function, 1, settings, "kernel_size stride padding dilation ceil_mode")


class MaxPool1d(MaxPool, function=F.max_pool1d):
    """The maximum of each window of (N, C, L)."""


class MaxPool2d(MaxPool, function=F.max_pool2d):
    """The maximum of each window of (N, C, H, W)."""


class MaxPool3d(MaxPool, function=F.max_pool3d):
    """The maximum of each window of (N, C, D, H, W)."""


class AvgPool1d(Pool, function=F.avg_pool1d, shown="kernel_size stride padding"):
    """The mean of each window of (N, C, L)."""

    def _configure(self, **settings: Any) -> None:
        for name in ("kernel_size", "stride", "padding"):  # tuples, as in PyTorch
            value = settings[name]
            settings[name] = (value,) if isinstance(value, int) else value and tuple(value)
        super()._configure(**settings)


class AvgPool2d(Pool, function=F.avg_pool2d, shown="kernel_size stride padding"):
    """The mean of each window of (N, C, H, W)."""


class AvgPool3d(Pool, function=F.avg_pool3d, shown="kernel_size stride padding"):
    """The mean of each window of (N, C, D, H, W)."""


class AdaptiveAvgPool1d(FunctionModule, function=F.adaptive_avg_pool1d):
    """The means of `output_size` windows that cover (N, C, L)."""


class AdaptiveAvgPool2d(FunctionModule, function=F.adaptive_avg_pool2d):
    """The means of a grid of windows that cover (N, C, H, W)."""


class AdaptiveAvgPool3d(FunctionModule, function=F.adaptive_avg_pool3d):
    """The means of a grid of windows that cover (N, C, D, H, W)."""


class AdaptiveMaxPool1d(FunctionModule, function=F.adaptive_max_pool1d, shown="output_size"):
    """The maxima of `output_size` windows that cover (N, C, L)."""


class AdaptiveMaxPool2d(FunctionModule, function=F.adaptive_max_pool2d, shown="output_size"):
    """The maxima of a grid of windows that cover (N, C, H, W)."""


class AdaptiveMaxPool3d(FunctionModule, function=F.adaptive_max_pool3d, shown="output_size"):
    """The maxima of a grid of windows that cover (N, C, D, H, W)."""


class MaxUnpool(Family):
    """Put the maxima of a MaxPool back at their indices, with zeros elsewhere."""

    axes: int  # number of spatial axes

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        stride = kernel_size if stride is None else stride
        self.kernel_size = per_axis("kernel_size", kernel_size, self.axes)
        self.stride = per_axis("stride", stride, self.axes)
        self.padding = per_axis("padding", padding, self.axes, least=0)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self.axes - 1]
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(MaxUnpool, axes=1):
    """Put the maxima of MaxPool1d back at their indices, with zeros elsewhere."""


class MaxUnpool2d(MaxUnpool, axes=2):
    """Put the maxima of MaxPool2d back at their indices, with zeros elsewhere."""


class MaxUnpool3d(MaxUnpool, axes=3):
    """Put the maxima of MaxPool3d back at their indices, with zeros elsewhere."""


# ---------------------------------------------------------------- resolution and shape


class Upsample(
    FunctionModule,
    function=F.interpolate,
    settings="size scale_factor mode align_corners recompute_scale_factor",
):
    """Resize images; see `functional.interpolate`."""

    def _configure(self, **settings: Any) -> None:
        factor = settings["scale_factor"]
        if isinstance(factor, int):
            settings["scale_factor"] = float(factor)
        elif isinstance(factor, tuple | list):
            settings["scale_factor"] = tuple(map(float, factor))
        super()._configure(**settings)

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resize images by nearest-neighbour interpolation."""

    def __init__(
        self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resize images by bilinear interpolation with aligned corners."""

    def __init__(
        self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(FunctionModule, function=F.pixel_shuffle):
    """(..., C r², H, W) -> (..., C, H r, W r)."""


class PixelUnshuffle(FunctionModule, function=F.pixel_unshuffle):
    """(..., C, H r, W r) -> (..., C r², H, W)."""


class ChannelShuffle(FunctionModule, function=F.channel_shuffle):
    """Interleave the channels of `groups` groups."""


class Flatten(Module):
    """Flatten the axes from `start_dim` to `end_dim`, by default all but the batch axis."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split axis `dim` into axes of the given sizes."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
