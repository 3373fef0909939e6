"""A lower bound of the memory that a recipe needs, computed before anything large is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from minigrad.nn.shapes import parameter_shapes
from minigrad.ops.allocation import available_memory, format_bytes

from ..errors import UserError
from ..models.protocol import model_class
from ..recipes import Recipe
from ..tasks import task_class
from ..training.config import TrainConfig
from ..training.ranks import current_ranks

FLOAT = 4  # bytes of a float32
HUGE = 2**100


def check_memory(
    recipe: Recipe, tokenizer: Any, labels: Sequence[str] = (), device: str = "cpu", training: bool = True
) -> None:
    """Raise a UserError if the recipe's model does not fit into the available memory.

    If `training` is True, gradients, moments and activations are included. For a GPU, only the weights are
    counted, since the model is built on the CPU first; the GPU reports its own errors.
    """
    training = training and device == "cpu"
    config = task_class(recipe.task).model_config(recipe.model, tokenizer, labels)
    settings = {"data": recipe.data, "model": config}

    def needed(part: str = "", **change: Any) -> int:
        try:
            changed = settings if not part else settings | {part: replace(settings[part], **change)}
            return _bytes(recipe, changed["data"], changed["model"], training)
        except UserError:
            if not part:
                raise
            return HUGE  # the change is incompatible with another setting

    available = available_memory()
    if needed() <= available:
        return
    sizes = [
        (needed(part, **{f.name: 8000 if f.name == "vocab_size" else f.default}), f.name, value)
        for part, section in settings.items()
        for f in fields(section)
        if isinstance(value := getattr(section, f.name), int) and not isinstance(value, bool)
    ]
    _, name, value = min(sizes, key=lambda size: size[0])  # the size that costs the most
    flag = f"--{name.replace('_', '-')}"
    parts = "training (weights, gradients, moments, activations)" if training else "its weights"
    raise UserError(
        f"{flag} {value} needs at least {format_bytes(needed())} of memory for {parts}, "
        f"but {format_bytes(available)} are available.\n"
        f"Lower {flag}, or use a machine with more memory."
    )


def per_parameter(settings: TrainConfig) -> int:
    """The number of floats that training stores for each parameter.

    These are the weight, the gradient, the optimizer's moments, and the moving average.
    """
    moments = {"adamw": 2, "muon": 1, "sgd": int(settings.momentum_or_default > 0)}[settings.optimizer]
    return 2 + moments + int(settings.ema_decay > 0)


def _bytes(recipe: Recipe, data: Any, config: Any, training: bool) -> int:
    """A lower bound of the memory, in bytes. It assumes that the data fills the batches."""
    shapes = parameter_shapes(lambda: model_class(recipe.model_type)(config))
    parameters = sum(map(math.prod, shapes))
    if not training:
        return FLOAT * parameters
    settings = recipe.training
    positions = task_class(recipe.task).positions(data)
    computed = -(-positions // (settings.micro_batches * current_ranks().size))  # at one time
    # numbers that are saved for the backward pass at each position: the matrices' inputs, and the logits
    kept = sum(shape[-1] for shape in shapes if len(shape) == 2) + getattr(config, "vocab_size", 0)
    width = 2 if settings.precision in ("bfloat16", "float16") else FLOAT
    return FLOAT * per_parameter(settings) * parameters + 2 * 8 * positions + computed * kept * width
