"""The family of BART (Lewis et al. 2019)."""

from __future__ import annotations

from typing import Any

from .family import Family, Settings, shared_keys
from .names import Table, reshaped, stacked, without_rows


def stack(name: str, attentions: dict[str, str]) -> Table:
    """The names of the layers of the encoder or the decoder.

    `attentions` maps our names of the attention modules to transformers'.
    """
    layer = f"model.{name}.layers.*"
    ours = f"{name}.layers.*"
    table: dict[str, Any] = {}
    for number, (our_name, theirs) in enumerate(attentions.items(), 1):
        projections = [f"{layer}.{theirs}.{letter}_proj.{{}}" for letter in "qkv"]
        table[f"{ours}.{our_name}.in_proj_{{}}"] = stacked(*projections)
        table[f"{ours}.{our_name}.out_proj.{{}}"] = f"{layer}.{theirs}.out_proj.{{}}"
        table[f"{ours}.residual{number}.norm.{{}}"] = f"{layer}.{theirs}_layer_norm.{{}}"
    return {
        **table,
        f"{ours}.feed_forward.linear1.{{}}": f"{layer}.fc1.{{}}",
        f"{ours}.feed_forward.linear2.{{}}": f"{layer}.fc2.{{}}",
        f"{ours}.residual{len(attentions) + 1}.norm.{{}}": f"{layer}.final_layer_norm.{{}}",
    }


LAYERS: Table = {
    **stack("encoder", {"self_attention": "self_attn"}),
    **stack("decoder", {"self_attention": "self_attn", "cross_attention": "encoder_attn"}),
}
NAMES: Table = {
    "embedding.weight": "model.shared.weight",
    "encoder_positions.weight": without_rows("model.encoder.embed_positions.weight", 2),
    "decoder_positions.weight": without_rows("model.decoder.embed_positions.weight", 2),
    "encoder_norm.{}": "model.encoder.layernorm_embedding.{}",
    "decoder_norm.{}": "model.decoder.layernorm_embedding.{}",
    **LAYERS,
    "final_logits_bias": reshaped("final_logits_bias", "1", "vocab_size"),
}
COPIES = {
    "lm_head.weight": "model.shared.weight",
    "model.encoder.embed_tokens.weight": "model.shared.weight",
    "model.decoder.embed_tokens.weight": "model.shared.weight",
}
ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "num_hidden_layers": "encoder_layers",
}

_read, _write = shared_keys(
    "vocab_size max_position_embeddings encoder_layers encoder_ffn_dim encoder_attention_heads "
    "decoder_layers decoder_ffn_dim decoder_attention_heads activation_function d_model dropout "
    "attention_dropout activation_dropout init_std scale_embedding pad_token_id bos_token_id eos_token_id "
    "decoder_start_token_id"
)


def read_config(content: Settings) -> Settings:
    found = _read(content)
    if found.get("decoder_start_token_id") == found.get("eos_token_id", 2):
        found["decoder_start_token_id"] = None
    return found


def write_config(config: Any) -> Settings:
    start = config.decoder_start_token_id
    return {
        **_write(config),
        "decoder_start_token_id": config.eos_token_id if start is None else start,
        "forced_eos_token_id": None,
        "is_encoder_decoder": True,
        "architectures": ["BartForConditionalGeneration"],
    }


def implied(config: Any) -> Settings:
    return {"decoder_start_token_id": config.eos_token_id}


FAMILY = Family(
    "bart", "bart", lambda config: NAMES, "model.", read_config, write_config, "BartModel",
    zeros=("final_logits_bias",), implied=implied,
    fixed={"normalize_before": False, "add_final_layer_norm": False, "tie_word_embeddings": True},
    aliases=ALIASES,
    copies=COPIES,
)  # fmt: skip
