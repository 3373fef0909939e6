"""GPUs (torch.cuda): whether there is one, and waiting for it."""

from __future__ import annotations

from .core.devices import find_backend, is_available, loaded

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all", "synchronize"]


def device_count() -> int:
    """How many GPUs there are, 0 also without CuPy or a driver."""
    return find_backend("cuda").device_count() if is_available() else 0


def synchronize() -> None:
    """Wait until the GPU has finished: its work is queued, and the program continues meanwhile."""
    for backend in loaded:
        backend.synchronize()


def manual_seed(seed: int) -> None:
    """Changes nothing: draws are made on the CPU, for every device, and `mg.manual_seed` seeds them."""


manual_seed_all = manual_seed
