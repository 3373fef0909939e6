"""What happens inside a model while it trains, for `train --diagnostics`.

A callback adds to each logged step, for each layer: the norm of its gradients (before clipping), the size of
its update relative to its weights (about 0.001 where training goes well), the entropy of its attention in
bits (0: one token; log2 n: all of n tokens alike), and the share of its hidden units that no token of the
first validation batch activates. `draw` makes a picture of them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import Tensor, nn, no_grad
from minigrad.io import write_atomically

from ..files import printable
from ..layers import FeedForward
from ..recording import attention_entropy, record_attention
from ..training.callbacks import Callback
from ..training.log import read_log

PICTURE = "diagnostics.png"
KINDS = {
    "grad_norm": "gradient norm",
    "update_ratio": "update / weights",
    "attention_entropy": "attention entropy, bits",
    "dead_units": "share of dead units",
}
DEAD = 1e-3  # a unit whose activations are all smaller than this, in absolute value


class Diagnostics(Callback):
    """Adds the diagnostics of each layer to the records that are logged, as `grad_norm/encoder.layers.0`."""

    def __init__(self) -> None:
        self.before: dict[str, np.ndarray] = {}

    def on_train_begin(self, trainer: Any) -> None:
        self.remember(trainer)

    def on_step_end(self, trainer: Any, record: dict[str, float]) -> None:
        if trainer.due("log_every"):
            model, clip = trainer.model, trainer.config.clip_norm
            scale = max(1.0, record["grad_norm"] / clip) if clip else 1.0  # of the clipping
            record |= named("grad_norm", {k: v * scale for k, v in gradient_norms(model).items()})
            if self.before:
                record |= named("update_ratio", update_ratios(model, self.before))
            record |= self.activations(trainer)
        self.remember(trainer)

    def remember(self, trainer: Any) -> None:
        """Keep the weights before a step that will be logged."""
        next_step, config = trainer.step + 1, trainer.config
        due = next_step % config.log_every == 0 or next_step == config.steps
        weights = trainer.model.named_parameters() if due else ()
        self.before = {name: weight.numpy().copy() for name, weight in weights}

    def activations(self, trainer: Any) -> dict[str, float]:
        """Entropy and dead units on the first batch of the validation split."""
        model, task = trainer.model, trainer.task
        batch = next(iter(task.batches(task.validation)))
        dead: dict[str, float] = {}
        was_training, handles = model.training, []
        for name, module in model.named_modules():
            if isinstance(module, FeedForward):
                handles.append(module.linear2.register_forward_pre_hook(dead_hook(name, dead)))
        model.eval()
        try:
            with no_grad(), record_attention(model) as maps:
                task.logits(model, batch)
        finally:
            for handle in handles:
                handle.remove()
            model.train(was_training)
        entropies = {name: mean_entropy(weights) for name, weights in maps.items()}
        return named("attention_entropy", entropies) | named("dead_units", dead)


def mean_entropy(weights: Any) -> float:
    """The mean entropy of a layer's attention, in bits: of its weights, or of those of several calls."""
    calls = weights if isinstance(weights, list) else [weights]
    return float(np.mean([attention_entropy(each) for each in calls]))


def dead_hook(name: str, found: dict[str, float]) -> Any:
    """A hook that stores the share of units that no token activates."""

    def hook(module: Any, args: tuple[Tensor, ...]) -> None:
        units = np.abs(args[0].numpy()).reshape(-1, args[0].shape[-1])  # (tokens, units)
        found[name] = float((units.max(0) < DEAD).mean())

    return hook


def named(kind: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{kind}/{name}": value for name, value in values.items()}


def layer_of(name: str) -> str:
    """The layer that a parameter belongs to: `encoder.layers.0`, or the part of the model."""
    found = re.match(r"(.*?\.\d+)(\.|$)", name)
    return found[1] if found else name.partition(".")[0]


def gradient_norms(model: nn.Module) -> dict[str, float]:
    """The norm of the gradients of each layer."""
    sums: dict[str, float] = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            total = float((weight.grad.numpy().astype(np.float64) ** 2).sum())
            sums[layer_of(name)] = sums.get(layer_of(name), 0.0) + total
    return {name: total**0.5 for name, total in sums.items()}


def update_ratios(model: nn.Module, before: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The norm of the last update of each layer's matrices, relative to the norm of the matrices."""
    updates: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for name, weight in model.named_parameters():
        if weight.ndim >= 2:
            layer, old = layer_of(name), before[name].astype(np.float64)
            updates[layer] = updates.get(layer, 0.0) + float(((weight.numpy() - old) ** 2).sum())
            sizes[layer] = sizes.get(layer, 0.0) + float((old**2).sum())
    return {layer: (updates[layer] / size) ** 0.5 for layer, size in sizes.items() if size}


# ---------------------------------------------------------------- the picture


def draw(folder: Path) -> Path | None:
    """Write `diagnostics.png`: a panel for each kind, a line for each layer. None if the log has none."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    records = read_log(folder / "log.jsonl")
    kinds = {kind: dict(_lines(records, kind)) for kind in KINDS}
    kinds = {kind: lines for kind, lines in kinds.items() if lines}
    if not kinds:
        return None
    figure = Figure(figsize=(9, 2.6 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (kind, lines) in zip(panels, kinds.items(), strict=True):
        for place, (name, points) in enumerate(lines.items()):
            color = colormaps["viridis"](0.9 * place / max(len(lines) - 1, 1))
            panel.plot(*zip(*points, strict=True), label=printable(name), color=color, linewidth=1.2)
        panel.set_ylabel(KINDS[kind])
        panel.grid(alpha=0.3)
        panel.legend(frameon=False, fontsize=6.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
        if kind in ("grad_norm", "update_ratio"):
            panel.set_yscale("log")
            for axis in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
                axis(lambda value, _: f"{value:g}")
    panels[0].set_title(printable(folder.name), parse_math=False)
    panels[-1].set_xlabel("step")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    write_atomically(folder / PICTURE, picture.getvalue())
    return folder / PICTURE


def _lines(records: list[dict[str, Any]], kind: str) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """The points (step, value) of each layer."""
    names = dict.fromkeys(key for record in records for key in record if key.startswith(f"{kind}/"))
    for key in names:
        points = [(record["step"], record[key]) for record in records if record.get(key) is not None]
        yield key.partition("/")[2], points
