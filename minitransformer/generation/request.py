"""The options of `generate`, and checks of options and ids before the model runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Int

from ..base_config import Config
from ..errors import (
    UserError,
    check_choice,
    check_integer,
    check_range,
    counted,
    counted_units,
    did_you_mean,
    truncated_repr,
)

# the most beams and texts for each input: each takes memory for keys, values and probabilities
MAX_BEAMS = 1_000
MAX_TEXTS = 100_000
EXAMPLE = "Pass a list of ids for each text, such as [[5, 8, 3]]"
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")  # options of sampling only
BEAMS = ("length_penalty", "length_penalty_form", "early_stopping", "output_beams")  # of beam search only
OUTPUTS = ("output_probabilities", "output_beams")  # fields of a GenerationResult that are requested


@dataclass(frozen=True)
class GenerationConfig(Config):
    """The options of `generate`, with Hugging Face's names and defaults. docs/generation.md has formulas."""

    max_new_tokens: int = 64  # maximum number of tokens of a text, including its end token
    eos_token_id: int | Sequence[int] | None = None  # the tokens that end a text; None: the model's
    do_sample: bool = False  # draw tokens instead of taking the most likely
    temperature: float = 1.0  # divisor of the logits in sampling
    top_k: int | None = None  # sample only from the k most likely tokens
    top_p: float = 1.0  # sample only from the most likely tokens with this total probability
    min_p: float = 0.0  # sample only from tokens at least this times as likely as the most likely
    repetition_penalty: float = 1.0  # more than 1: tokens of the text so far become less likely
    no_repeat_ngram_size: int = 0  # n-grams of this size occur only once in a text; 0: they may repeat
    suppress_tokens: Sequence[int] | None = None  # tokens that are never generated
    min_new_tokens: int = 0  # the text cannot end before it has this many tokens
    forced_bos_token_id: int | None = None  # the first new token, such as the target language's
    forced_eos_token_id: int | None = None  # the last token of a text that reaches its maximum length
    renormalize_logits: bool = False  # normalize log-probabilities again after tokens are excluded
    num_beams: int = 1  # more than 1: beam search
    num_return_sequences: int = 1  # texts for each input: samples, or the best of the beams
    length_penalty: float = 1.0  # alpha, the exponent of the length penalty in beam search
    length_penalty_form: str = "huggingface"  # length**alpha, or "gnmt": ((5 + length) / 6)**alpha
    early_stopping: bool | str = False  # when a beam search ends: True, False or "never"
    # ids that targets of an encoder-decoder begin with: one list for all, or one for each input
    prefix: Sequence[int] | Sequence[Sequence[int]] | None = None
    # a function that takes a text's new ids, and returns whether the text ends there
    stopping_criteria: Callable[[list[int]], bool] | None = None
    seed: int | None = None  # seed of sampling; None: the streams of minigrad.random
    use_cache: bool = True  # cache keys and values, so that a step processes only the newest token
    output_probabilities: bool = False  # return the probabilities of all tokens at each step
    output_beams: bool = False  # return the tree of the beam search

    def __post_init__(self) -> None:
        check_range(self, "max_new_tokens no_repeat_ngram_size min_new_tokens", 0)
        check_range(self, "num_beams", 1, MAX_BEAMS + 1)
        check_range(self, "num_return_sequences", 1, MAX_TEXTS + 1)
        check_range(self, "top_k", 1)
        if self.seed is not None:
            check_integer("seed", self.seed, 0, 2**64)
        if not 0 < self.temperature < math.inf:
            raise UserError(
                f"temperature must be a finite number above 0, got {self.temperature!r}.\n"
                f"Choose a value above 0; greedy decoding needs no temperature."
            )
        for name, is_valid, expected in (
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 to 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < math.inf, "above 0, such as 1.2"),
            ("length_penalty", math.isfinite(self.length_penalty), "such as 1"),
        ):
            if not is_valid:
                raise UserError(
                    f"{name} = {getattr(self, name)!r} is out of range.\nChoose a number {expected}."
                )
        check_choice("length_penalty_form", self.length_penalty_form, ("huggingface", "gnmt"))
        check_choice("early_stopping", self.early_stopping, (True, False, "never"))
        if self.stopping_criteria is not None and not callable(self.stopping_criteria):
            raise UserError(
                f"stopping_criteria must be a function, got {truncated_repr(self.stopping_criteria)}.\n"
                f"Pass a function of the new ids, such as lambda ids: ids[-1] == 5."
            )
        self._check_together()

    def _check_together(self) -> None:
        """Raise a UserError for options that cannot be combined."""
        changed = {field.name for field in fields(self) if getattr(self, field.name) != field.default}
        if self.do_sample and self.num_beams > 1:
            raise UserError(
                f"num_beams = {self.num_beams} cannot be combined with do_sample.\nLeave one of them out."
            )
        for name in SAMPLING:
            if name in changed and not self.do_sample:
                raise UserError(
                    f"{name} = {getattr(self, name)!r} has no effect without sampling.\n"
                    f"Sample (do_sample=True), or leave {name} out."
                )
        for name in BEAMS:
            if name in changed and self.num_beams == 1:
                raise UserError(
                    f"{name} = {getattr(self, name)!r} has no effect without beam search.\n"
                    f"Search with several beams (num_beams=4), or leave {name} out."
                )
        if self.num_return_sequences > self.num_beams and not self.do_sample:
            kind = f"{self.num_beams} beams give" if self.num_beams > 1 else "greedy decoding gives"
            raise UserError(
                f"num_return_sequences = {self.num_return_sequences}, but {kind} {self.num_beams}.\n"
                f"Raise num_beams, or pass do_sample=True."
            )


