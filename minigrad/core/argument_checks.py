"""Checks of argument types (integers, axes, numbers, flags, ...); a wrong type raises an ArgumentError.

The kind of an argument is derived from its annotation, its default or its name, since a name means the same
in every function (`dim` is one axis or several). For values of the usual types a check costs one lookup.
"""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .devices import is_array
from .dtypes import DTYPES
from .error_context import add_context, describe, unwrap
from .errors import ArgumentError, SizesError
from .tensor import Tensor, from_other_library


class Kind(NamedTuple):
    """A kind of argument: a phrase and advice for errors, types that always fit, a test of other values."""

    what: str
    advice: str
    plain: frozenset[type] = frozenset()
    fits: Callable[[Any], bool] = lambda x: False
    error: type[ArgumentError] = ArgumentError

    def or_none(self) -> Kind:
        return self._replace(what=f"{self.what} or None", plain=self.plain | {type(None)})


def _one_number(x: Any, kinds: str) -> bool:
    """Whether x is a NumPy scalar, or a one-element tensor or array, with one of these dtype kinds."""
    x = from_other_library(unwrap(x))
    return (is_array(x) or isinstance(x, np.generic)) and x.dtype.kind in kinds and x.size == 1


def is_integer(x: Any) -> bool:
    return (isinstance(x, int) and type(x) is not bool) or _one_number(x, "iu")


def _are_integers(x: Any) -> bool:
    if isinstance(x, tuple | list):
        return all(type(i) is int or is_integer(i) for i in x)
    return is_integer(x)


def _without_none(x: Any) -> Any:
    return [i for i in x if i is not None] if isinstance(x, tuple | list) else x


_COUNT = "Pass an int, such as 2."
INTEGER = Kind("an integer", _COUNT, frozenset([int]), is_integer)
AXIS = INTEGER._replace(advice="The first axis is 0, the last -1.")
AXES = Kind("an axis or several", AXIS.advice, frozenset([int]), _are_integers)
SIZES = Kind(
    "an integer or several", "Pass an int, or a tuple of them.", frozenset([int]), _are_integers, SizesError
)
SHAPE = SIZES._replace(plain=frozenset([int, tuple, list]))  # NumPy checks the elements
CUTS = SIZES._replace(fits=lambda x: _are_integers(x.tolist() if hasattr(x, "tolist") else x))
SIZES_OR_NONE = SIZES._replace(
    what="an integer or several, or None", fits=lambda x: _are_integers(_without_none(x))
)
NUMBER = Kind(
    "a number",
    "Pass a number, or a tensor of one element.",
    frozenset([int, float, bool]),
    lambda x: isinstance(x, Real) or _one_number(x, "biufV"),
)
FLAG = Kind("True or False", "Pass one of them.", frozenset([bool]), lambda x: _one_number(x, "b"))
SETTING = FLAG._replace(
    plain=frozenset([bool, type(None)]), fits=lambda x: type(x) is int and x in (0, 1)
)  # a flag of a constructor, where None, 0 and 1 are accepted as well
TEXT = Kind(
    "a string", "Pass one of the values listed by help(...).", frozenset([str]), lambda x: isinstance(x, str)
)  # a Device is a str
COEFFICIENT = NUMBER._replace(
    plain=frozenset([int, float]), fits=lambda x: type(x) is not bool and NUMBER.fits(x)
)
FACTORS = NUMBER._replace(
    what="a number or several",
    fits=lambda x: all(map(NUMBER.fits, x)) if isinstance(x, tuple | list) else NUMBER.fits(x),
)
ORDER = Kind(
    "a number or a string", "Pass 2, float('inf'), ...", NUMBER.plain | TEXT.plain, lambda x: NUMBER.fits(x)
)
TENSORS = Kind(
    "a list of tensors",
    "Pass a list or a tuple.",
    frozenset([list, tuple]),
    lambda x: isinstance(x, Tensor | np.ndarray),  # an array is a sequence of its rows
)
FUNCTION = Kind("a function", "Pass a callable.", fits=callable)
LIST = Kind(
    "a list",
    "Pass a list or another iterable.",
    fits=lambda x: isinstance(x, Iterable),
)
MODULE = Kind(
    "a module", "Pass an nn.Module.", fits=lambda x: hasattr(x, "named_modules") and not isinstance(x, type)
)
OPTIMIZER = Kind("an optimizer", "Pass one.", fits=lambda x: hasattr(x, "param_groups"))
DTYPE = Kind(
    "a dtype or None",
    'Pass mg.float32, "float32", ...',
    frozenset([type, type(None), *map(type, DTYPES)]),
    lambda x: isinstance(x, np.dtype | type) or (isinstance(x, str) and x != ""),
)
DEVICE = Kind("a device", "Pass 'cpu', 'cuda', ... or 'auto'.", fits=lambda x: isinstance(x, str) and x != "")
FUNCTIONS = FUNCTION._replace(
    what="a function, or a list of them",
    fits=lambda x: callable(x) or (isinstance(x, list | tuple) and all(map(callable, x))),
)
ANYTHING = Kind("anything", "", fits=lambda x: True)
OTHER = ANYTHING._replace(what="declared by the function")

