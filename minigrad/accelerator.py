"""The GPU in use under the names of torch.accelerator."""

from __future__ import annotations

from .core.devices import Device, check_device, is_available
from .cuda import device_count, synchronize

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


def current_accelerator(check_available: bool = False) -> Device | None:
    """The current GPU, or None if there is none."""
    return check_device("cuda") if is_available() else None
