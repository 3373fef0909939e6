"""Plots the loss curves of a run."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

from minigrad.io import write_atomically

from ..files import printable
from .log import read_log

__all__ = ["draw_curves", "read_log"]


def _training_label(folder: Path) -> str:
    """The label of the training loss, which label smoothing lifts well above the validation loss."""
    config = folder / "config.toml"
    settings = (
        tomllib.loads(config.read_text(encoding="utf-8")).get("training", {}) if config.is_file() else {}
    )
    smoothing = settings.get("label_smoothing")
    return f"training, label smoothing {smoothing:g}" if smoothing else "training"


def draw_curves(folder: Path) -> Path:
    """Write `curves.png`: training and validation loss, and below them the learning rate, over steps."""
    from matplotlib.figure import Figure

    records = read_log(folder / "log.jsonl")
    train = {r["step"]: r for r in records if "loss" in r}
    validation = {r["step"]: r for r in records if "val_loss" in r}
    figure = Figure(figsize=(7, 5), layout="constrained")
    losses, rates = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    losses.plot(
        list(train),
        [r["loss"] for r in train.values()],
        color="#9ecae1",
        linewidth=1,
        label=_training_label(folder),
    )
    losses.plot(
        list(validation),
        [r["val_loss"] for r in validation.values()],
        color="#08519c",
        marker="o",
        markersize=4,
        label="validation",
    )
    losses.set_ylabel("loss, nats")
    losses.grid(alpha=0.3)
    losses.legend(frameon=False)
    losses.set_title(printable(folder.name), parse_math=False)
    rates.plot(list(train), [r["lr"] for r in train.values()], color="#636363", linewidth=1)
    rates.set_ylabel("learning rate")
    rates.set_xlabel("step")
    rates.grid(alpha=0.3)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_atomically(folder / "curves.png", picture.getvalue())
    return folder / "curves.png"
