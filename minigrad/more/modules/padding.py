"""Padding modules: `functional.pad` of the last one, two or three axes."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import ShapeError
from ...core.tensor import Tensor
from ...nn import functional as F
from .bases import Family

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class Pad(Family):
    """Pad the last `axes` axes: by `padding` at each end, or by a pair for each axis, the last axis first."""

    axes: int
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        if self.mode != "constant" and input.ndim not in (self.axes + 1, self.axes + 2):
            raise ShapeError(
                f"{type(self).__name__} needs an input with {self.axes + 1} or {self.axes + 2} axes, got "
                f"shape {tuple(input.shape)}.\nUse functional.pad for others."
            )
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad(Pad):
    """Pad the last `axes` axes with `value`."""

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(ConstantPad, axes=1):
    """Pad the last axis with `value`."""


class ConstantPad2d(ConstantPad, axes=2):
    """Pad the last two axes with `value`."""


class ConstantPad3d(ConstantPad, axes=3):
    """Pad the last three axes with `value`."""


class ZeroPad1d(Pad, axes=1):
    """Pad the last axis with zeros."""


class ZeroPad2d(Pad, axes=2):
    """Pad the last two axes with zeros."""


class ZeroPad3d(Pad, axes=3):
    """Pad the last three axes with zeros."""


class ReflectionPad1d(Pad, axes=1, mode="reflect"):
    """Pad the last axis by reflection, without repeating the edges."""


class ReflectionPad2d(Pad, axes=2, mode="reflect"):
    """Pad the last two axes by reflection, without repeating the edges."""


class ReflectionPad3d(Pad, axes=3, mode="reflect"):
    """Pad the last three axes by reflection, without repeating the edges."""


class ReplicationPad1d(Pad, axes=1, mode="replicate"):
    """Pad the last axis by repeating its edges."""


class ReplicationPad2d(Pad, axes=2, mode="replicate"):
    """Pad the last two axes by repeating their edges."""


class ReplicationPad3d(Pad, axes=3, mode="replicate"):
    """Pad the last three axes by repeating their edges."""


class CircularPad1d(Pad, axes=1, mode="circular"):
    """Pad the last axis circularly: with elements from its opposite end."""


class CircularPad2d(Pad, axes=2, mode="circular"):
    """Pad the last two axes circularly: with elements from their opposite ends."""


class CircularPad3d(Pad, axes=3, mode="circular"):
    """Pad the last three axes circularly: with elements from their opposite ends."""
