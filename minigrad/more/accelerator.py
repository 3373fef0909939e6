"""The GPU in use under the names of torch.accelerator."""

from __future__ import annotations

from ..core.devices import Device, check_device, is_available
from ..cuda import device_count, synchronize

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return the current GPU, or None without one."""
    return check_device("cuda") if is_available() else None
