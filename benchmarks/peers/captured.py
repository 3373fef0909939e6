"""minigrad with the whole step captured as a CUDA graph (`minigrad.capture`): forward, backward and AdamW."""

from __future__ import annotations

import numpy as np

from ..works import Decoder
from . import ours

LABEL = "minigrad, captured"
PACKAGES = ours.PACKAGES
CANNOT: dict[str, str] = {}


def decoder(work: Decoder, weights: dict[str, np.ndarray], device: str = "cpu") -> ours.Step:
    return ours.decoder(work, weights, device, captured=True)