ANNOTATED = {
    "int": INTEGER, "float": NUMBER, "bool": FLAG, "str": TEXT, "Callable": FUNCTION,
    "int | Sequence[int]": SIZES, "tuple[int, ...]": SIZES, "Sequence[int]": SIZES, "ArgNums": SIZES,
    "Iterable[Any]": LIST, "Module": MODULE, "Optimizer": OPTIMIZER,
    "Device": DEVICE.or_none(),
}  # fmt: skip
NAMED = {
    **dict.fromkeys(["dim0", "dim1", "dim2", "start_dim", "end_dim", "dimension"], AXIS),
    **dict.fromkeys(
        ["sizes", "kernel_size", "stride", "dilation", "output_padding", "shifts",
         "split_sizes"], SIZES,
    ),
    **dict.fromkeys(
        ["bins", "n", "k", "r", "chunks", "groups", "num_classes", "num_groups", "diagonal", "offset",
         "decimals", "minlength", "ignore_index", "upscale_factor", "downscale_factor", "length", "ind", "N",
         "step", "edge_order", "divisor_override"],
        INTEGER,
    ),
    **dict.fromkeys(["alpha", "beta"], COEFFICIENT),
    **dict.fromkeys(["eps", "margin", "maxnorm", "scale", "threshold", "value", "fill_value",
         "correction", "lambd", "posinf", "neginf", "max_norm", "delta"], NUMBER),
    "output_size": SIZES_OR_NONE,
    "scale_factor": FACTORS,
    "shape": SHAPE,
    "upper": FLAG,
    **dict.fromkeys(["mode", "reduce", "rounding_mode", "UPLO", "side"], TEXT),
    "p": ORDER,
    "indices_or_sections": CUTS,
    "pad": SIZES,
    "ord": ORDER,
    "tensors": TENSORS,
}  # fmt: skip
SEVERAL = ("shape", "size", "sizes", "dims", "repeats")


def kind_of(parameter: inspect.Parameter, flag: Kind = FLAG) -> Kind:
    """The kind of argument that a parameter accepts; for flags it is `flag`."""
    name = parameter.name
    default = parameter.default
    annotation = parameter.annotation
    if name == "dtype":
        return DTYPE
    if annotation not in (parameter.empty, "Any", Any):
        annotation = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        text = annotation.removesuffix(" | None")
        kind = ANNOTATED.get(text, ANYTHING)
        if text.startswith("Callable["):
            kind = FUNCTIONS if " | " in text else FUNCTION
        kind = flag if kind is FLAG else AXIS if kind is INTEGER and name.startswith("dim") else kind
        optional = annotation.endswith(" | None") or default is None
        return kind.or_none() if optional and kind is not ANYTHING else kind
    if isinstance(default, bool):
        return flag
    if isinstance(default, str) and name not in NAMED:
        return TEXT
    if name == "dim":  # if None, which means all axes, is accepted, then so are several axes
        return AXIS if isinstance(default, int) or default is parameter.empty else AXES.or_none()
    kind = NUMBER if isinstance(default, float) and name not in ("p", "ord") else NAMED.get(name, ANYTHING)
    return kind.or_none() if default is None and kind is not ANYTHING else kind


