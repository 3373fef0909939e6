"""Plots the loss curves of a run."""

from __future__ import annotations

from pathlib import Path

from ..plots import training_curves
from ..plots.style import styled, to_bytes
from .lock import opened

CURVES = "curves.png"


def draw_curves(folder: Path) -> Path:
    """Write `curves.png`: training and validation loss, and below them the learning rate, over steps."""
    with styled([str(folder)]):
        picture = to_bytes(training_curves(folder), "png")
    with opened(folder) as files:
        files.write(CURVES, picture)
    return folder / CURVES
