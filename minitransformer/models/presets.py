"""Configurations by name, with sizes from papers: `preset = "gpt2"` in a recipe's [model].

They are for training from scratch. `load_pretrained` reads a pretrained model's sizes from its config.json.
"""

from __future__ import annotations

from typing import Any

from ..errors import UserError, did_you_mean
from .protocol import model_class


def _bert(layers: int, width: int) -> dict[str, int]:
    """A BERT with heads of width 64, and feed-forward networks four times as wide as the layers."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
    }


def _bart(layers: int, width: int) -> dict[str, int]:
    """A BART with `layers` layers in encoder and decoder each, whose heads and feed-forward networks have the
    sizes of BERT's."""
    size = {"layers": layers, "attention_heads": width // 64, "ffn_dim": 4 * width}
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in size.items()}
    return {"d_model": width, **sides}


PRESETS: dict[str, tuple[str, dict[str, Any]]] = {  # model type, and settings that are not defaults
    # "Attention Is All You Need", table 3
    "paper-base": ("transformer", {"vocab_size": 37000}),
    "paper-big": (
        "transformer",
        {"vocab_size": 37000, "d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3},
    ),
    # the ten words of "Transformer Network", vectors of width 4, one head: small enough to compute by hand
    "toy": (
        "transformer",
        {
            "vocab_size": 10, "d_model": 4, "num_heads": 1, "d_ff": 16, "dropout": 0.0,
            "num_encoder_layers": 1, "num_decoder_layers": 1,
            "scale_embeddings": False, "tie_embeddings": False,
            "pad_token_id": -1, "bos_token_id": 0, "eos_token_id": 9,
        },
    ),
    # a Llama of the size of nanoGPT's smallest model
    "llama-nano": (
        "llama",
        {
            "vocab_size": 65, "hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
        },
    ),
    # Radford et al. 2019, table 2
    "gpt2": ("gpt2", {}),
    "gpt2-medium": ("gpt2", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    # Devlin et al. 2018, section 3 (base), and Turc et al. 2019, table 1 (the others)
    "bert-tiny": ("bert", _bert(2, 128)),
    "bert-mini": ("bert", _bert(4, 256)),
    "bert-small": ("bert", _bert(4, 512)),
    "bert-medium": ("bert", _bert(8, 512)),
    "bert-base": ("bert", {}),
    # Raffel et al. 2020, section 3.7 (small, base). t5-tiny is ours, with the layers of version 1.1, which
    # Adam trains faster (see docs/models.md).
    "t5-small": ("t5", {}),
    "t5-base": ("t5", {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}),
    "t5-tiny": (
        "t5",
        {
            "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4,
            "relative_attention_max_distance": 64,
            "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
        },
    ),
    # Lewis et al. 2019, section 2.1 (base); bart-tiny is ours
    "bart-base": ("bart", _bart(6, 768)),
    "bart-tiny": ("bart", {**_bart(2, 128), "max_position_embeddings": 128, "init_std": 0.1}),
    # Dosovitskiy et al. 2021, table 1 (base); vit-digits is for scikit-learn's digits of 8 x 8 pixels
    "vit-base": ("vit", {}),
    "vit-digits": (
        "vit",
        {
            "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128,
            "hidden_dropout_prob": 0.1, "initializer_range": 0.1,
            "image_size": 8, "patch_size": 2, "num_channels": 1, "num_labels": 10,
        },
    ),
}  # fmt: skip


def preset(name: str) -> Any:
    """The configuration of a preset, such as GPTConfig for "gpt2"."""
    if name not in PRESETS:
        raise UserError(
            f"there is no preset {name!r:.60}.{did_you_mean(str(name), PRESETS)}\n"
            f"Choose one of {', '.join(sorted(PRESETS))}."
        )
    model_type, settings = PRESETS[name]
    return model_class(model_type).config_class(**settings)
