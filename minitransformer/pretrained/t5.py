"""The family of T5 (Raffel et al. 2020), versions 1.0 and 1.1."""

from __future__ import annotations

from typing import Any

from ..models.llama import GATES
from ..models.t5 import FEED_FORWARDS
from .family import ACTIVATIONS, Family, Settings, shared_keys
from .names import Table, stacked


def stack(name: str, feed_forward: int) -> Table:
    """The names of the encoder or the decoder. `feed_forward` is the index of that sub-layer in a layer."""
    block = f"{name}.block.*.layer"
    ours = f"{name}.layers.*"
    return {
        f"{name}.positions.weight": f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        f"{ours}.self_attention.in_proj_weight": stacked(
            *(f"{block}.0.SelfAttention.{letter}.weight" for letter in "qkv")
        ),
        f"{ours}.self_attention.out_proj.weight": f"{block}.0.SelfAttention.o.weight",
        f"{ours}.residual1.norm.weight": f"{block}.0.layer_norm.weight",
        f"{ours}.feed_forward.linear2.weight": f"{block}.{feed_forward}.DenseReluDense.wo.weight",
        f"{ours}.residual{feed_forward + 1}.norm.weight": f"{block}.{feed_forward}.layer_norm.weight",
        f"{name}.norm.weight": f"{name}.final_layer_norm.weight",
    }


NAMES: Table = {
    "embedding.weight": "shared.weight",
    **stack("encoder", 1),
    **stack("decoder", 2),
    "decoder.layers.*.cross_attention.in_proj_weight": stacked(
        *(f"decoder.block.*.layer.1.EncDecAttention.{letter}.weight" for letter in "qkv")
    ),
    "decoder.layers.*.cross_attention.out_proj.weight": "decoder.block.*.layer.1.EncDecAttention.o.weight",
    "decoder.layers.*.residual2.norm.weight": "decoder.block.*.layer.1.layer_norm.weight",
    "output.weight": "lm_head.weight",
}
PLAIN: Table = {
    **NAMES,
    "encoder.layers.*.feed_forward.linear1.weight": "encoder.block.*.layer.1.DenseReluDense.wi.weight",
    "decoder.layers.*.feed_forward.linear1.weight": "decoder.block.*.layer.2.DenseReluDense.wi.weight",
}
GATED: Table = {  # version 1.1 computes activation(x wi_0) * x wi_1
    **NAMES,
    "encoder.layers.*.feed_forward.linear1.weight": "encoder.block.*.layer.1.DenseReluDense.wi_0.weight",
    "encoder.layers.*.feed_forward.linear3.weight": "encoder.block.*.layer.1.DenseReluDense.wi_1.weight",
    "decoder.layers.*.feed_forward.linear1.weight": "decoder.block.*.layer.2.DenseReluDense.wi_0.weight",
    "decoder.layers.*.feed_forward.linear3.weight": "decoder.block.*.layer.2.DenseReluDense.wi_1.weight",
}

_read, _write = shared_keys(
    "vocab_size d_model d_kv d_ff num_layers num_decoder_layers num_heads relative_attention_num_buckets "
    "relative_attention_max_distance dropout_rate layer_norm_epsilon initializer_factor feed_forward_proj "
    "pad_token_id eos_token_id decoder_start_token_id"
)


def names(config: Any) -> Table:
    return GATED if config.feed_forward_proj.startswith("gated") else PLAIN


def read_config(content: Settings) -> Settings:
    """Read the settings of T5 1.0, which scales the last states and ties the output layer, or of 1.1.

    transformers 5 has separate settings for scaling and tying; in older files, tie_word_embeddings decides
    both. feed_forward_proj describes the feed-forward networks, but dense_act_fn and is_gated_act take
    precedence.
    """
    tied = content.get("tie_word_embeddings", True)
    scaled = content.get("scale_decoder_outputs", tied)
    gate, _, name = content.get("feed_forward_proj", "relu").rpartition("-")
    usual = "gelu_new" if gate and name == "gelu" else ACTIVATIONS.get(name, name)
    act = str(content.get("dense_act_fn", usual))
    is_gated = content.get("is_gated_act", bool(gate))
    known = {activation: proj for proj, activation in FEED_FORWARDS.items()}
    proj = known.get(GATES.get(act, "") if is_gated else act, f"gated-{act}" if is_gated else act)
    found = {
        **_read(content),
        "feed_forward_proj": proj,
        "tie_word_embeddings": tied,
        "scale_decoder_outputs": None if scaled == tied else scaled,
    }
    if found.get("num_decoder_layers") == found.get("num_layers"):
        found["num_decoder_layers"] = None
    if found.get("decoder_start_token_id") == found.get("pad_token_id", 0):
        found["decoder_start_token_id"] = None
    return found


def write_config(config: Any) -> Settings:
    start = config.decoder_start_token_id
    return {
        **_write(config),
        "num_decoder_layers": config.num_decoder_layers or config.num_layers,
        "decoder_start_token_id": config.pad_token_id if start is None else start,
        "tie_word_embeddings": config.tie_word_embeddings,
        "scale_decoder_outputs": config.scales_outputs,
        "is_encoder_decoder": True,
        "architectures": ["T5ForConditionalGeneration"],
    }


def implied(config: Any) -> Settings:
    return {
        "num_decoder_layers": config.num_layers,
        "decoder_start_token_id": config.pad_token_id,
        "scale_decoder_outputs": config.tie_word_embeddings,
    }


FAMILY = Family(
    "t5", "t5", names, "", read_config, write_config, implied=implied,
    aliases={
        "head_dim": "d_kv", "hidden_size": "d_model", "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
    },
    copies={
        "lm_head.weight": "shared.weight",
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    },
    ignored=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
)  # fmt: skip
