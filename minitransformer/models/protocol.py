"""The protocols that models implement for training, generation, drawing and saving, and the registry of model
types.

A model is any `nn.Module` with these attributes; it needs no base class. Ids are integers (B, T). Masks are
boolean (B, past + T), where `past` is the number of tokens in the cache, and True for real tokens; None means
that all tokens are real. Padding must not change the results of real tokens. A source may consist of padding
only: attention to it then gives zeros.

A model that does not generate text, such as BERT and ViT, has model_type, config_class, config, and a
`forward` that its task calls. Several results of `forward` are a dataclass with a field `logits`.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from importlib import import_module
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from minigrad import Tensor

from ..errors import UserError, did_you_mean

M = TypeVar("M", bound=type)


@runtime_checkable
class DecodingCache(Protocol):
    """What a model remembers of the tokens that it has processed: keys and values, or a recurrent state."""

    @property
    def length(self) -> int:
        """The number of processed tokens."""

    def batch_select_indices(self, indices: Any) -> None:
        """Select rows of the batch, by indices or a boolean mask."""


class Language(Protocol):
    """The attributes that every model that predicts tokens has."""

    is_encoder_decoder: ClassVar[bool]
    model_type: ClassVar[str]  # the model's name in MODELS, recipes and run folders
    config_class: ClassVar[type]  # a frozen dataclass
    config: Any  # with vocab_size and, if the model has them, eos_token_id and pad_token_id

    @property
    def max_length(self) -> int | None:
        """The maximum number of positions; None: no limit."""

    def new_cache(self, max_length: int = 0) -> DecodingCache:
        """An empty cache for decoding, with a capacity of `max_length` tokens. It grows if needed."""

    def logits(self, states: Tensor) -> Tensor:
        """The logits (B, T, V) of the next token for hidden states (B, T, D)."""


@runtime_checkable
class DecoderOnly(Language, Protocol):
    """A model that continues a text, such as GPT, Llama or RecurrentLM. Padding is on the left."""

    def states(self, ids: Any, cache: Any = None, mask: Tensor | None = None) -> Tensor:
        """The hidden states (B, T, D) of ids (B, T), which follow the tokens in the cache."""

    def forward(self, ids: Any, mask: Tensor | None = None) -> Tensor:
        """logits(states(ids, None, mask)): (B, T, V)."""


@runtime_checkable
class EncoderDecoder(Language, Protocol):
    """A model that reads a source and writes a target, such as Transformer, T5, BART or Seq2Seq.

    Sources are padded on the right with `config.pad_token_id`.
    """

    @property
    def decoder_start_token_id(self) -> int:
        """The first token of every target."""

    def padding_mask(self, source: Any) -> Tensor:
        """The `source_mask` of source ids (B, S): True where they are not padding."""

    def encode(self, source: Any, source_mask: Tensor | None = None) -> Tensor:
        """The `memory` (B, M, D) of source ids (B, S), where M is S, or 1 for a single context vector."""

    def decode(
        self,
        target: Any,
        memory: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        cache: Any = None,
    ) -> Tensor:
        """The hidden states (B, T, D) of target ids (B, T), which follow the tokens in the cache."""

    def forward(
        self,
        source: Any,
        target: Any,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """logits(decode(target, encode(source))): (B, T, V)."""


MODELS: dict[str, str | type] = {  # model_type -> the class, or its import path
    "bart": "minitransformer.models.bart:BART",
    "bert": "minitransformer.models.bert:BERT",
    "gpt2": "minitransformer.models.gpt:GPT",
    "recurrent": "minitransformer.models.recurrent:RecurrentLM",
    "seq2seq": "minitransformer.models.seq2seq:Seq2Seq",
    "llama": "minitransformer.models.llama:Llama",
    "t5": "minitransformer.models.t5:T5",
    "transformer": "minitransformer.models.transformer:Transformer",
    "vit": "minitransformer.models.vit:ViT",
}


def register_model(cls: M) -> M:
    """Register a model class under its `model_type`, and return the class; also works as a decorator.

    Recipes can then set `model_type = "..."`, and runs of the model can be loaded.
    """
    if not isinstance(cls, type):
        kind = type(cls).__name__
        raise UserError(f"register_model takes a class, got an instance of {kind}.\nPass the model's class.")
    name = cls.__dict__.get("model_type")
    config = getattr(cls, "config_class", None)
    is_config = isinstance(config, type) and is_dataclass(config)
    if not isinstance(name, str) or not is_config:
        lacks = "config_class that is a dataclass" if isinstance(name, str) else "model_type of its own"
        raise UserError(
            f"{cls.__name__} has no {lacks}.\n"
            f'Give it the class attributes model_type = "..." (its name) and config_class (a dataclass).'
        )
    known = MODELS.get(name, cls)
    if _path(known) != _path(cls):
        raise UserError(f"model_type {name!r} is already used by {_path(known)}.\nChoose another name.")
    MODELS[name] = cls
    return cls


def model_class(model_type: str) -> Any:
    """Return the class of a model type. Raise a UserError if the type is not registered."""
    if model_type not in MODELS:
        raise UserError(
            f"unknown model_type {model_type!r}.{did_you_mean(str(model_type), MODELS)}\n"
            f"Choose one of {', '.join(sorted(MODELS))}, or register your own with register_model."
        )
    known = MODELS[model_type]
    if isinstance(known, str):
        module, _, name = known.partition(":")
        return getattr(import_module(module), name)
    return known


def _path(known: str | type) -> str:
    """The import path of a class. Comparing paths lets a reloaded module replace its class."""
    return known if isinstance(known, str) else f"{known.__module__}:{known.__qualname__}"
