"""Convolution modules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.errors import OptionError, ShapeError
from ...core.tensor import Tensor
from ...nn import functional as F
from ...nn.function_module import FunctionModule
from ...nn.layers import new_parameter, reset_uniformly
from ...nn.module import Parameter
from ..windows import per_axis
from .bases import Family

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Fold", "Unfold",
]  # fmt: skip

Sizes = int | Sequence[int]


class _ConvBase(Family):
    """Holds a kernel and a bias, initialized uniformly in ±1 / sqrt(fan_in)."""

    axes: int  # number of spatial axes
    transposed = False
    bias: Parameter | None

    def _set_up(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Sizes | str,
        dilation: Sizes,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: str | None,
        dtype: Any,
        output_padding: Sizes = 0,
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise OptionError(
                f"in_channels {in_channels} and out_channels {out_channels} must be divisible by groups, got "
                f"{groups}.\nPass a number that divides both."
            )
        n = self.axes
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.groups = groups
        self.kernel_size = per_axis("kernel_size", kernel_size, n)
        self.stride, self.dilation = per_axis("stride", stride, n), per_axis("dilation", dilation, n)
        if isinstance(padding, str) and padding not in ("valid", "same"):
            raise OptionError(
                f'padding must be "valid", "same" or sizes, got {padding!r}.\nChoose one of them.'
            )
        self.padding = padding if isinstance(padding, str) else per_axis("padding", padding, n, least=0)
        self.output_padding = per_axis("output_padding", output_padding, n, least=0)
        if padding_mode not in ("zeros", "circular", "reflect", "replicate"):
            raise OptionError(
                f"padding_mode must be 'zeros', 'circular', 'reflect' or 'replicate', got {padding_mode!r}.\n"
                f"Choose one of them."
            )
        self.padding_mode = padding_mode
        own, other = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (own, other // groups, *self.kernel_size)
        self.weight = new_parameter(*shape, device=device, dtype=dtype)
        new_bias = new_parameter(out_channels, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", new_bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_uniformly(self, math.prod(self.weight.shape[1:]))

    def extra_repr(self) -> str:
        n = self.axes
        shown = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        for name, usual in (
            ("padding", (0,) * n),
            ("dilation", (1,) * n),
            ("output_padding", (0,) * n),
            ("groups", 1),
        ):
            if getattr(self, name) != usual:
                shown += f", {name}={getattr(self, name)}"
        shown += "" if self.bias is not None else ", bias=False"
        return shown if self.padding_mode == "zeros" else f"{shown}, padding_mode={self.padding_mode}"


class _Conv(_ConvBase):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        how = (stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        self._set_up(in_channels, out_channels, kernel_size, *how)

    def forward(self, input: Tensor) -> Tensor:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self.axes - 1]
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._ends(), self.padding_mode)
            padding = 0
        return convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _ends(self) -> list[int]:
        """The padding before and after each axis, for `pad`: the last axis first."""
        ends = []
        for i in reversed(range(self.axes)):
            span = self.dilation[i] * (self.kernel_size[i] - 1) if self.padding == "same" else 0
            own = self.padding[i] if isinstance(self.padding, tuple) else 0
            ends += [own + span // 2, own + span - span // 2]
        return ends


class Conv1d(_Conv, axes=1):
    """Convolution of (N, C, L) with `out_channels` kernels; see `functional.conv1d`."""


class Conv2d(_Conv, axes=2):
    """Convolution of images (N, C, H, W) with `out_channels` kernels; see `functional.conv1d`."""


class Conv3d(_Conv, axes=3):
    """Convolution of (N, C, D, H, W) with `out_channels` kernels; see `functional.conv1d`."""


class _ConvTranspose(_ConvBase):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise OptionError(f'padding_mode must be "zeros", got {padding_mode!r}.\nLeave it out.')
        how = (stride, padding, dilation, groups, bias, padding_mode, device, dtype, output_padding)
        self._set_up(in_channels, out_channels, kernel_size, *how)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.axes - 1]
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        how = (self.stride, self.padding, extra, self.groups, self.dilation)
        return convolve(input, self.weight, self.bias, *how)

    def _extra(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output padding for this output size, which must be one that the stride allows."""
        n = self.axes
        least = [
            (length - 1) * s - 2 * int(p) + d * (k - 1) + 1
            for length, s, p, d, k in zip(
                input.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        extra = tuple(size - low for size, low in zip(output_size[-n:], least, strict=True))
        if any(not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)):
            most = [low + s - 1 for low, s in zip(least, self.stride, strict=True)]
            raise ShapeError(
                f"output_size must be from {least} to {most}, got {tuple(output_size)}.\n"
                f"Pass a size in that range."
            )
        return extra


class ConvTranspose1d(_ConvTranspose, axes=1):
    """Transposed convolution of (N, C, L), which upsamples; see `functional.conv_transpose1d`."""


class ConvTranspose2d(_ConvTranspose, axes=2):
    """Transposed convolution of images (N, C, H, W), which upsamples; see `functional.conv_transpose1d`."""


class ConvTranspose3d(_ConvTranspose, axes=3):
    """Transposed convolution of (N, C, D, H, W), which upsamples; see `functional.conv_transpose1d`."""


class Unfold(FunctionModule, function=F.unfold):
    """Windows of images as columns; see `functional.unfold`."""


class Fold(FunctionModule, function=F.fold):
    """Add up columns into images of `output_size`; see `functional.fold`."""
