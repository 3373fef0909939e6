"""Checks the arguments of `generate` before the model runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from ..errors import UserError, check_integer
from ..models import GPT, Transformer

EXAMPLE = "Pass a list of ids for each text, such as [[5, 8, 3]]"


def check_request(
    model: Any, input_ids: Any, max_new_tokens: Any, eos_token_id: Any, temperature: Any, top_k: Any
) -> list[list[int]]:
    """The ids of each text; a UserError if an argument is not valid."""
    if not isinstance(model, GPT | Transformer):
        raise UserError(
            f"a {type(model).__name__} does not generate text.\n"
            f"Pass a GPT, which continues texts, or a Transformer, which translates them."
        )
    vocab_size = model.config.vocab_size
    check_integer("max_new_tokens", max_new_tokens, 0)
    if eos_token_id is not None:
        check_integer("eos_token_id", eos_token_id, 0, vocab_size)
    if top_k is not None:
        check_integer("top_k", top_k, 1)
    if not (isinstance(temperature, Real) and 0 < float(temperature) < math.inf):
        raise UserError(
            f"temperature must be a finite number above 0, got {temperature!r}.\n"
            f"For greedy decoding, leave do_sample out."
        )
    if not isinstance(input_ids, Iterable) or isinstance(input_ids, str | bytes | dict):
        raise UserError(f"input_ids must be lists of ids, got {_short(input_ids)}.\n{EXAMPLE}.")
    return [_ids_of(row, f"input_ids[{i}]", vocab_size) for i, row in enumerate(input_ids)]


def _ids_of(row: Any, name: str, vocab_size: int) -> list[int]:
    """The ids of one text: a list, an array or a tensor."""
    try:
        ids = np.asarray(row)
    except ValueError:  # of lists of different lengths
        ids = np.empty(())
    if ids.ndim == 1 and not ids.size:
        raise UserError(f"{name} is empty.\nGive each text at least one token.")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise UserError(f"{name} is not a sequence of integers, got {_short(row)}.\n{EXAMPLE}.")
    invalid = ids[(ids < 0) | (ids >= vocab_size)]
    if invalid.size:
        raise UserError(
            f"{name} has the id {invalid[0]}, and this model's ids range from 0 to {vocab_size - 1}.\n"
            f"Encode the text with the tokenizer of the model."
        )
    return ids.tolist()


def _short(value: Any) -> str:
    """A value on one line, truncated."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}..."
