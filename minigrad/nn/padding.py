"""Padding as modules: `functional.pad` with its settings, for inputs of one, two or three spatial axes."""

from __future__ import annotations

from collections.abc import Sequence

from ..tensor import Tensor
from . import functional as F
from .module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """Pads the last `axes` axes in one `mode`."""

    axes: int
    mode: str

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Pads the last `axes` axes with a number."""

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    mode = "constant"


class _ReflectionPad(_Pad):
    mode = "reflect"


class _ReplicationPad(_Pad):
    mode = "replicate"


class _CircularPad(_Pad):
    mode = "circular"


class ConstantPad1d(_ConstantPad):
    """A number at both ends of the last axis: `padding` of them, or (left, right)."""

    axes = 1


class ConstantPad2d(_ConstantPad):
    """A number around the last two axes: `padding` of them, or (left, right, top, bottom)."""

    axes = 2


class ConstantPad3d(_ConstantPad):
    """A number around the last three axes: `padding` of them, or a pair for each axis, the last first."""

    axes = 3


class ZeroPad1d(_ZeroPad):
    """Zeros at both ends of the last axis: `padding` of them, or (left, right)."""

    axes = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around the last two axes: `padding` of them, or (left, right, top, bottom)."""

    axes = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around the last three axes: `padding` of them, or a pair for each axis, the last first."""

    axes = 3


class ReflectionPad1d(_ReflectionPad):
    """The last axis mirrored at its ends, which are not repeated."""

    axes = 1


class ReflectionPad2d(_ReflectionPad):
    """The last two axes mirrored at their ends, which are not repeated."""

    axes = 2


class ReflectionPad3d(_ReflectionPad):
    """The last three axes mirrored at their ends, which are not repeated."""

    axes = 3


class ReplicationPad1d(_ReplicationPad):
    """The ends of the last axis repeated."""

    axes = 1


class ReplicationPad2d(_ReplicationPad):
    """The ends of the last two axes repeated."""

    axes = 2


class ReplicationPad3d(_ReplicationPad):
    """The ends of the last three axes repeated."""

    axes = 3


class CircularPad1d(_CircularPad):
    """The last axis as a ring: what lies at one end is put before the other."""

    axes = 1


class CircularPad2d(_CircularPad):
    """The last two axes as rings: what lies at one end is put before the other."""

    axes = 2


class CircularPad3d(_CircularPad):
    """The last three axes as rings: what lies at one end is put before the other."""

    axes = 3
