"""The family of Marian's translators (Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020, "OPUS-MT").

They are the Transformer of "Attention Is All You Need", with swish instead of ReLU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from minigrad.core.devices import on_cpu

from .bart import ALIASES, COPIES, LAYERS
from .errors import PretrainedError
from .family import Family, Settings
from .names import Table, reshaped

NAMES: Table = {
    "embedding.weight": "model.shared.weight",
    "embedding.output_bias": reshaped("final_logits_bias", "1", "vocab_size"),
    **LAYERS,
}
TWO_VOCABULARIES: Table = {
    "embedding.weight": "model.encoder.embed_tokens.weight",
    "target_embedding.weight": "model.decoder.embed_tokens.weight",
    "target_embedding.output_bias": reshaped("final_logits_bias", "1", "target_vocab_size"),
    **LAYERS,
}
SETTINGS = {  # the Transformer's name -> Marian's, or the encoder's if Marian has two
    "vocab_size": "vocab_size",
    "d_model": "d_model",
    "num_heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
    "num_encoder_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "activation": "activation_function",
    "max_positions": "max_position_embeddings",
    "scale_embeddings": "scale_embedding",
    "pad_token_id": "pad_token_id",
    "bos_token_id": "decoder_start_token_id",
    "eos_token_id": "eos_token_id",
}
DEFAULTS = {"activation_function": "gelu", "scale_embedding": False}  # that differ from the Transformer's
SAME = {"decoder_attention_heads": "encoder_attention_heads", "decoder_ffn_dim": "encoder_ffn_dim"}


def names(config: Any) -> Table:
    return NAMES if config.target_vocab_size is None else TWO_VOCABULARIES


def read_config(content: Settings) -> Settings:
    for decoder, encoder in SAME.items():
        if content.get(decoder) != content.get(encoder):
            raise ValueError(f"{decoder} = {content.get(decoder)} differs from {encoder}, expected the same")
    content = DEFAULTS | content
    found = {ours: content[theirs] for ours, theirs in SETTINGS.items() if theirs in content}
    if not content.get("share_encoder_decoder_embeddings", True):
        found["target_vocab_size"] = content.get("decoder_vocab_size") or content.get("vocab_size")
    return {**found, "positions": "sinusoidal_halves", "output_bias": True}


def write_config(config: Any) -> Settings:
    found = {theirs: getattr(config, ours) for ours, theirs in SETTINGS.items()}
    found |= {decoder: found[encoder] for decoder, encoder in SAME.items()}
    return {
        **found,
        "share_encoder_decoder_embeddings": config.target_vocab_size is None,
        "decoder_vocab_size": config.target_vocab_size or config.vocab_size,
        "forced_eos_token_id": None,
        "is_encoder_decoder": True,
        "architectures": ["MarianMTModel"],
    }


# weights whose columns, or whose rows, are the d_model dimensions
COLUMNS = ("embedding.weight", "in_proj_weight", "linear1.weight", "linear3.weight")
ROWS = tuple(f"{name}.{kind}" for name in ("out_proj", "linear2", "norm") for kind in ("weight", "bias"))


def with_halves(model: Any) -> Any:
    """A Transformer that computes the same, but whose positions have all sines before all cosines.

    The dimensions are permuted in all weights, with the even ones first.
    """
    config = model.config
    if config.positions != "sinusoidal" or config.concatenate_positions:
        return model
    if any(".lora_" in name for name, _ in model.named_parameters()):
        raise PretrainedError(
            "adapters of a model whose positions alternate sines and cosines cannot be written apart.\n"
            "Write the whole model: export without --adapter, or merge_lora first."
        )
    order = np.r_[0 : config.d_model : 2, 1 : config.d_model : 2]
    state = {}
    for name, tensor in model.state_dict().items():
        array = np.asarray(on_cpu(tensor.array))
        if name.endswith(COLUMNS):
            array = array[:, order]
        elif name.endswith(ROWS):
            array = array[order]
        state[name] = array
    same = type(model)(replace(config, positions="sinusoidal_halves", output_bias=config.tie_embeddings))
    for name, tensor in same.state_dict().items():
        state.setdefault(name, np.zeros_like(tensor.array))  # the bias of the output
    same.load_state_dict(state)
    return same.eval()


FAMILY = Family(
    "marian", "transformer", names, "model.", read_config, write_config, "MarianModel",
    zeros=("final_logits_bias",),
    fixed={
        "normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False,
        "static_position_embeddings": True, "tie_word_embeddings": True,
    },
    aliases=ALIASES,
    copies=COPIES,
    prepare=with_halves,
    ignored=(r"model\.(encoder|decoder)\.embed_positions\.weight",),  # sines and cosines
)  # fmt: skip
