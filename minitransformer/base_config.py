"""The base class of configurations: frozen dataclasses that check their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from .errors import UserError, did_you_mean, truncated_repr

C = TypeVar("C")
KINDS: dict[Any, tuple[Any, str]] = {  # annotation -> the types that match it, and its name in errors
    bool: (bool | np.bool_, "True or False"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: (str, "a string"),
    list: (list, "a list"),
    dict: (dict, "a table"),
    NoneType: (NoneType, "None"),
}


class Config:
    """The base class of configurations, which are frozen dataclasses.

    The constructor raises a UserError for an unknown field, suggesting similar names, and for a value of the
    wrong type.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __new__(cls, *values: Any, **named: Any) -> Self:
        names: Any = annotations_of(cls)  # type: ignore[arg-type]  # mypy takes type[Self] for unhashable
        in_order = zip(names, values)  # noqa: B905 (`__init__` raises if there are too many)
        check_fields(cls, {**dict(in_order), **named})
        return super().__new__(cls)


def check_fields(cls: type, values: Mapping[str, Any]) -> None:
    """Raise a UserError if a name is not a field of the dataclass, or a value has the wrong type."""
    known = annotations_of(cls)
    for name, value in values.items():
        if name not in known:
            raise UserError(
                f"{cls.__name__} has no field {truncated_repr(name)}.{did_you_mean(name, known)}\n"
                f"The fields are {', '.join(known)}."
            )
        if not fits(value, known[name]):
            default = cls.__dataclass_fields__[name].default  # type: ignore[attr-defined]
            other = "" if default is MISSING else f", or leave it out: the default is {default!r}"
            raise UserError(
                f"{name} must be {describe(known[name])}, got {truncated_repr(value)}.\nPass one{other}."
            )


@cache
def annotations_of(cls: Any) -> dict[str, Any]:
    """The annotation of each field of a dataclass."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value matches an annotation. Types that are not in KINDS match any value."""
    parts = get_args(annotation)
    if isinstance(annotation, UnionType):
        return any(fits(value, part) for part in parts)
    if get_origin(annotation) is tuple and Ellipsis not in parts:
        return isinstance(value, tuple | list) and len(value) == len(parts) and all(map(fits, value, parts))
    kind = get_origin(annotation) or annotation
    if kind not in KINDS:
        return True
    return isinstance(value, KINDS[kind][0]) and (kind is bool or not isinstance(value, bool))


def describe(annotation: Any) -> str:
    """Describe an annotation composed of KINDS for error messages: "an integer or None" for `int | None`."""
    kind = get_origin(annotation) or annotation
    if kind in KINDS:
        return KINDS[kind][1]
    parts = map(describe, get_args(annotation))
    return " or ".join(parts) if isinstance(annotation, UnionType) else f"({', '.join(parts)})"


def check_config(config: C, expected: type) -> C:
    """Return the configuration. Raise a UserError if it is not an instance of the expected class."""
    if not isinstance(config, expected):
        name = expected.__name__
        is_class = isinstance(config, type)
        found = f"the class {config.__name__}" if is_class else f"a {type(config).__name__}"  # type: ignore[attr-defined]
        how = "**settings" if isinstance(config, dict) else "..."
        raise UserError(f"the configuration must be a {name}, got {found}.\nPass {name}({how}).")
    return config
