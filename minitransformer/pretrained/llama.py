"""The family of Llama (Touvron et al. 2023), which has grouped-query attention since Llama 2."""

from __future__ import annotations

from typing import Any

from .errors import PretrainedError
from .family import Family, Settings, shared_keys
from .names import Table, stacked

NAMES: Table = {
    "embedding.weight": "model.embed_tokens.weight",
    "layers.layers.*.residual1.norm.weight": "model.layers.*.input_layernorm.weight",
    "layers.layers.*.self_attention.in_proj_weight": stacked(
        "model.layers.*.self_attn.q_proj.weight",
        "model.layers.*.self_attn.k_proj.weight",
        "model.layers.*.self_attn.v_proj.weight",
    ),
    "layers.layers.*.self_attention.out_proj.weight": "model.layers.*.self_attn.o_proj.weight",
    "layers.layers.*.residual2.norm.weight": "model.layers.*.post_attention_layernorm.weight",
    "layers.layers.*.feed_forward.linear1.weight": "model.layers.*.mlp.gate_proj.weight",
    "layers.layers.*.feed_forward.linear3.weight": "model.layers.*.mlp.up_proj.weight",
    "layers.layers.*.feed_forward.linear2.weight": "model.layers.*.mlp.down_proj.weight",
    "layers.norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}

SCALING = {  # rope_type -> the other keys of rope_parameters
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
OURS = {"factor": "rope_factor"}

_read, _write = shared_keys(
    "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "head_dim hidden_act max_position_embeddings rope_theta rms_norm_eps attention_dropout "
    "tie_word_embeddings initializer_range pad_token_id bos_token_id eos_token_id"
)


def read_config(content: Settings) -> Settings:
    """Read the settings, with those of rotary positions from the object rope_parameters of transformers 5.

    Older files call the object rope_scaling, which takes precedence if a file has both.
    """
    found = _read(content)
    rotary = content.get("rope_scaling") or content.get("rope_parameters") or {}
    if not isinstance(rotary, dict):
        raise PretrainedError(
            f"config.json has {rotary!r:.60} as the settings of rotary positions; they are an "
            f"object such as {{'rope_type': 'default'}}.\nDownload it again."
        )
    kind = rotary.get("rope_type", rotary.get("type", "default"))
    if kind not in SCALING:
        raise PretrainedError(
            f"config.json scales rotary positions by {kind!r:.60}, which is not supported.\n"
            f"Choose a model with one of the rope_types {', '.join(SCALING)}."
        )
    if rotary.get("partial_rotary_factor", 1.0) != 1.0:
        raise PretrainedError(
            "config.json rotates a part of each head (partial_rotary_factor), which is not supported.\n"
            "Choose a model that rotates all of it, as Llama does."
        )
    if "rope_theta" in rotary:
        found["rope_theta"] = rotary["rope_theta"]
    found["rope_type"] = kind
    for name in SCALING[kind]:
        if name in rotary:
            found[OURS.get(name, name)] = rotary[name]
    if kind == "llama3":
        length = rotary.get("original_max_position_embeddings")
        found["original_max_position_embeddings"] = length or content.get("max_position_embeddings", 2048)
    return found


def write_config(config: Any) -> Settings:
    scaling = {name: getattr(config, OURS.get(name, name)) for name in SCALING[config.rope_type]}
    return {
        **_write(config),
        "rope_parameters": {"rope_type": config.rope_type, "rope_theta": config.rope_theta, **scaling},
        "architectures": ["LlamaForCausalLM"],
    }


FAMILY = Family(
    "llama", "llama", lambda config: NAMES, "model.", read_config, write_config,
    fixed={"attention_bias": False, "mlp_bias": False, "partial_rotary_factor": 1.0},
    copies={"lm_head.weight": "model.embed_tokens.weight"},
    ignored=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),
)  # fmt: skip
