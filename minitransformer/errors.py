"""Errors for users' mistakes. The first line says what is wrong, the second how to fix it."""

import difflib
import math
from collections.abc import Iterable
from numbers import Integral
from typing import Any

from minigrad.core.errors import counted as counted


class UserError(ValueError):
    """An error whose message the command line prints without a traceback; it exits with `exit_code`."""

    exit_code = 2


def check_range(config: object, names: str, low: float, below: float = math.inf) -> None:
    """Raise a UserError if a field of `config` is outside [low, below), or an integer beyond int64.

    `names` are the fields, separated by spaces. Fields that are None are not checked.
    """
    for name in names.split():
        value = getattr(config, name)
        if value is None:
            continue
        limit = min(below, 2**63) if isinstance(value, int) else below
        if not low <= value < limit:
            interval = _interval(low, limit if value >= low else math.inf)
            raise UserError(f"{name} = {value} is out of range.\nChoose a value {interval}.")


def check_choice(name: str, value: Any, known: Iterable[Any]) -> None:
    """Raise a UserError if the value is not one of `known`."""
    if value not in (known := list(known)):
        names = list(map(str, known))
        raise UserError(
            f"unknown {name} {value!r}.{did_you_mean(str(value), names)}\nChoose one of {', '.join(names)}."
        )


def check_integer(name: str, value: Any, low: int, below: float = math.inf) -> None:
    """Raise a UserError if the value is not an integer in [low, below)."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_integer and low <= value < below):
        interval = _interval(low, below if is_integer and value >= low else math.inf)
        raise UserError(f"{name} = {value!r} is out of range.\nChoose an integer {interval}.")


def _interval(low: float, below: float) -> str:
    return f">= {low}" if below == math.inf else f">= {low} and < {below}"


def counted_units(n: int, units: str) -> str:
    """A number with its unit: `1 pair`, `1,000 pairs`. `units` is a plural."""
    return f"{n:,} {singular(units) if n == 1 else units}"


def singular(units: str) -> str:
    """The singular of a regular plural: `pair` for `pairs`, `box` for `boxes`, `query` for `queries`."""
    if units.endswith("ies"):
        return f"{units[:-3]}y"
    if units.endswith(("sses", "xes", "ches", "shes")):
        return units[:-2]
    return units.removesuffix("s")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The suggestion ` Did you mean ...?` with similar names, or an empty string if there are none."""
    close = difflib.get_close_matches(word[:100], list(known), n=3, cutoff=0.7)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def truncated_repr(value: Any) -> str:
    """The repr of a value on one line, truncated after 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}..."
