r"""An op is one record: its value and its derivative, in one place.

    @differentiable(samples=binary(real), latex=(r"g\,y", r"g\,x"))
    def multiply(x, y, /):
        return x * y, (lambda g: g * y, lambda g: g * x)

A *rule* takes arrays (its positional-only parameters) and settings (the others) and returns its value and how
a gradient `g` of the value flows back to each array: a tuple of functions, None where there is no gradient,
or, where gradients share work, one function `(g, needs) -> tuple`. A gradient function returns a new array,
or `g` or a view of it; it changes nothing in place. The engine promotes dtypes before the rule runs and sums
gradients over broadcast axes after it.

A *composite* op is written with other ops and has no rule (see `composites`). A *derived* function calls ops
and has no rule either, but is not an op: its derivative follows from its parts.

Kernels registered on an op compute it faster (see `kernels`); `fused(False)` disables them.

All metadata of an op stands where it is defined, also for users' ops (see `About`): sample inputs for tests
(`samples`), its gradients as formulas (`latex`, in terms of the upstream gradient g), its cost, what autocast
does with it, how it is drawn, what to do when it produces a NaN. No other file lists ops by name.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from .arguments import accept_aliases
from .call import make_callable
from .costs import Flops, one_each
from .devices import kind_of
from .errors import OptionError
from .half import compute_in_float32, half_of, pull_in_float32
from .kernels import TakesKernels, kernels_for
from .modes import modes
from .node import Recorded
from .registry import ops, registry
from .tensor import Tensor
from .user_rules import checked_rule

__all__ = ["About", "Op", "OpInfo", "derived", "differentiable", "ops", "registry"]

Latex = str | Sequence[str | None]
Sampler = Callable[..., Sequence[Any]]  # inputs and settings to try an op with


class About(TypedDict, total=False):
    """The metadata of an op."""

    samples: Sampler | None  # draws valid inputs (see `ops.samplers`)
    latex: Latex  # the gradient of each array; in it y is the result where no array has that name
    autocast: Literal["lower", "float32"] | None  # under autocast: in its dtype, in float32, or unchanged
    # whether its rule gets 16-bit arrays instead of float32 ones (see `half`), as it does not round or
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

    flops: Flops | None = None  # None for a derived function: its parts have theirs

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
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        return tuple(inspect.signature(self.source).parameters.values())

    @property
    def name_in_errors(self) -> str:
        """Its public name as a function: slices, not x[…]."""
        return self.public_name if self.public_name.isidentifier() else self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name}>"


class Derived(OpInfo):
    """A function that calls ops and has no rule."""


class Op(OpInfo, Recorded, TakesKernels):
    """An operation with a rule; nodes of the graph refer to it."""

    def __init__(
        self,
        name: str,
        rule: Callable,
        source: Callable | None = None,
        *,
        view: bool = False,
        promotes: Any = True,
        floating: bool = False,
        casts: bool = False,
        flops: Flops = one_each,
        **about: Unpack[About],
    ) -> None:
        source = source or rule
        self.rule = checked_rule(rule, source, view)
        TakesKernels.__init__(self)
        super().__init__(name, source, **about)
        self.flops = flops
        self.view = view
        self.floating = floating
        self.casts = casts
        self.promotes: Any = () if promotes is False else promotes
        self.kernel_takes_half = self.exact_in_half
        self.exact_in_half |= view
        kinds = self.parameters
        self.operands = tuple(p.name for p in kinds if p.kind is p.POSITIONAL_ONLY)
        self.settings = tuple(p.name for p in kinds if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        self.by_position = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in kinds)  # at most so many settings
        variadic = any(p.kind is p.VAR_POSITIONAL for p in kinds)
        self.any_setting = any(p.kind is p.VAR_KEYWORD for p in kinds)
        self.arity = sys.maxsize if variadic else len(self.operands)

    def checked(self, kernel: Callable) -> Callable:
        """The kernel, wrapped in checks if it is a user's."""
        return checked_rule(kernel, self.source, self.view)

    def run(self, arrays: Sequence[Any], settings: dict[str, Any]) -> tuple[Any, Any]:
        """Value and gradients, as in a call."""
        return self.compute(arrays, settings, half_of(arrays))

    def compute(
        self, arrays: Sequence[Any], settings: dict[str, Any], half: np.dtype | None
    ) -> tuple[Any, Any]:
        """Value and gradients by the first kernel that supports the arrays, or by the rule.

        `half`: the 16-bit dtype of the first array that has one. On a CPU, such arrays are computed in
        float32; GPU kernels get them unchanged.
        """
        if self.kernels and modes.fused:
            kind = kind_of(arrays)
            widens = kind == "cpu" and not self.kernel_takes_half
            for kernel in kernels_for(self, kind):
                if half is not None and widens:
                    found = compute_in_float32(kernel, half, arrays, settings)
                else:
                    found = kernel(*arrays, **settings)
                if found is not None:
                    return found
        if half is None or not self.widens(kind_of(arrays)):
            return self.rule(*arrays, **settings)
        if self.compares:
            with np.errstate(over="ignore"):
                arrays = [float(half.type(a)) if type(a) in (int, float) else a for a in arrays]
        return compute_in_float32(self.rule, half, arrays, settings)

    def widens(self, device: str) -> bool:
        """Whether the rule gets float32 instead of 16 bits on a kind of device."""
        return not (self.exact_in_half or (self.exact_on_gpu and device != "cpu"))

    def rebuild(self, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
        return self.run(arrays, settings)[0]

    def pull_tensors(
        self, inputs: list[Any], settings: dict[str, Any], needs: Sequence[bool], g: Any
    ) -> Sequence[Any]:
        arrays = [x.array for x in inputs if isinstance(x, Tensor)]
        if half_of(arrays) is None or not self.widens(kind_of(arrays)):
            return self.pull_by_rule(inputs, settings, needs, g)
        return pull_in_float32(self.pull_by_rule, inputs, settings, needs, g)

    def pull_by_rule(
        self, inputs: list[Any], settings: dict[str, Any], needs: Sequence[bool], g: Any
    ) -> Sequence[Any]:
        """`pull_tensors` by the rule, which on Tensors returns gradient functions of Tensors."""
        _, gradients = self.rule(*inputs, **settings)
        if type(gradients) is tuple:
            return [f(g) if f and needed else None for f, needed in zip(gradients, needs, strict=True)]
        return gradients(g, needs)


def differentiable(
    rule: Callable | None = None,
    *,
    view: bool = False,
    promotes: Any = True,
    floating: bool = False,
    casts: bool = False,
    flops: Flops = one_each,
    **about: Unpack[About],
) -> Any:
    """Turn a rule into an op: its value, and how a gradient flows back to each array.

    The rule gets NumPy arrays, and Tensors for higher derivatives: it computes with their operators,
    or with `xp = namespace(x)`, which has the array API's names for both. It returns the value and a tuple of
    functions of g, one per array (None: no gradient), or one function (g, needs) -> tuple.
    Gradients are new arrays, or g or views of it, never arrays that the rule keeps.

    `view`: the value may share memory with the first array. `promotes`: True if all arrays are cast to one
    dtype, False if they keep theirs, or the positions of those that are cast. `floating`: integers become
    float32. `casts`: it only changes the dtype. `about`: see About.
    """

    def make(rule: Callable) -> Callable:
        op = Op(
            getattr(rule, "__name__", ""), rule, view=view, promotes=promotes, floating=floating,
            casts=casts, flops=flops, **about,
        )  # fmt: skip
        return with_gradients(make_callable(op, rule), op)

    return make if rule is None else make(rule)


def derived(function: Callable | None = None, **about: Unpack[About]) -> Any:
    """Register a function that calls ops and has no rule; it accepts `axis` and reports errors as ops do.

    `exact_in_half=False`, the library's default: 16-bit tensors are cast to float32, and only the results are
    rounded. True: it only moves elements or calls one op (`__exact_in_half__ = True` says so for a module),
    or it is a user's. "gpu": it consists of matrix products, which a GPU and autocast compute in 16 bits.
    """

    def make(function: Callable) -> Callable:
        own = function.__module__.startswith("minigrad.")
        about.setdefault("exact_in_half", function.__globals__.get("__exact_in_half__", not own))
        info = Derived(function.__name__, function, **about)
        info.call = accept_aliases(
            function, info.autocast, in_float32=not info.exact_in_half, products=info.exact_on_gpu
        )
        info.call.op = info  # type: ignore[attr-defined]
        return with_gradients(info.call, info)

    return make if function is None else make(function)


def with_gradients(function: Callable, op: OpInfo) -> Callable:
    """The function, with the op's gradients (`latex`) at the end of its docstring, for `help`."""
    if op.latex:
        gradients = [
            f"    {p.name}: {formula}"
            for p, formula in zip(op.parameters, op.latex, strict=False)
            if formula is not None
        ]
        arrays = ", ".join(str(p).partition(":")[0] for p in op.parameters[: len(op.latex)])
        title = f"Gradients of y = {op.name}({arrays}), where g is the gradient of y (in LaTeX):"
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", title, *gradients])
    return function


def info_of(function: Any) -> OpInfo | None:
    """The metadata of a public function, if it is an op or derived from ops."""
    found = getattr(function, "op", None) if inspect.isfunction(function) else None
    return found if isinstance(found, OpInfo) else None
