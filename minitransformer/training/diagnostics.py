"""Diagnostics of the layers during training, for `train --diagnostics`.

A callback adds to each log entry, for each layer: the gradient norm (before clipping), the update-to-weight
ratio (about 0.001 if training goes well), the entropy of the attention weights in bits (0 if all attention is
on one token, log2 n if it is uniform over n tokens), and the fraction of dead units, which no token of the
first validation batch activates. `plots/diagnostics.py` draws them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool

from minigrad import Tensor, nn, no_grad

from ..data.batching import IGNORE, Batch
from ..inspection.recording import attention_entropy, record_attention
from ..layers.encoder_decoder import FeedForward
from .callbacks import Callback

DEAD = 1e-3  # a unit is dead if the absolute values of all its activations are below this


class Diagnostics(Callback):
    """Adds each layer's diagnostics to the log entries, under names like `grad_norm/encoder.layers.0`."""

    def __init__(self) -> None:
        self.before: dict[str, np.ndarray] = {}

    def on_train_begin(self, trainer: Any) -> None:
        self.copy_weights(trainer)

    def on_step_end(self, trainer: Any, entry: dict[str, float]) -> None:
        if trainer.due("log_every"):
            model = trainer.model
            clip = trainer.config.clip_norm
            scale = max(1.0, entry["grad_norm"] / clip) if clip else 1.0  # undoes the clipping
            entry |= add_prefix("grad_norm", {k: v * scale for k, v in gradient_norms(model).items()})
            if self.before:
                entry |= add_prefix("update_ratio", update_ratios(model, self.before))
            batch = next(iter(trainer.task.batches(trainer.task.validation)))
            entry |= activation_statistics(model, trainer.task, batch)
        self.copy_weights(trainer)

    def copy_weights(self, trainer: Any) -> None:
        """Copy the weights if the next step will be logged."""
        next_step = trainer.step + 1
        config = trainer.config
        due = next_step % config.log_every == 0 or next_step == config.steps
        weights = trainer.model.named_parameters() if due else ()
        self.before = {name: weight.numpy().copy() for name, weight in weights}


def activation_statistics(model: nn.Module, task: Any, batch: Any) -> dict[str, float]:
    """The attention entropy and the fraction of dead units of each layer on a batch."""
    dead: dict[str, float] = {}
    was_training = model.training
    handles = []
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
    return add_prefix("attention_entropy", entropies) | add_prefix("dead_units", dead)


def mean_entropy(weights: Any, real: Bool[np.ndarray, "B T"] | None = None) -> float:
    """The mean entropy of a layer's attention weights, in bits, over one call or a list of calls.

    Only the queries for which `real` is True count; None means all.
    """
    calls = weights if isinstance(weights, list) else [weights]
    masks = [real if real is not None and real.shape == each.shape[::2] else None for each in calls]
    return float(np.mean([attention_entropy(each, mask) for each, mask in zip(calls, masks, strict=True)]))


def real_queries(model: nn.Module, batch: Batch, layer: str) -> Bool[np.ndarray, "B T"] | None:
    """A mask of the tokens that are not padding in a layer's input; None if the model has no padding."""
    if "target_in" in batch and "decoder" in layer.split("."):
        return batch["target"] != IGNORE
    ids = batch.get("source", batch.get("input"))
    pad = getattr(getattr(model, "config", None), "pad_token_id", None)
    return None if ids is None or pad is None else np.asarray(ids) != pad


def dead_hook(name: str, found: dict[str, float]) -> Any:
    """A forward pre-hook that stores the fraction of units that no token activates as `found[name]`."""

    def hook(module: Any, args: tuple[Tensor, ...]) -> None:
        units = np.abs(args[0].numpy()).reshape(-1, args[0].shape[-1])  # (tokens, units)
        found[name] = float((units.max(0) < DEAD).mean())

    return hook


def add_prefix(kind: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{kind}/{name}": value for name, value in values.items()}


def layer_of(name: str) -> str:
    """The layer of a parameter, such as `encoder.layers.0`, or its top-level module outside of layers."""
    found = re.match(r"(.*?\.\d+)(\.|$)", name)
    return found[1] if found else name.partition(".")[0]


def gradient_norms(model: nn.Module) -> dict[str, float]:
    """The gradient norm of each layer."""
    sums: dict[str, float] = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            total = float((weight.grad.numpy().astype(np.float64) ** 2).sum())
            sums[layer_of(name)] = sums.get(layer_of(name), 0.0) + total
    return {name: total**0.5 for name, total in sums.items()}


def update_ratios(model: nn.Module, before: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The norm of each layer's last update, relative to the norm of its weights before. For matrices only."""
    updates: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for name, weight in model.named_parameters():
        if weight.ndim >= 2:
            layer = layer_of(name)
            old = before[name].astype(np.float64)
            updates[layer] = updates.get(layer, 0.0) + float(((weight.numpy() - old) ** 2).sum())
            sizes[layer] = sizes.get(layer, 0.0) + float((old**2).sum())
    return {layer: (updates[layer] / size) ** 0.5 for layer, size in sizes.items() if size}
