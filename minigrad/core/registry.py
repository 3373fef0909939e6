"""What is known about each op and each function derived from ops, by name: see About."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from .argument_checks import Checks
from .costs import Flops
from .errors import OptionError

if TYPE_CHECKING:
    from .op import Op

ops: dict[str, Op] = {}
registry: dict[str, OpInfo] = {}  # derived functions, too

Latex = str | Sequence[str | None]
Sampler = Callable[..., Sequence[Any]]  # inputs and settings to try an op with


class About(TypedDict, total=False):
    """The metadata of an op."""

    samples: Sampler | None  # draws valid inputs (see `ops.samplers`)
    latex: Latex  # the gradient of each array, in which y is the result unless an array is named y
    # under autocast, it computes in autocast's dtype, in float32, or (None) in its inputs' dtype
    autocast: Literal["lower", "float32"] | None
    # whether its rule gets 16-bit arrays instead of float32 ones (see `half`), because it does not round, or
    # handles them itself; "gpu": only on a GPU
    exact_in_half: bool | Literal["gpu"]
    compares: bool  # numbers are rounded to 16 bits before comparing, as in PyTorch
    family: str  # its colour in drawings (`graph.colours.FAMILIES`); by default its module's `__family__`
    sign: str  # shown after its name in drawings: "×"
    public_name: str  # its public name, if not the function's
    advice: str  # what to do if its result is not finite
    gradient_advice: str  # what to do if its derivative is not finite


def key_of(table: dict[str, OpInfo], name: str, source: Callable) -> str:
    """The name, or `module.name` for a user's op that would shadow one of minigrad's."""
    module = getattr(source, "__module__", None) or ""
    taken = name in table and getattr(table[name].source, "__module__", "") != module
    return f"{module}.{name}" if taken and not module.startswith("minigrad.") else name


class OpInfo:
    """The metadata of a function. `call` is the public function."""

    flops: Flops | None = None  # None for a derived function, whose ops have their own

    def __init__(
        self,
        name: str,
        source: Callable,
        *,
        samples: Sampler | None = None,
        latex: Latex = (),
        autocast: Literal["lower", "float32"] | None = None,
        exact_in_half: bool | Literal["gpu"] = False,
        compares: bool = False,
        family: str | None = None,
        sign: str = "",
        public_name: str = "",
        advice: str = "",
        gradient_advice: str = "",
    ) -> None:
        if autocast not in ("lower", "float32", None):
            raise OptionError(
                f'autocast of {name} must be "lower", "float32" or None, got {autocast!r}.\nChoose one.'
            )
        self.name = name
        self.source = source
        self.samples = samples
        self.latex = (latex,) if isinstance(latex, str) else tuple(latex)
        self.autocast = autocast
        self.compares = compares
        self.exact_in_half = exact_in_half is True
        self.exact_on_gpu = exact_in_half == "gpu"
        self.family = family or getattr(source, "__globals__", {}).get("__family__", "other")
        self.sign = sign
        self.public_name = public_name or name
        self.advice = advice
        self.gradient_advice = gradient_advice
        self.call: Callable = source
        self.key = key_of(registry, name, source)
        registry[self.key] = self

    @cached_property
    def checks(self) -> Checks:
        """The checks of its arguments, made when first used."""
        return Checks(self.source)

    @cached_property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        return tuple(inspect.signature(self.source).parameters.values())

    @property
    def name_in_errors(self) -> str:
        """The public name, or the rule's name if that is not an identifier: getitem, not x[…]."""
        return self.public_name if self.public_name.isidentifier() else self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name}>"


def info_of(function: Any) -> OpInfo | None:
    """The metadata of a public function, if it is an op or derived from ops."""
    found = getattr(function, "op", None) if inspect.isfunction(function) else None
    return found if isinstance(found, OpInfo) else None
