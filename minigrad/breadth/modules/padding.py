"""Padding as modules: `functional.pad` of the last one, two or three axes."""

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
    """Pads the last `axes` axes, each end by `padding`, or by two numbers for each axis, the last first."""

    axes: int
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        if self.mode != "constant" and input.ndim not in (self.axes + 1, self.axes + 2):
            raise ShapeError(
                f"{type(self).__name__} takes an input of {self.axes + 1} or {self.axes + 2} axes, got "
                f"{tuple(input.shape)}.\nUse functional.pad for others."
            )
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad(Pad):
    """Pads the last `axes` axes with a number."""

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(ConstantPad, axes=1):
    """`value` at both ends of the last axis."""


class ConstantPad2d(ConstantPad, axes=2):
    """`value` around the last two axes."""


class ConstantPad3d(ConstantPad, axes=3):
    """`value` around the last three axes."""


class ZeroPad1d(Pad, axes=1):
    """Zeros at both ends of the last axis."""


class ZeroPad2d(Pad, axes=2):
    """Zeros around the last two axes."""


class ZeroPad3d(Pad, axes=3):
    """Zeros around the last three axes."""


class ReflectionPad1d(Pad, axes=1, mode="reflect"):
    """The last axis mirrored at its ends, which are not repeated."""


class ReflectionPad2d(Pad, axes=2, mode="reflect"):
    """The last two axes mirrored at their ends, which are not repeated."""


class ReflectionPad3d(Pad, axes=3, mode="reflect"):
    """The last three axes mirrored at their ends, which are not repeated."""


class ReplicationPad1d(Pad, axes=1, mode="replicate"):
    """The ends of the last axis repeated."""


class ReplicationPad2d(Pad, axes=2, mode="replicate"):
    """The ends of the last two axes repeated."""


class ReplicationPad3d(Pad, axes=3, mode="replicate"):
    """The ends of the last three axes repeated."""


class CircularPad1d(Pad, axes=1, mode="circular"):
    """The last axis as a ring: what lies at one end is put before the other."""


class CircularPad2d(Pad, axes=2, mode="circular"):
    """The last two axes as rings: what lies at one end is put before the other."""


class CircularPad3d(Pad, axes=3, mode="circular"):
    """The last three axes as rings: what lies at one end is put before the other."""
