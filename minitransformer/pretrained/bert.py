"""The family of BERT (Devlin et al. 2018), and of sentence encoders (Reimers and Gurevych 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .family import Family, Settings, architecture_of, id2label, num_labels, shared_keys
from .names import Table, stacked

NAMES: Table = {
    "embedding.weight": "bert.embeddings.word_embeddings.weight",
    "positions.weight": "bert.embeddings.position_embeddings.weight",
    "token_types.weight": "bert.embeddings.token_type_embeddings.weight",
    "norm.{}": "bert.embeddings.LayerNorm.{}",
    "encoder.layers.*.self_attention.in_proj_{}": stacked(
        "bert.encoder.layer.*.attention.self.query.{}",
        "bert.encoder.layer.*.attention.self.key.{}",
        "bert.encoder.layer.*.attention.self.value.{}",
    ),
    "encoder.layers.*.self_attention.out_proj.{}": "bert.encoder.layer.*.attention.output.dense.{}",
    "encoder.layers.*.residual1.norm.{}": "bert.encoder.layer.*.attention.output.LayerNorm.{}",
    "encoder.layers.*.feed_forward.linear1.{}": "bert.encoder.layer.*.intermediate.dense.{}",
    "encoder.layers.*.feed_forward.linear2.{}": "bert.encoder.layer.*.output.dense.{}",
    "encoder.layers.*.residual2.norm.{}": "bert.encoder.layer.*.output.LayerNorm.{}",
    "head.pooler.{}": "bert.pooler.dense.{}",
    "head.words.linear.{}": "cls.predictions.transform.dense.{}",
    "head.words.norm.{}": "cls.predictions.transform.LayerNorm.{}",
    "head.words.bias": "cls.predictions.bias",
    "head.next_sentence.{}": "cls.seq_relationship.{}",
    "head.classifier.{}": "classifier.{}",
}

ARCHITECTURES = {  # the class of transformers -> our head
    "BertModel": "similarity",  # it has no head; the mean of the states stands for the text
    "BertForMaskedLM": "masked_lm",
    "BertForPreTraining": "pretraining",
    "BertForNextSentencePrediction": "next_sentence",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "token_classification",
    "BertForQuestionAnswering": "question_answering",
}
HEADS = {head: architecture for architecture, head in ARCHITECTURES.items()}

_read, _write = shared_keys(
    "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act "
    "hidden_dropout_prob attention_probs_dropout_prob classifier_dropout max_position_embeddings "
    "type_vocab_size initializer_range layer_norm_eps pad_token_id"
)


def names_by_head(table: Table) -> Callable[[Any], Table]:
    """The function `names` of a family of BERTs. For question answering, the classifier has another name."""
    answers = {**table, "head.classifier.{}": "qa_outputs.{}"}
    return lambda config: answers if config.head == "question_answering" else table


def read_config(content: Settings) -> Settings:
    head = ARCHITECTURES.get(architecture_of(content), "similarity")
    return {**_read(content), "head": head, "num_labels": num_labels(content)}


def write_config(config: Any) -> Settings:
    return {**_write(config), **id2label(config.num_labels), "architectures": [HEADS[config.head]]}


FAMILY = Family(
    "bert", "bert", names_by_head(NAMES), "bert.", read_config, write_config,
    body="BertModel",
    fixed={"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False},
    renamed={
        r"(.*\.LayerNorm)\.gamma": r"\1.weight",
        r"(.*\.LayerNorm)\.beta": r"\1.bias",
        r"cls\.predictions\.decoder\.bias": "cls.predictions.bias",
    },
    copies={"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight"},
    ignored=(r"bert\.embeddings\.position_ids",),
)  # fmt: skip
