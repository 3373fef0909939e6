"""What happens when an op is called: arrays and edges in, the rule, a node out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, update_wrapper
from typing import TYPE_CHECKING, Any

import numpy as np

from .argument_checks import Checks
from .arguments import accept_aliases, autocast, bind, operands, prepare
from .devices import as_array, loaded
from .dtypes import float32
from .error_context import FOREIGN_ERRORS, add_context, raise_with_context
from .errors import MinigradError
from .modes import modes, named_scope
from .node import Node, needed_only
from .registry import ops
from .tensor import Tensor, new_tensor
from .versions import share_version

if TYPE_CHECKING:
    from .op import Op


def make_callable(op: Op, documented: Callable) -> Callable:
    """The function that users call, with the name, signature and docstring of `documented`."""
    checks = Checks(documented)
    takes_numbers = op.promotes is True
    takes_constants = op.key in ("add", "subtract", "multiply", "true_divide")
    readable = accept_aliases(op.definition, in_float32=not op.kernel_takes_half) if op.definition else None

    def call(*inputs: Any, **settings: Any) -> Any:
        if settings or len(inputs) > op.arity:
            inputs, settings = bind(op, inputs, settings, checks)
        mode = modes.__dict__  # this thread's modes, looked up once
        if mode["autocast_dtype"] is not None:
            inputs = autocast(op, inputs)
        if readable is not None and not mode["fused"]:
            with named_scope(op.key):
                return readable(*prepare(op, inputs, promotes=()), **settings)

        # 1. arrays and edges in
        records = mode["grad_enabled"]
        arrays = []
        edges = []
        needs = []
        half = None
        is_float32 = not loaded
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
                is_float32 = is_float32 and array.dtype is float32
            else:
                arrays.append(constant(x) if takes_constants and type(x) is float and x else x)
                edges.append(x)
                needs.append(False)
                is_float32 = is_float32 and (x is None or (takes_numbers and type(x) in (float, int)))
        if not (is_float32 and has_tensor):  # other dtypes and devices, lists, arrays
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
            value = tuple(map(as_array, value)) if type(value) is tuple else as_array(value)
        for observer in mode["observers"]:
            observer.on_result(op, arrays, settings, value, gradients)

        # 3. a node out
        result = tuple(map(Tensor, value)) if type(value) is tuple else new_tensor(value)
        if records and gradients is not None and True in needs:
            if False in needs and type(gradients) is tuple:
                gradients = needed_only(gradients, needs)
            Node(op, settings, edges, needs, gradients, result)  # which the result refers to
        if op.view:
            share_versions(tensors[0], result, op, settings)
        return result

    update_wrapper(call, documented)
    call.op = op  # type: ignore[attr-defined]
    op.call = call
    ops[op.key] = op
    return call


@lru_cache(256)
def constant(x: float) -> np.ndarray:
    """A number (not 0, which equals -0) as a float32 array: NumPy computes twice as fast with it."""
    return np.array(x, float32)


def share_versions(base: Tensor, result: Any, op: Op, settings: dict[str, Any]) -> None:
    """Let the result of a view, or each of several, share the version counter of its base."""
    if type(result) is not tuple:
        share_version(base, result, op, settings)
        return
    for i, view in enumerate(result):
        share_version(base, view, op, settings, i)
