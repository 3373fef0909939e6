"""Plots of training curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from minigrad.io import write_atomically

from ..errors import UserError
from ..training.log import read_log, training_loss
from .style import COLOURS, GREY, MARKERS, label, new_figure, plot_style, save, to_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "curves.png"


def training_curves(*runs: str | Path, path: str | Path | None = None) -> Figure:
    """Draw the training and validation loss, and the learning rate, of runs (their folders) over steps."""
    if not runs:
        raise UserError("there is no run to draw.\nPass the folder of a run.")
    folders = [Path(run) for run in runs]
    for folder in folders:
        if not (folder / "log.jsonl").is_file():
            raise UserError(f"{folder} has no log.jsonl.\nPass the folder of a run.")
    with plot_style([*map(str, folders)]):
        whose = label(folders[0].name, 60) if len(runs) == 1 else f"{len(runs)} runs"
        title = f"Training of {whose}: loss and learning rate over steps"
        figure = new_figure(5.0, 3.5, title, layout="none")  # constrained layout would draw the curves twice
        figure.subplots_adjust(0.13, 0.11, 0.98, 0.92, hspace=0.07)
        losses, rates = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        for i, folder in enumerate(folders):
            records = read_log(folder / "log.jsonl")
            train = {r["step"]: loss for r in records if (loss := training_loss(r)) is not None}
            validation = {r["step"]: r["val_loss"] for r in records if "val_loss" in r}
            rate = {r["step"]: r["lr"] for r in records if "lr" in r}
            colour = COLOURS[i % len(COLOURS)]
            marker = MARKERS[i % len(MARKERS)]
            name = "" if len(runs) == 1 else f"{label(folder.name, 30)}: "
            losses.plot(
                [*train], [*train.values()], color=colour, linewidth=0.9, alpha=0.45,
                label=f"{name}training",
            )  # fmt: skip
            losses.plot(
                [*validation], [*validation.values()], color=colour, marker=marker, markersize=3,
                label=f"{name}validation",
            )  # fmt: skip
            rates.plot([*rate], [*rate.values()], color=GREY if len(runs) == 1 else colour)
        losses.set_ylabel("loss, nats")
        rates.set(ylabel="learning rate", xlabel="step")
        for text in losses.legend().get_texts():
            text.set_parse_math(False)
        for panel in (losses, rates):
            panel.grid()
        figure.align_ylabels()
        return save(figure, path)


def draw_curves(folder: Path) -> Path:
    """Write a run's `training_curves` to `curves.png` in its folder, and return the path."""
    with plot_style([str(folder)]):
        picture = to_bytes(training_curves(folder), "png")
    write_atomically(folder / CURVES, picture)
    return folder / CURVES
