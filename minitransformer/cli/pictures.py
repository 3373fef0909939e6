"""The plots of `train`: training curves and, with --diagnostics, the diagnostics of the layers."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path

from rich.console import Console

from ..files import one_line
from ..plots.curves import CURVES, draw_curves
from ..plots.diagnostics import PICTURE
from ..plots.diagnostics import draw as draw_diagnostics


def check() -> None:
    """Import matplotlib, so that its invalid settings raise an error before training starts."""
    import_module("matplotlib.backends.backend_agg")


def load() -> None:
    """Load all plotting code, by drawing the curves of an empty log."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "log.jsonl").touch()
        draw_curves(Path(folder))


def draw(folder: Path, console: Console) -> None:
    """Draw the diagnostics, if there are any, and the curves. Print a warning if that fails."""
    try:
        draw_diagnostics(folder)
        draw_curves(folder)
    except Exception as error:
        reason = (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"
        console.print(one_line(f"warning: cannot write {folder / CURVES}: {reason}"))


def picture_lines(folder: Path) -> list[str]:
    """A line for each picture of a run, with its path."""
    pictures = {"diagnostics": folder / PICTURE, "curves": folder / CURVES}
    return [f"{name + ':':<12} {place}" for name, place in pictures.items() if place.is_file()]
