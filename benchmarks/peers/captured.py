"""minigrad on a GPU with the whole step captured (`minigrad.capture`): a CUDA graph is replayed."""

from __future__ import annotations

from typing import Any

from . import ours

LABEL = "minigrad, captured"
PACKAGES = ours.PACKAGES
CANNOT: dict[str, str] = {}


def decoder(*work: Any) -> ours.Step:
    return ours.decoder(*work).capture()
