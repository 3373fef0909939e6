"""What `train` draws: the curves of each run, and with --diagnostics what happened in its layers."""

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
    """Import what draws the curves, so that a setting that it refuses is an error before the training."""
    import_module("matplotlib.backends.backend_agg")


def load() -> None:
    """Draw the curves of an empty log, which loads all that draws."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "log.jsonl").touch()
        draw_curves(Path(folder))


def draw(folder: Path, console: Console) -> None:
    """Draw the diagnostics, if there are any, and the curves. A picture that fails costs no results."""
    try:
        draw_diagnostics(folder)
        draw_curves(folder)
    except Exception as error:
        reason = (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"
        console.print(one_line(f"warning: cannot write {folder / CURVES}: {reason}"))


def drawn(folder: Path) -> list[str]:
    """A line for each picture of a run."""
    pictures = {"diagnostics": folder / PICTURE, "curves": folder / CURVES}
    return [one_line(f"{name + ':':<12} {place}") for name, place in pictures.items() if place.is_file()]