class Checks:
    """The checks of a function's arguments: the kind of each, and the types that need no check."""

    def __init__(self, function: Callable, flag: Kind = FLAG) -> None:
        parameters = [*inspect.signature(function).parameters.values()]
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.kinds = {p.name: kind_of(p, flag) for p in named if p.kind is not p.POSITIONAL_ONLY}
        self.plain = {name: set(kind.plain or USUAL) for name, kind in self.kinds.items()}
        self.any_setting = any(p.kind is p.VAR_KEYWORD for p in parameters)
        if self.any_setting:
            self.plain = defaultdict(lambda: set(USUAL), self.plain)
        self.names = tuple([p.name for p in parameters])
        self.listed = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        self.in_order = self.names[: self.names.index(self.listed) + 1] if self.listed else ()
        self.rest = self.names.index(self.listed) if self.listed in SEVERAL else None
        by_position = [
            (p.name, self.kinds.get(p.name, ANYTHING)) for p in named if p.kind is not p.KEYWORD_ONLY
        ]
        checked = [i for i, (_, kind) in enumerate(by_position) if kind is not ANYTHING]
        self.first = checked[0] if checked else sys.maxsize
        self.by_position = by_position[self.first :]
        self.plain_by_position = [self.plain.get(name, USUAL) for name, _ in self.by_position]

    def check(self, args: tuple, settings: Mapping[str, Any]) -> None:
        """Raise an ArgumentError for an argument of the wrong kind."""
        if len(args) > self.first:
            for x, (name, kind) in zip(args[self.first :], self.by_position):  # noqa: B905
                if type(x) not in kind.plain and not kind.fits(x):
                    raise_argument_error(name, x, kind)
        if settings:
            self.check_settings(settings)

    def check_rest(self, name: str, args: tuple, error: Exception) -> None:
        """Raise a SizesError if the function is variadic and its sizes or axes are not integers.

        This is called only after the function has raised an error, so that valid calls cost nothing.
        """
        if self.rest is not None and not isinstance(error, ArgumentError):
            rest = args[self.rest :]
            for x in rest:
                if not (_are_integers(_without_none(x)) if len(rest) == 1 else x is None or is_integer(x)):
                    what = f"expected integers, got {describe(x)}.\n{SIZES.advice}"
                    raise add_context(SizesError(what), name, args, {}) from error

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        for name, x in settings.items():
            kind = self.kinds.get(name, ANYTHING if self.any_setting else OTHER)
            if type(x) not in kind.plain and not kind.fits(x):
                raise_argument_error(name, x, kind)
            if kind is ANYTHING and not isinstance(x, Tensor):
                self.plain[name].add(type(x))  # not checked again


# types that need no check in settings whose kind lists none
USUAL = frozenset([int, float, bool, str, tuple, list, slice, type(None), np.ndarray, np.dtype, type(...)])


def raise_argument_error(name: str, x: Any, kind: Kind) -> None:
    advice = kind.advice
    if isinstance(x, str) and float in kind.plain:
        with suppress(ValueError):
            if isfinite(float(x)):
                advice = f"Pass float({x!r})."
                advice += " In YAML write 1.0e-3: 1e-3 is a string there." if "e" in x.lower() else ""
    raise kind.error(f"{name} must be {kind.what}, got {describe(x)}.\n{advice}")
