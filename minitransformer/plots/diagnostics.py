"""What happens inside a model while it trains, for `train --diagnostics`.

A callback adds to each logged step, for each layer: the norm of its gradients (before clipping), the size of
its update relative to its weights (about 0.001 where training goes well), the entropy of its attention in
bits (0: one token; log2 n: all of n tokens alike), and the share of its hidden units that no token of the
first validation batch activates. `draw` makes a picture of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from minigrad import Tensor, nn, no_grad

from ..data.batching import IGNORE, PairBatch
from ..files import printable
from ..inspection.recording import attention_entropy, record_attention
from ..layers.encoder_decoder import FeedForward
from ..training.callbacks import Callback
from ..training.lock import opened
from ..training.log import read_log
from .style import new_figure, to_bytes

PICTURE = "diagnostics.png"
KINDS = {
    "grad_norm": "norm of the gradients, before clipping",
    "update_ratio": "size of the update relative to the weights (dotted: 0.001, a usual size)",
    "attention_entropy": "entropy of the attention, bits (0: one token; 3: as spread as over 8 tokens)",
    "dead_units": "share of hidden units that no token activates",
}
DEAD = 1e-3  # a unit whose activations are all smaller than this, in absolute value
USUAL_UPDATE = 1e-3
LEGEND = 14  # lines that are named
NUMBERED = re.compile(r"(.*?)\.?(\d+)(?:\.|$)")  # a layer of a stack
Points = list[tuple[int, float]]


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
            batch = next(iter(trainer.task.batches(trainer.task.validation)))
            record |= activations(model, trainer.task, batch)
        self.remember(trainer)

    def remember(self, trainer: Any) -> None:
        """Keep the weights before a step that will be logged."""
        next_step, config = trainer.step + 1, trainer.config
        due = next_step % config.log_every == 0 or next_step == config.steps
        weights = trainer.model.named_parameters() if due else ()
        self.before = {name: weight.numpy().copy() for name, weight in weights}


def activations(model: nn.Module, task: Any, batch: Any) -> dict[str, float]:
    """Entropy and dead units of each layer on a batch."""
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
    entropies = {
        name: mean_entropy(weights, real_queries(model, batch, name)) for name, weights in maps.items()
    }
    return named("attention_entropy", entropies) | named("dead_units", dead)


def mean_entropy(weights: Any, real: Bool[np.ndarray, "B T"] | None = None) -> float:
    """The mean entropy of a layer's attention, in bits: of its weights, or of those of several calls.

    Of the queries that are `real`, if they are known.
    """
    calls = weights if isinstance(weights, list) else [weights]
    masks = [real if real is not None and real.shape == each.shape[::2] else None for each in calls]
    return float(np.mean([attention_entropy(each, mask) for each, mask in zip(calls, masks, strict=True)]))


def real_queries(model: nn.Module, batch: Any, layer: str) -> Bool[np.ndarray, "B T"] | None:
    """Which tokens of the text that a layer reads are not padding; None if the model knows no padding."""
    if isinstance(batch, PairBatch) and "decoder" in layer.split("."):
        return batch.target != IGNORE
    ids = batch.source if isinstance(batch, PairBatch) else getattr(batch, "input", None)
    pad = getattr(getattr(model, "config", None), "pad_token_id", None)
    return None if ids is None or pad is None else np.asarray(ids) != pad


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
    records = read_log(folder / "log.jsonl", thinned=True)
    kinds = {kind: dict(_lines(records, kind)) for kind in KINDS}
    kinds = {kind: lines for kind, lines in kinds.items() if lines}
    if not kinds:
        return None
    figure = new_figure(9, 0.6 + 2.5 * len(kinds))
    figure.suptitle(f"What happens in the layers of {printable(folder.name)}", parse_math=False)
    panels = figure.subplots(len(kinds), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (kind, lines) in zip(panels, kinds.items(), strict=True):
        draw_panel(panel, kind, lines)
    panels[-1].set_xlabel("step")
    with opened(folder) as files:
        files.write(PICTURE, to_bytes(figure, "png"))
    return folder / PICTURE


def draw_panel(panel: Any, kind: str, lines: Mapping[str, Points]) -> None:
    """Draw the lines of one kind, with a legend of at most LEGEND of them."""
    from matplotlib.ticker import LogLocator, PercentFormatter

    panel.set_title(KINDS[kind], loc="left", fontsize=10)
    panel.grid(alpha=0.3)
    panel.margins(x=0.02)
    styles = styles_of(list(lines))
    shown = [round(i) for i in np.linspace(0, len(lines) - 1, min(len(lines), LEGEND))]
    for place, ((name, points), label) in enumerate(zip(lines.items(), short_names(lines), strict=True)):
        marker = "o" if len(points) < 30 else ""
        label = printable(label) if place in shown else ""
        panel.plot(*zip(*points, strict=True), marker=marker, markersize=2.5, label=label, **styles[name])
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=2.6)
    if kind in ("grad_norm", "update_ratio"):
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_locator(LogLocator(subs=(1,)))
        for axis in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
            axis(lambda value, _: f"{value:g}")
    else:
        panel.set_ylim(bottom=0)
    if kind == "update_ratio":
        panel.axhline(USUAL_UPDATE, color="black", linewidth=0.8, linestyle=":")
    if kind == "dead_units":
        panel.set_ylim(top=max(panel.get_ylim()[1], 0.01))
        panel.yaxis.set_major_formatter(PercentFormatter(1.0))


def styles_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A line style for each layer: orange for a decoder, blue for others, from the first (light) to the last
    (dark), dashed for cross-attention; grey for what is not a layer."""
    from matplotlib import colormaps

    depths: dict[str, list[int]] = {}
    for name in names:
        if numbered := NUMBERED.match(name):
            depths.setdefault(numbered[1], []).append(int(numbered[2]))
    styles: dict[str, dict[str, Any]] = {}
    others = 0
    for name in names:
        if numbered := NUMBERED.match(name):
            last = max(max(depths[numbered[1]]), 1)
            shades = colormaps["Oranges" if "decoder" in name else "Blues"]
            style = {"color": shades(0.45 + 0.55 * int(numbered[2]) / last)}
            styles[name] = style | {"linestyle": "--" if "cross" in name else "-", "linewidth": 1.3}
        else:
            styles[name] = {"color": "0.45", "linestyle": ("-.", ":", "--")[others % 3], "linewidth": 1.3}
            others += 1
    return styles


def short_names(names: Iterable[str]) -> list[str]:
    """The names without their last parts, as far as these are the same for all: `encoder.layers.0`."""
    split = [name.split(".") for name in names]
    while len({parts[-1] for parts in split}) == 1 and all(NUMBERED.match(".".join(p[:-1])) for p in split):
        split = [parts[:-1] for parts in split]
    return [".".join(parts) for parts in split]


def _lines(records: list[dict[str, Any]], kind: str) -> Iterator[tuple[str, Points]]:
    """The points (step, value) of each layer."""
    names = dict.fromkeys(key for record in records for key in record if key.startswith(f"{kind}/"))
    for key in names:
        points = [(record["step"], record[key]) for record in records if record.get(key) is not None]
        yield key.partition("/")[2], points
