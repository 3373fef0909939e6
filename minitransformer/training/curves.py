"""Plots the loss curves of a run."""

from __future__ import annotations

from pathlib import Path

from ..plots import training_curves

CURVES = "curves.png"


def draw_curves(folder: Path) -> Path:
    """Write `curves.png`: training and validation loss, and below them the learning rate, over steps."""
    training_curves(folder, path=folder / CURVES)
    return folder / CURVES
