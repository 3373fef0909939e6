"""The family of ViT (Dosovitskiy et al. 2021), as a classifier of images."""

from __future__ import annotations

from typing import Any

from .family import Family, Settings, id2label, num_labels, shared_keys
from .names import Table, reshaped, stacked

NAMES: Table = {
    "class_token": "vit.embeddings.cls_token",
    "positions.weight": reshaped("vit.embeddings.position_embeddings", "1", "num_positions", "hidden_size"),
    "patches.projection.weight": reshaped(
        "vit.embeddings.patch_embeddings.projection.weight",
        "hidden_size", "num_channels", "patch_size", "patch_size",
    ),
    "patches.projection.bias": "vit.embeddings.patch_embeddings.projection.bias",
    "encoder.layers.*.residual1.norm.{}": "vit.encoder.layer.*.layernorm_before.{}",
    "encoder.layers.*.self_attention.in_proj_{}": stacked(
        "vit.encoder.layer.*.attention.attention.query.{}",
        "vit.encoder.layer.*.attention.attention.key.{}",
        "vit.encoder.layer.*.attention.attention.value.{}",
    ),
    "encoder.layers.*.self_attention.out_proj.{}": "vit.encoder.layer.*.attention.output.dense.{}",
    "encoder.layers.*.residual2.norm.{}": "vit.encoder.layer.*.layernorm_after.{}",
    "encoder.layers.*.feed_forward.linear1.{}": "vit.encoder.layer.*.intermediate.dense.{}",
    "encoder.layers.*.feed_forward.linear2.{}": "vit.encoder.layer.*.output.dense.{}",
    "encoder.norm.{}": "vit.layernorm.{}",
    "head.{}": "classifier.{}",
}  # fmt: skip

_read, _write = shared_keys(
    "hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act hidden_dropout_prob "
    "attention_probs_dropout_prob initializer_range layer_norm_eps image_size patch_size num_channels "
    "qkv_bias"
)


def read_config(content: Settings) -> Settings:
    return {**_read(content), "num_labels": num_labels(content)}


def write_config(config: Any) -> Settings:
    return {
        **_write(config), **id2label(config.num_labels), "architectures": ["ViTForImageClassification"],
    }  # fmt: skip


LAYER = r"vit\.layers\.(\d+)"
FAMILY = Family(
    "vit", "vit", lambda config: NAMES, "vit.", read_config, write_config,
    renamed={  # names of transformers 5 in memory; its files have the older names
        rf"{LAYER}\.attention\.q_proj\.(\w+)": r"vit.encoder.layer.\1.attention.attention.query.\2",
        rf"{LAYER}\.attention\.k_proj\.(\w+)": r"vit.encoder.layer.\1.attention.attention.key.\2",
        rf"{LAYER}\.attention\.v_proj\.(\w+)": r"vit.encoder.layer.\1.attention.attention.value.\2",
        rf"{LAYER}\.attention\.o_proj\.(\w+)": r"vit.encoder.layer.\1.attention.output.dense.\2",
        rf"{LAYER}\.mlp\.fc1\.(\w+)": r"vit.encoder.layer.\1.intermediate.dense.\2",
        rf"{LAYER}\.mlp\.fc2\.(\w+)": r"vit.encoder.layer.\1.output.dense.\2",
        rf"{LAYER}\.(layernorm_\w+)\.(\w+)": r"vit.encoder.layer.\1.\2.\3",
    },
)  # fmt: skip
