"""The family of GPT-2 (Radford et al. 2019), whose linear layers are stored as (in, out)."""

from __future__ import annotations

from typing import Any

from .family import Family, Settings, shared_keys
from .names import Table, transposed

NAMES: Table = {
    "embedding.weight": "transformer.wte.weight",
    "positions.weight": "transformer.wpe.weight",
    "layers.layers.*.residual1.norm.{}": "transformer.h.*.ln_1.{}",
    "layers.layers.*.self_attention.in_proj_{}": transposed("transformer.h.*.attn.c_attn.{}"),
    "layers.layers.*.self_attention.out_proj.{}": transposed("transformer.h.*.attn.c_proj.{}"),
    "layers.layers.*.residual2.norm.{}": "transformer.h.*.ln_2.{}",
    "layers.layers.*.feed_forward.linear1.{}": transposed("transformer.h.*.mlp.c_fc.{}"),
    "layers.layers.*.feed_forward.linear2.{}": transposed("transformer.h.*.mlp.c_proj.{}"),
    "layers.norm.{}": "transformer.ln_f.{}",
    "output.weight": "lm_head.weight",
}

_read, _write = shared_keys(
    "vocab_size n_positions n_embd n_layer n_head n_inner embd_pdrop resid_pdrop attn_pdrop "
    "activation_function layer_norm_epsilon initializer_range pad_token_id eos_token_id tie_word_embeddings"
)


def write_config(config: Any) -> Settings:
    return {**_write(config), "bos_token_id": config.eos_token_id, "architectures": ["GPT2LMHeadModel"]}


FAMILY = Family(
    "gpt2", "gpt2", lambda config: NAMES, "transformer.", _read, write_config,
    fixed={
        "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False,
    },
    aliases={
        "hidden_size": "n_embd", "max_position_embeddings": "n_positions", "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
    copies={"lm_head.weight": "transformer.wte.weight"},
    ignored=(r"transformer\.h\.\d+\.attn\.(masked_)?bias",),
)  # fmt: skip
