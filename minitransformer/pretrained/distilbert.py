"""The family of DistilBERT (Sanh et al. 2019): a BERT without segments, and with half as many layers."""

from __future__ import annotations

from typing import Any

from .bert import names_by_head
from .family import Family, Settings, architecture_of, id2label, num_labels
from .names import Table, stacked

NAMES: Table = {
    "embedding.weight": "distilbert.embeddings.word_embeddings.weight",
    "positions.weight": "distilbert.embeddings.position_embeddings.weight",
    "norm.{}": "distilbert.embeddings.LayerNorm.{}",
    "encoder.layers.*.self_attention.in_proj_{}": stacked(
        "distilbert.transformer.layer.*.attention.q_lin.{}",
        "distilbert.transformer.layer.*.attention.k_lin.{}",
        "distilbert.transformer.layer.*.attention.v_lin.{}",
    ),
    "encoder.layers.*.self_attention.out_proj.{}": "distilbert.transformer.layer.*.attention.out_lin.{}",
    "encoder.layers.*.residual1.norm.{}": "distilbert.transformer.layer.*.sa_layer_norm.{}",
    "encoder.layers.*.feed_forward.linear1.{}": "distilbert.transformer.layer.*.ffn.lin1.{}",
    "encoder.layers.*.feed_forward.linear2.{}": "distilbert.transformer.layer.*.ffn.lin2.{}",
    "encoder.layers.*.residual2.norm.{}": "distilbert.transformer.layer.*.output_layer_norm.{}",
    "head.pooler.{}": "pre_classifier.{}",
    "head.words.linear.{}": "vocab_transform.{}",
    "head.words.norm.{}": "vocab_layer_norm.{}",
    "head.words.bias": "vocab_projector.bias",
    "head.classifier.{}": "classifier.{}",
}

ARCHITECTURES = {  # the class of transformers -> our head
    "DistilBertModel": "similarity",
    "DistilBertForMaskedLM": "masked_lm",
    "DistilBertForSequenceClassification": "classification",
    "DistilBertForTokenClassification": "token_classification",
    "DistilBertForQuestionAnswering": "question_answering",
}
HEADS = {head: architecture for architecture, head in ARCHITECTURES.items()}

SETTINGS = {  # BERT's name -> DistilBERT's
    "vocab_size": "vocab_size",
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "max_position_embeddings": "max_position_embeddings",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_token_id",
}


def read_config(content: Settings) -> Settings:
    found = {ours: content[theirs] for ours, theirs in SETTINGS.items() if theirs in content}
    head = ARCHITECTURES.get(architecture_of(content), "similarity")
    dropout = content.get("seq_classif_dropout", 0.2)
    has_own = head == "classification" and dropout != found.get("hidden_dropout_prob", 0.1)
    return {
        "num_hidden_layers": 6,
        **found,
        "type_vocab_size": 0,
        "pooler_hidden_act": "relu",
        "classifier_dropout": dropout if has_own else None,
        "head": head,
        "num_labels": num_labels(content),
    }


def write_config(config: Any) -> Settings:
    own = config.classifier_dropout
    return {
        **{theirs: getattr(config, ours) for ours, theirs in SETTINGS.items()},
        "seq_classif_dropout": config.hidden_dropout_prob if own is None else own,
        **id2label(config.num_labels),
        "architectures": [HEADS.get(config.head, f"no DistilBERT for {config.head}")],
    }


FAMILY = Family(
    "distilbert", "bert", names_by_head(NAMES), "distilbert.", read_config, write_config,
    body="DistilBertModel",
    aliases={"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    ignored=(r"distilbert\.embeddings\.position_ids",),
)  # fmt: skip
