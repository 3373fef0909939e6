"""The memory that a recipe needs at least, computed from its settings before anything large is allocated."""

from __future__ import annotations

from dataclasses import asdict, fields
from types import SimpleNamespace
from typing import Any

from minigrad.memory import available_memory, format_bytes

from ..errors import UserError
from ..recipes import Recipe
from .ranks import joined

FLOAT = 4  # bytes of a float32
PER_PARAMETER = 4 * FLOAT  # weight, gradient and the two moments of AdamW


def check_memory(recipe: Recipe, vocab_size: int, device: str = "cpu", training: bool = True) -> None:
    """Raise a UserError if the recipe's model cannot be trained, or only loaded, in the available memory.

    With a GPU only the weights are counted: the model is built on the CPU, and the GPU reports what does not
    fit.
    """
    training = training and device == "cpu"
    settings = {**asdict(recipe.data), **asdict(recipe.model), **asdict(recipe.training)}
    settings["vocab_size"] = vocab_size

    def needed(**changes: Any) -> int:
        s = SimpleNamespace(**settings | changes)
        return _training_bytes(s) if training else FLOAT * count_parameters(s)

    available = available_memory()
    if needed() <= available:
        return
    defaults = {f.name: f.default for part in (recipe.data, recipe.model) for f in fields(part)}
    defaults["vocab_size"] = 8000
    sizes = [name for name in defaults if isinstance(settings[name], int)]
    name = min(sizes, key=lambda name: needed(**{name: defaults[name]}))  # the size that costs the most
    flag = f"--{name.replace('_', '-')}"
    parts = "training (weights, gradients, moments, activations)" if training else "its weights"
    raise UserError(
        f"{flag} {settings[name]} needs at least {format_bytes(needed())} of memory for {parts}, "
        f"{format_bytes(available)} are available.\n"
        f"Lower {flag}, or use a machine with more memory."
    )


def count_parameters(s: SimpleNamespace) -> int:
    """The number of parameters of a model with these settings."""
    if hasattr(s, "n_embd"):  # a GPT
        d, inner = s.n_embd, s.n_inner or 4 * s.n_embd
        return (s.vocab_size + s.n_positions) * d + s.n_layer * _layer(d, inner, 1) + 2 * d
    d, learned = s.d_model, s.max_positions if s.positions == "learned" else 0
    layers = s.num_encoder_layers * _layer(d, s.d_ff, 1) + s.num_decoder_layers * _layer(d, s.d_ff, 2)
    return (s.vocab_size + 2 * learned) * d + layers + (4 * d if s.norm_first else 0)


def _layer(d: int, inner: int, attentions: int) -> int:
    """The parameters of a layer: attentions, feed-forward network, and a norm for each."""
    return attentions * 4 * (d * d + d) + 2 * d * inner + inner + d + (attentions + 1) * 2 * d


def _training_bytes(s: SimpleNamespace) -> int:
    """A lower bound. The batches of sentence pairs are limited by the data, and are not counted."""
    total = PER_PARAMETER * count_parameters(s)
    if not hasattr(s, "n_embd"):
        return total
    rows = -(-s.batch_size // (s.micro_batches * joined().size))  # that are computed together
    inner = s.n_inner or 4 * s.n_embd
    # kept for backward by each layer: the inputs of its linear layers, and queries, keys and values
    kept = s.n_layer * (6 * s.n_embd + inner) + s.vocab_size
    width = 2 if s.precision in ("bfloat16", "float16") else FLOAT
    ids = 2 * 8 * s.batch_size * s.block_size
    return total + ids + rows * s.block_size * kept * width