def make_config(options: dict[str, Any], function: str = "generate") -> GenerationConfig:
    """Make a GenerationConfig of options. Raise a UserError, with similar names, for an unknown option.

    `function` is the name in errors.
    """
    names = [field.name for field in fields(GenerationConfig)]
    for name, value in options.items():
        if isinstance(value, GenerationConfig):
            raise UserError(
                f"{function} takes its options as keyword arguments, got a GenerationConfig.\n"
                f"Pass them one by one, such as {function}(model, ids, num_beams=4)."
            )
        if name not in names:
            raise UserError(
                f"{function} has no option {name!r}.{did_you_mean(name, names)}\n"
                f"The options are {', '.join(names)}."
            )
    return GenerationConfig(**options)


# ---------------------------------------------------------------- checks that depend on the model


def check_model(model: Any) -> None:
    """Raise a UserError if the model does not implement a protocol of models/protocol.py."""
    names = ["is_encoder_decoder", "config", "max_length", "new_cache", "logits"]
    encoder_decoder = ["encode", "decode", "padding_mask", "decoder_start_token_id"]
    names += encoder_decoder if getattr(model, "is_encoder_decoder", False) else ["states"]
    missing = [name for name in names if not hasattr(model, name)]
    if not missing:
        return
    name = type(model).__name__
    lacks = ", ".join(missing)
    if hasattr(model, "encoder") and not hasattr(model, "decoder"):
        raise UserError(
            f"a {name} does not generate text: it is an encoder without a decoder.\n"
            f"Call it, model(inputs), for what its head predicts. To generate, pass a GPT, which continues "
            f"texts, or a Transformer, which translates them."
        )
    raise UserError(
        f"a {name} does not generate text: it lacks {lacks}.\n"
        f"Pass a GPT, which continues texts, or a Transformer, which translates them; or give your own model "
        f"what models/protocol.py lists."
    )


