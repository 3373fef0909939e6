r"""An op is one record: its value and its derivative, in one place.

    @differentiable(samples=binary(real), latex=(r"g\,y", r"g\,x"))
    def multiply(x, y, /):
        return x * y, (lambda g: g * y, lambda g: g * x)

A *rule* takes arrays (its positional-only parameters) and settings (the others) and returns its value and how
a gradient `g` of the value flows back to each array: a tuple of functions, None where there is no gradient,
or, where gradients share work, one function `(g, needs) -> tuple`. A gradient function returns a new array
(never the same one for two inputs), or `g` or a view of it; it changes nothing in place. The engine promotes
dtypes before the rule runs and sums gradients over broadcast axes after it. An op without a derivative, such
as a comparison, returns None in place of the functions.

A *composite* op is written with other ops: its rule runs that definition (see `composites`). A *derived*
function calls ops too, but is not an op: its derivative follows from its parts.

A kernel is registered on an op with `@kernel(op, "numba")` and computes it faster (see `kernels`);
`fused(False)` disables kernels.

All metadata of an op is given where it is defined, also for users' ops (see `About`): sample inputs for tests
(`samples`), its gradients as formulas (`latex`, in terms of the upstream gradient g), its cost, what autocast
does with it, how it is drawn, what to do when it produces a NaN. No other file lists ops by name.

A call of an op has three parts: arrays and edges in; the rule, or a kernel; a node out (`make_callable`).
Observers (see `observers`) are shown the value after the second part.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, update_wrapper
from typing import Any, Unpack

import numpy as np

from .arguments import accept_aliases, autocast, bind, operands, prepare
from .backward import Node, needed_only
from .costs import Flops, one_each
from .devices import as_array, kind_of, loaded
from .dtypes import float32
from .error_context import FOREIGN_ERRORS, add_context, raise_with_context
from .errors import MinigradError
from .half import half_of, in_float32
from .higher_order import Recorded
from .kernels import TakesKernels, kernels_for
from .modes import current_modes, named_scope
from .registry import About, OpInfo, info_of, ops, registry
from .tensor import Tensor, new_tensor
from .user_rules import checked_rule
from .versions import share_version

__all__ = ["About", "Op", "OpInfo", "derived", "differentiable", "info_of", "ops", "registry"]


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
    """Turn a rule, which returns a value and its gradient functions, into an op.

    The rule gets NumPy arrays, and Tensors for higher derivatives: it computes with their operators,
    or with `xp = namespace(x)`, which has the array API's names for both. It returns the value and a tuple of
    functions of g, one per array (None: no gradient), or one function (g, needs) -> tuple.
    Gradients are new arrays, or g or views of it, never arrays that the rule keeps.

    `view`: the value may share memory with the first array. `promotes`: True if all arrays are cast to one
    dtype, False if they keep theirs, or the positions of those that are cast; with (0,), the result has the
    dtype of the first. `floating`: integers become float32. `casts`: it only changes the dtype. `about`: see
    About.
    """

    def make(rule: Callable) -> Callable:
        op = Op(
            getattr(rule, "__name__", ""), rule, view=view, promotes=promotes, floating=floating,
            casts=casts, flops=flops, **about,
        )  # fmt: skip
        return with_gradients(make_callable(op), op)

    return make if rule is None else make(rule)


def make_callable(op: Op) -> Callable:
    """The function that users call, with the rule's name, signature and docstring."""
    takes_numbers = op.promotes is True
    takes_constants = op.key in ("add", "subtract", "multiply", "true_divide")  # see `constant`
    readable = op.definition and accept_aliases(
        op.definition,
        in_float32=not op.kernel_takes_half,
        like_first=op.like_first,
    )

    def call(*inputs: Any, **settings: Any) -> Any:
        if settings or len(inputs) > op.arity:
            inputs, settings = bind(op, inputs, settings)
        mode = current_modes.get()
        if mode.autocast_dtype is not None:
            inputs = autocast(op, inputs)
        if readable is not None and not mode.fused:
            with named_scope(op.key):
                return readable(*prepare(op, inputs, promotes=()), **settings)

        # 1. arrays and edges in
        records = mode.grad_enabled
        arrays = []
        edges = []
        needs = []
        half = None
        is_simple = not loaded  # all are float32 tensors on the CPU, or numbers
        has_tensor = False
        tensors: Sequence[Any] = inputs
        for x in inputs:
            if isinstance(x, Tensor):
                has_tensor = True
                array = x.array
                arrays.append(array)
                if records:
                    edges.append(x.node or x)
                    needs.append(x._requires_grad)
                is_simple = is_simple and array.dtype is float32
            else:
                arrays.append(constant(x) if takes_constants and type(x) is float and x else x)
                edges.append(x)
                needs.append(False)
                is_simple = is_simple and (x is None or (takes_numbers and type(x) in (float, int)))
        if not (is_simple and has_tensor):  # start over: other dtypes and devices, lists, arrays
            tensors, arrays, edges, needs, half = operands(op, inputs)

        # 2. the rule
        try:
            if op.kernels or half is not None:
                value, gradients = op.compute(arrays, settings, half)
            else:
                value, gradients = op.rule(*arrays, **settings)
        except MinigradError as error:
            add_context(error, op.name_in_errors, tensors, settings)
            raise
        except FOREIGN_ERRORS as error:
            raise_with_context(op.name_in_errors, tensors, settings, error, op.source)
        if type(value) is not np.ndarray:
            if type(value) is tuple:
                value = tuple(map(as_array, value))
            else:
                value = np.asarray(value) if isinstance(value, np.generic) else as_array(value)
        for observer in mode.observers:
            observer.on_result(op, arrays, settings, value, gradients)

        # 3. a node out
        result = tuple(map(Tensor, value)) if type(value) is tuple else new_tensor(value)
        if records and gradients is not None and True in needs:
            if False in needs and type(gradients) is tuple:
                gradients = needed_only(gradients, needs)
            Node(op, settings, edges, needs, gradients, result)  # sets result.node
        if op.view:
            share_versions(tensors[0], result, op, settings)
        return result

    update_wrapper(call, op.source)
    call.op = op  # type: ignore[attr-defined]
    op.call = call
    ops[op.key] = op
    return call


