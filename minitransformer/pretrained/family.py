"""What a family of pretrained models is: how its config.json and its tensors' names correspond to ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ..errors import did_you_mean
from ..files import printable
from .errors import PretrainedError
from .names import Table

Settings = dict[str, Any]  # the content of config.json


@dataclass(frozen=True)
class Family:
    """A model type of Hugging Face, and the model of ours that it is."""

    model_type: str  # in config.json
    ours: str  # in MODELS
    names: Callable[[Any], Table]  # for a configuration of ours
    prefix: str  # before the names of all tensors but a head's; files of a body without a head lack it
    read_config: Callable[[Settings], Settings]  # config.json to the fields of our configuration
    write_config: Callable[[Any], Settings]  # our configuration to config.json, with "architectures"
    body: str = ""  # the class without a head, whose files lack the prefix
    fixed: Settings = field(
        default_factory=dict
    )  # settings of which only this value (the default) is supported
    renamed: Mapping[str, str] = field(
        default_factory=dict
    )  # of older versions: a pattern, and its replacement
    prepare: Callable[[Any], Any] = lambda model: model  # a model of ours to one that this family can express
    implied: Callable[[Any], Settings] = lambda config: {}  # what None stands for, in fields of ours
    copies: Mapping[str, str] = field(default_factory=dict)  # of the embedding; first the output layer
    ignored: Sequence[str] = ()  # patterns of tensors that are no weights, such as stored masks


FAMILIES: dict[str, str] = {  # model_type in config.json -> the file
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
    """The family of a config.json."""
    name = content.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        problem = "no model_type" if name is None else f"model_type {printable(repr(name)):.60}"
        raise PretrainedError(
            f"config.json has {problem}, which this version cannot read.{did_you_mean(str(name), FAMILIES)}\n"
            f"It can read {', '.join(sorted(FAMILIES))}."
        )
    return import_module(FAMILIES[name], __package__).FAMILY


def shared_keys(names: str) -> tuple[Callable[[Settings], Settings], Callable[[Any], Settings]]:
    """Functions that copy settings whose names and meanings are the same, both ways."""
    keys = names.split()

    def read(content: Settings) -> Settings:
        return {key: content[key] for key in keys if key in content}

    def write(config: Any) -> Settings:
        return {key: getattr(config, key) for key in keys}

    return read, write


def architecture_of(content: Settings) -> str:
    """The class of transformers that wrote a config.json; "" if it does not say."""
    found = content.get("architectures")
    return found[0] if isinstance(found, list) and found and isinstance(found[0], str) else ""


def num_labels(content: Settings) -> int:
    """The number of classes in a config.json; transformers' default is 2."""
    labels = content.get("id2label")
    return len(labels) if isinstance(labels, dict) else content.get("num_labels", 2)


def label_names(content: Settings) -> list[str]:
    """The names of the classes, in the order of their numbers; [] if config.json has none of its own."""
    labels = content.get("id2label")
    names = [labels.get(str(i)) for i in range(len(labels))] if isinstance(labels, dict) else []
    is_default = names == [f"LABEL_{i}" for i in range(len(names))]
    found = [name for name in names if isinstance(name, str)]
    return [] if is_default or len(found) < len(names) else found


def id2label(count: int) -> Settings:
    """The names of classes that have none, as transformers writes them."""
    return {"id2label": {str(i): f"LABEL_{i}" for i in range(count)}}


def check_fixed(content: Settings, fixed: Settings) -> None:
    """Raise a PretrainedError for a setting with a value that our models do not have."""
    for name, value in fixed.items():
        if content.get(name, value) != value:
            raise PretrainedError(
                f"config.json has {name} = {printable(repr(content[name])):.60}; "
                f"only {value!r} is supported.\n"
                f"Choose a model without this setting."
            )