def check_inputs(model: Any, input_ids: Any) -> list[list[int]]:
    """Convert ids to a list for each text. Raise a UserError if they are not ids of the model."""
    if not isinstance(input_ids, Iterable) or isinstance(input_ids, str | bytes | dict):
        raise UserError(f"input_ids must be lists of ids, got {truncated_repr(input_ids)}.\n{EXAMPLE}.")
    vocab_size = model.config.vocab_size
    return [_ids_of(row, f"input_ids[{i}]", vocab_size) for i, row in enumerate(input_ids)]


def check_prefix(model: Any, prefix: Any, count: int) -> list[list[int]]:
    """Convert `prefix` to a list of ids for each of `count` targets, which begin with them.

    Raises a UserError if the ids are invalid or too many for the model, or if the model is decoder-only.
    """
    if prefix is None:
        return [[]] * count
    name = type(model).__name__
    if not model.is_encoder_decoder:
        raise UserError(f"a {name} continues its prompt and takes no prefix.\nAppend it to input_ids.")
    vocab_size = target_vocab_size(model)
    if not isinstance(prefix, Iterable) or isinstance(prefix, str | bytes | dict):
        raise UserError(
            f"prefix must be a list of ids, or one for each input, got {truncated_repr(prefix)}.\n{EXAMPLE}."
        )
    prefix = list(prefix)
    if all(isinstance(item, Integral) for item in prefix):
        prefixes = [_ids_of(prefix, "prefix", vocab_size)] * count
    elif len(prefix) == count:
        prefixes = [_ids_of(row, f"prefix[{i}]", vocab_size) for i, row in enumerate(prefix)]
    else:
        given = counted_units(len(prefix), "prefixes")
        raise UserError(f"{given} for {counted(count, 'input')}.\nPass one for all, or one for each.")
    longest = max(map(len, prefixes), default=0)
    most = model.max_length
    if most is not None and 1 + longest > most:  # 1 is for the start token
        raise UserError(
            f"a prefix of {counted(longest, 'token')} is too long: the model has "
            f"{counted(most, 'position')}.\nShorten it."
        )
    return prefixes


def target_vocab_size(model: Any) -> int:
    """The size of the vocabulary of new tokens, which in an encoder-decoder may differ from the source's."""
    return getattr(model.config, "target_vocab_size", None) or model.config.vocab_size


def end_tokens(model: Any, eos_token_id: Any) -> Int[np.ndarray, " ends"]:
    """The ids that end a text: `eos_token_id`, or if it is None the model's, if it has any."""
    if eos_token_id is None:
        own = getattr(model, "generation_options", {})
        eos_token_id = own.get("eos_token_id", getattr(model.config, "eos_token_id", None))
    ids = () if eos_token_id is None else eos_token_id
    ids = list(ids) if isinstance(ids, list | tuple | np.ndarray) else [ids]
    for each in ids:
        check_integer("eos_token_id", each, 0, target_vocab_size(model))
    return np.array(ids, np.int64)


def check_tokens(model: Any, config: GenerationConfig) -> None:
    """Raise a UserError if an option names a token that is not in the model's vocabulary."""
    size = target_vocab_size(model)
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        if (token := getattr(config, name)) is not None:
            check_integer(name, token, 0, size)
    for token in config.suppress_tokens or ():
        check_integer("suppress_tokens", token, 0, size)


def _ids_of(row: Any, name: str, vocab_size: int) -> list[int]:
    """Convert the ids of one text to a list. Raise a UserError if they are invalid; `name` is their name."""
    try:
        ids = np.asarray(row)
    except ValueError:  # the row has lists of different lengths
        ids = np.empty(())
    if ids.ndim == 1 and not ids.size:
        raise UserError(f"{name} is empty.\nGive each text at least one token.")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise UserError(f"{name} is not a sequence of integers, got {truncated_repr(row)}.\n{EXAMPLE}.")
    invalid = ids[(ids < 0) | (ids >= vocab_size)]
    if invalid.size:
        raise UserError(
            f"{name} has the id {invalid[0]}; this model's ids range from 0 to {vocab_size - 1}.\n"
            f"Encode the text with the model's tokenizer."
        )
    return ids.tolist()