@lru_cache(256)
def constant(x: float) -> np.ndarray:
    """A nonzero number as a float32 array, with which NumPy is twice as fast (a cache takes -0 for 0)."""
    return np.array(x, float32)


def share_versions(base: Tensor, result: Any, op: Op, settings: dict[str, Any]) -> None:
    """Let the result of a view, or each of several, share the version counter of its base."""
    if type(result) is not tuple:
        share_version(base, result, op, settings)
        return
    for i, view in enumerate(result):
        share_version(base, view, op, settings, i)


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
        self.like_first = promotes == (0,)
        self.kernel_takes_half = self.exact_in_half
        self.exact_in_half |= view
        kinds = self.parameters
        self.operands = tuple(p.name for p in kinds if p.kind is p.POSITIONAL_ONLY)
        self.settings = tuple(p.name for p in kinds if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        self.by_position = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in kinds)  # settings by position
        variadic = any(p.kind is p.VAR_POSITIONAL for p in kinds)
        self.any_setting = any(p.kind is p.VAR_KEYWORD for p in kinds)
        self.arity = sys.maxsize if variadic else len(self.operands)

    def checked(self, kernel: Callable) -> Callable:
        """The kernel, wrapped in checks if it is a user's."""
        return checked_rule(kernel, self.source, self.view)

    def run(self, arrays: Sequence[Any], settings: dict[str, Any]) -> tuple[Any, Any]:
        """Return the value and the gradients of a call, without recording it."""
        return self.compute(arrays, settings, half_of(arrays))

    def compute(
        self, arrays: Sequence[Any], settings: dict[str, Any], half: np.dtype | None
    ) -> tuple[Any, Any]:
        """Value and gradients by the first kernel that supports the arrays, or by the rule.

        `half`: the 16-bit dtype of the first array that has one.
        """
        device = kind_of(arrays)
        if self.kernels and current_modes.get().fused:
            exact = self.kernel_takes_half or device != "cpu"
            for kernel in kernels_for(self, device):
                takes = kernel if half is None or exact else in_float32(kernel, half)
                found = takes(*arrays, **settings)
                if found is not None:
                    return found
        return self.rule_for(half, device)(*arrays, **settings)

    def rule_for(self, half: np.dtype | None, device: str) -> Callable:
        """The rule; for 16-bit arrays on a kind of device, it computes in float32 (see `half`)."""
        if half is None or self.exact_in_half or (self.exact_on_gpu and device != "cpu"):
            return self.rule
        return in_float32(self.rule, half, self.compares)

    def rebuild(self, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
        return self.run(arrays, settings)[0]

    def pull_tensors(
        self, inputs: list[Any], settings: dict[str, Any], needs: Sequence[bool], g: Any
    ) -> Sequence[Any]:
        """The gradients by the rule, which for Tensors returns gradient functions of Tensors."""
        arrays = [x.array for x in inputs if isinstance(x, Tensor)]
        _, gradients = self.rule_for(half_of(arrays), kind_of(arrays))(*inputs, **settings)
        if type(gradients) is tuple:
            return [f(g) if f and needed else None for f, needed in zip(gradients, needs, strict=True)]
        return gradients(g, needs)


class Derived(OpInfo):
    """A function that calls ops and has no rule."""


def derived(function: Callable | None = None, **about: Unpack[About]) -> Any:
    """Register a function that calls ops and has no rule; it accepts `axis` and explains errors as ops do.

    With `exact_in_half=False`, the default for minigrad's own functions, 16-bit tensors are cast to float32,
    and only the results are rounded. True, the default for users' functions, is for functions that only move
    elements or call one op (`__exact_in_half__ = True` sets it for a module). "gpu" is for functions made of
    matrix products, which a GPU and autocast compute in 16 bits.
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
    """Append the op's gradient formulas to the function's docstring, and return the function."""
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
