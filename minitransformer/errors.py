"""Mistakes that a user can fix. The first line says what is wrong, the second what to do."""

import math
from numbers import Integral
from typing import Any


class UserError(ValueError):
    """A mistake that is explained without a traceback (exit code 2)."""


def check_range(config: object, names: str, low: float, below: float = math.inf) -> None:
    """Refuse a value of `config` outside [low, below)."""
    for name in names.split():
        value = getattr(config, name)
        if not low <= value < below:
            span = f"from {low} on" if below == math.inf else f"from {low} to below {below}"
            raise UserError(f"{name} = {value} is out of range.\nChoose a value {span}.")


def check_integer(name: str, value: Any, low: int, below: float = math.inf) -> None:
    """Refuse what is not an integer, or outside [low, below)."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (whole and low <= value < below):
        span = f"from {low} on" if below == math.inf else f"from {low} to below {below}"
        raise UserError(f"{name} = {value!r} is out of range.\nChoose an integer {span}.")
