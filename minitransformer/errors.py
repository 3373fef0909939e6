"""Errors that a user can fix. The first line says what is wrong, the second how to fix it."""

import difflib
import inspect
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


class UserError(ValueError):
    """An error that the command line explains without a traceback (exit code 2)."""


def check_range(config: object, names: str, low: float, below: float = math.inf) -> None:
    """Raise a UserError if a value of `config` is outside [low, below), or an integer beyond 64 bits."""
    for name in names.split():
        value = getattr(config, name)
        check_kind(config, name, value)
        limit = min(below, 2**63) if isinstance(value, int) else below
        if not low <= value < limit:
            interval = _interval(low, limit if value >= low else math.inf)
            raise UserError(f"{name} = {value} is out of range.\nChoose a value {interval}.")


def check_kind(config: object, name: str, value: Any) -> None:
    """Raise a UserError if a field of a configuration is not a number, or not an integer as declared."""
    whole = "float" not in str(inspect.get_annotations(type(config)).get(name, ""))
    if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
        kind = "an integer" if whole else "a number"
        raise UserError(f"{name} must be {kind}, got {value!r}.\nPass one.")


def check_choice(name: str, value: Any, known: Iterable[str]) -> None:
    """Raise a UserError if the value is not one of the known names."""
    if value not in (known := list(known)):
        raise UserError(
            f"unknown {name} {value!r}.{nearest(str(value), known)}\nChoose one of {', '.join(known)}."
        )


def check_integer(name: str, value: Any, low: int, below: float = math.inf) -> None:
    """Raise a UserError if the value is not an integer in [low, below)."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_integer and low <= value < below):
        interval = _interval(low, below if is_integer and value >= low else math.inf)
        raise UserError(f"{name} = {value!r} is out of range.\nChoose an integer {interval}.")


def _interval(low: float, below: float) -> str:
    return f">= {low}" if below == math.inf else f">= {low} and < {below}"


def counted(n: int, noun: str) -> str:
    """`1 step`, `1,000 steps`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def nearest(word: str, known: Iterable[str]) -> str:
    """` Did you mean ...?`, or an empty string if no name is similar."""
    close = difflib.get_close_matches(word[:100], list(known), n=3, cutoff=0.7)
    return f" Did you mean {' or '.join(close)}?" if close else ""
