"""Plots the loss curves of a run."""

from __future__ import annotations

from pathlib import Path

from ..plots import training_curves
from .log import read_log

__all__ = ["draw_curves", "read_log"]


def draw_curves(folder: Path) -> Path:
    """Write `curves.png`: training and validation loss, and below them the learning rate, over steps."""
    training_curves(folder, path=folder / "curves.png")
    return folder / "curves.png"
