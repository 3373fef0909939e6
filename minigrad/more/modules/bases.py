"""The base class of modules that differ by constants."""

from __future__ import annotations

from typing import Any

from ...nn.module import Module


class Family(Module):
    """Base of modules that differ by constants: `class Conv1d(Conv, axes=1)` sets the attribute `axes`."""

    def __init_subclass__(cls, **constants: Any) -> None:
        super().__init_subclass__()
        for name, value in constants.items():
            setattr(cls, name, value)
