"""Configurations by name, of sizes that papers have made known: `preset = "gpt2"` in a recipe's [model]."""

from __future__ import annotations

from typing import Any

from ..errors import UserError, nearest
from .protocol import model_class

PRESETS: dict[str, tuple[str, dict[str, Any]]] = {  # the model type, and what differs from its defaults
    # "Attention Is All You Need", table 3
    "paper-base": ("transformer", {"vocab_size": 37000}),
    "paper-big": (
        "transformer",
        {"vocab_size": 37000, "d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3},
    ),
    # Radford et al. 2019, table 2
    "gpt2": ("gpt2", {}),
    "gpt2-medium": ("gpt2", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
}


def preset(name: str) -> Any:
    """The configuration of a preset, such as GPTConfig for "gpt2"."""
    if name not in PRESETS:
        raise UserError(
            f"there is no preset {name!r:.60}.{nearest(str(name), PRESETS)}\n"
            f"Choose one of {', '.join(sorted(PRESETS))}."
        )
    model_type, settings = PRESETS[name]
    return model_class(model_type).config_class(**settings)
