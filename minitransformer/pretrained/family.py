"""Families of pretrained models: how config.json and the names of tensors correspond to our models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ..errors import did_you_mean
from .errors import PretrainedError
from .generation import HARMLESS, NEUTRAL
from .names import Table

Settings = dict[str, Any]  # the content of config.json

ACTIVATION_KEYS = ("activation", "activation_function", "dense_act_fn", "hidden_act")
ACTIVATIONS = {  # other names of activations in transformers -> ours
    "swish": "silu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_new",
    "gelu_python_tanh": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_accurate": "gelu_new",
}

# Settings that do not change what is computed here, or are read elsewhere. Each paragraph has a subject: the
# file itself; heads and their training; other classes and older versions; how a program runs; generation,
# which generation.py reads.
UNUSED = """
architectures author dtype finetuning_task language model_type name_or_path task_specific_params
tokenizer_class torch_dtype transformers_version

classif_dropout classifier_dropout decoder_layerdrop encoder_layerdrop encoder_stride id2label
initializer_factor initializer_range init_std label2id num_labels problem_type qa_dropout
seq_classif_dropout sinusoidal_pos_embds summary_activation summary_first_dropout summary_proj_to_labels
summary_type summary_use_proj tie_weights_

add_bias_logits add_cross_attention directionality do_blenderbot_90_layernorm embedding_size
extra_pos_embeddings is_decoder is_encoder_decoder is_gated_act max_sequence_length n_ctx n_positions
normalize_embedding pooler_act pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
pooler_output_size pooler_size_per_head pooler_type rope_scaling save_step static_position_embeddings
tie_encoder_decoder tie_word_embeddings

attn_implementation chunk_size_feed_forward gradient_checkpointing output_attentions output_hidden_states
output_past output_scores predict_special_tokens pretraining_tp reorder_and_upcast_attn return_dict
return_dict_in_generate tf_legacy_loss torchscript use_bfloat16 use_cache

force_bos_token_to_be_generated prefix sep_token_id
"""


@dataclass(frozen=True)
class Family:
    """A model type of Hugging Face, and how it corresponds to one of our models."""

    model_type: str  # the name in config.json
    ours: str  # the name of our model in MODELS
    names: Callable[[Any], Table]  # returns the table of names for our configuration
    prefix: str  # precedes the names of all tensors, except a head's; files of `body` lack it
    read_config: Callable[[Settings], Settings]  # converts config.json to the fields of our configuration
    write_config: Callable[[Any], Settings]  # converts our configuration to config.json
    body: str = ""  # the class without a head, whose files lack the prefix
    zeros: Sequence[str] = ()  # tensors of a head that are zero in a model loaded from a file of `body`
    # settings of which only this value, the default, is supported
    fixed: Settings = field(default_factory=dict)
    # patterns of names in older versions -> the current names
    renamed: Mapping[str, str] = field(default_factory=dict)
    # converts our model to an equal one that the family can express
    prepare: Callable[[Any], Any] = lambda model: model
    implied: Callable[[Any], Settings] = lambda config: {}  # the values that None stands for in our fields
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of settings -> the usual names
    copies: Mapping[str, str] = field(default_factory=dict)  # copies -> the embedding; the output layer first
    ignored: Sequence[str] = ()  # patterns of tensors that are not weights, such as stored masks

    def with_usual_names(self, content: Settings) -> Settings:
        """Replace aliases of settings and activations in a config.json by the usual names."""
        found = content | {name: content[alias] for alias, name in self.aliases.items() if alias in content}
        named = {key: ACTIVATIONS.get(str(found[key]), found[key]) for key in ACTIVATION_KEYS if key in found}
        return found | named

    def unread(self, content: Settings, config: Any) -> list[str]:
        """The settings of a config.json that are not read, but may change what the model computes."""
        read = {*self.write_config(config), *self.fixed, *self.aliases, *ACTIVATION_KEYS, *UNUSED.split()}
        read |= NEUTRAL.keys() | HARMLESS  # settings of text generation
        keys = [key for key in content if key not in read and not key.startswith("_")]
        return [key for key in keys if content[key] not in (None, {}, [])]


FAMILIES: dict[str, str] = {  # model_type in config.json -> the module of the family
    "bart": ".bart",
    "bert": ".bert",
    "distilbert": ".distilbert",
    "gpt2": ".gpt2",
    "llama": ".llama",
    "marian": ".marian",
    "t5": ".t5",
    "vit": ".vit",
}


def family(content: Settings) -> Family:
    """Return the family of a config.json. Raise a PretrainedError if its model_type is not supported."""
    name = content.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        problem = "no model_type" if name is None else f"model_type {name!r:.60}"
        raise PretrainedError(
            f"config.json has {problem}, which this version cannot read.{did_you_mean(str(name), FAMILIES)}\n"
            f"It can read {', '.join(sorted(FAMILIES))}."
        )
    return import_module(FAMILIES[name], __package__).FAMILY


def shared_keys(names: str) -> tuple[Callable[[Settings], Settings], Callable[[Any], Settings]]:
    """The functions `read_config` and `write_config` for settings whose names and meanings are the same.

    `names` are the settings, separated by spaces.
    """
    keys = names.split()

    def read(content: Settings) -> Settings:
        return {key: content[key] for key in keys if key in content}

    def write(config: Any) -> Settings:
        return {key: getattr(config, key) for key in keys}

    return read, write


def architecture_of(content: Settings) -> str:
    """The class of transformers that config.json names, or "" if it names none."""
    found = content.get("architectures")
    return found[0] if isinstance(found, list) and found and isinstance(found[0], str) else ""


def num_labels(content: Settings) -> int:
    """The number of classes in a config.json, which by default is 2, as in transformers."""
    labels = content.get("id2label")
    return len(labels) if isinstance(labels, dict) else content.get("num_labels", 2)


def label_names(content: Settings) -> list[str]:
    """The names of the classes, in the order of their indices; [] if config.json has none, or LABEL_0, ..."""
    labels = content.get("id2label")
    names = [labels.get(str(i)) for i in range(len(labels))] if isinstance(labels, dict) else []
    is_default = names == [f"LABEL_{i}" for i in range(len(names))]
    found = [name for name in names if isinstance(name, str)]
    return [] if is_default or len(found) < len(names) else found


def id2label(count: int) -> Settings:
    """The setting id2label with transformers' default names: LABEL_0, LABEL_1, ..."""
    return {"id2label": {str(i): f"LABEL_{i}" for i in range(count)}}


def check_fixed(content: Settings, fixed: Settings) -> None:
    """Raise a PretrainedError if a setting of config.json differs from its value in `fixed`."""
    for name, value in fixed.items():
        if content.get(name, value) != value:
            raise PretrainedError(
                f"config.json has {name} = {content[name]!r:.60}; "
                f"only {value!r} is supported.\n"
                f"Choose a model without this setting."
            )
