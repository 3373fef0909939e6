"""What `generate` is asked for, looked at before the model is: a mistake is named in the caller's words."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import UserError
from ..models import GPT, Transformer

EXAMPLE = "Pass a list of ids for each text, as [[5, 8, 3]]"


def check_request(
    model: Any, input_ids: Any, max_new_tokens: Any, temperature: Any, top_k: Any
) -> list[list[int]]:
    """The ids of each text, or an error for what cannot be done."""
    if not isinstance(model, GPT | Transformer):
        raise UserError(
            f"a {type(model).__name__} does not generate text.\n"
            f"Pass a GPT, which continues texts, or a Transformer, which translates them."
        )
    _check_whole("max_new_tokens", max_new_tokens, 0)
    if top_k is not None:
        _check_whole("top_k", top_k, 1)
    if not (isinstance(temperature, Real) and float(temperature) > 0):
        raise UserError(
            f"temperature is above 0, got {temperature!r}.\nFor the most likely token leave do_sample out."
        )
    if not isinstance(input_ids, Iterable) or isinstance(input_ids, str | bytes | dict):
        raise UserError(f"input_ids are texts' ids, got {_short(input_ids)}.\n{EXAMPLE}.")
    return [_ids_of(row, f"input_ids[{i}]") for i, row in enumerate(input_ids)]


def _check_whole(name: str, value: Any, low: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise UserError(f"{name} = {value!r} is out of range.\nChoose a whole number from {low} on.")


def _ids_of(row: Any, name: str) -> list[int]:
    """One text's ids, of a list, an array or a tensor."""
    try:
        ids = np.asarray(row)
    except ValueError:  # of lists of different lengths
        ids = np.empty(())
    if ids.ndim == 1 and not ids.size:
        raise UserError(f"{name} is empty.\nGive each text one token at least.")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise UserError(f"{name} is not a sequence of whole numbers, got {_short(row)}.\n{EXAMPLE}.")
    return ids.tolist()


def _short(value: Any) -> str:
    """A value on one line, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}..."
