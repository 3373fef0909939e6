"""The base class of configurations: frozen dataclasses that check their fields."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from .errors import UserError, did_you_mean, truncated_repr

C = TypeVar("C")
KINDS: dict[Any, tuple[Any, str]] = {  # annotation -> types that match, and their name in errors
    bool: (bool | np.bool_, "True or False"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: (str, "a string"),
    NoneType: (NoneType, "None"),
}


class Config:
    """Base class of configurations, which are frozen dataclasses.

    Raises a UserError for an unknown field, with similar names, and for a value of the wrong type.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __new__(cls, *values: Any, **named: Any) -> Self:
        annotations = _annotations(cls)  # type: ignore[arg-type]  # mypy takes type[Self] for unhashable
        for name, value in [*zip(annotations, values), *named.items()]:  # noqa: B905 (Python counts them)
            if name not in annotations:
                raise UserError(
                    f"{cls.__name__} has no field {name!r}.{did_you_mean(name, annotations)}\n"
                    f"The fields are {', '.join(annotations)}."
                )
            if not fits(value, annotations[name]):
                default = cls.__dataclass_fields__[name].default
                other = "" if default is MISSING else f", or leave it out: the default is {default!r}"
                raise UserError(
                    f"{name} must be {describe(annotations[name])}, got {truncated_repr(value)}.\n"
                    f"Pass one{other}."
                )
        return super().__new__(cls)


@cache
def _annotations(cls: type) -> dict[str, Any]:
    """The annotation of each field of a dataclass."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value matches an annotation composed of KINDS; other annotations match anything."""
    parts = get_args(annotation)
    if isinstance(annotation, UnionType):
        return any(fits(value, part) for part in parts)
    if get_origin(annotation) is tuple and Ellipsis not in parts:
        return isinstance(value, tuple | list) and len(value) == len(parts) and all(map(fits, value, parts))
    if annotation not in KINDS:
        return True
    return isinstance(value, KINDS[annotation][0]) and (annotation is bool or not isinstance(value, bool))


def describe(annotation: Any) -> str:
    """An annotation composed of KINDS in words, for error messages."""
    parts = list(map(describe, get_args(annotation)))
    if isinstance(annotation, UnionType):
        return " or ".join(parts)
    return KINDS[annotation][1] if annotation in KINDS else f"({', '.join(parts)})"


def check_config(config: C, expected: type) -> C:
    """The configuration; a UserError if it is not an instance of the expected class."""
    if not isinstance(config, expected):
        name = expected.__name__
        is_class = isinstance(config, type)
        found = f"the class {config.__name__}" if is_class else f"a {type(config).__name__}"  # type: ignore[attr-defined]
        how = "**settings" if isinstance(config, dict) else "..."
        raise UserError(f"the configuration must be a {name}, got {found}.\nPass {name}({how}).")
    return config
