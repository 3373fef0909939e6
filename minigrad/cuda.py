"""Functions to query and synchronize GPUs, with the names of torch.cuda."""

from __future__ import annotations

from .core.devices import find_backend, is_available, loaded

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all", "synchronize"]


def device_count() -> int:
    """Return the number of GPUs, which is 0 without CuPy or a driver."""
    return find_backend("cuda").device_count() if is_available() else 0


def synchronize() -> None:
    """Wait until the GPU has finished all queued work; do nothing without a GPU."""
    if loaded and is_available():
        for backend in loaded:
            backend.synchronize()


def manual_seed(seed: int) -> None:
    """Do nothing, since `mg.manual_seed` seeds the random numbers of every device."""


manual_seed_all = manual_seed
