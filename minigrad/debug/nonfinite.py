"""Functions that find and describe elements that are not finite, for `detect_anomaly` and `why_nan`.

An operation *produces* a NaN if its result has one and none of its inputs does. It produces an infinity if
its result has one and all inputs (arrays, numbers and settings) are finite. So neither filling a mask with
-inf nor passing on a NaN counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..core.closures import arrays_in
from ..core.devices import array_module, is_array, on_cpu
from ..core.dtypes import is_floating
from ..core.errors import NonFiniteError
from ..core.modes import current_scope
from ..graph.tape import operand_names

Index = tuple[int, ...]


def array_of(x: Any) -> Any:
    """Return the array of a Tensor, and anything else unchanged."""
    return x if is_array(x) or isinstance(x, np.generic) else getattr(x, "array", x)


def nonfinite(x: Any) -> Any:
    """Return a mask of the NaNs and infinities in an array."""
    return ~np.isfinite(on_cpu(x))


def contains(test: Callable[[Any], Any], x: Any) -> bool:
    """Return whether `x`, a float or a floating-point array, has a number that passes the test."""
    if isinstance(x, float):
        return bool(test(np.float64(x)))
    return hasattr(x, "dtype") and is_floating(x.dtype) and bool(test(on_cpu(array_of(x))).any())


def values_in(settings: Any) -> list[Any]:
    """Return the arrays and floats in an op's settings."""

    def floats(thing: Any) -> list[float]:
        if isinstance(thing, float):
            return [thing]
        if isinstance(thing, dict):
            thing = tuple(thing.values())
        return [x for item in thing for x in floats(item)] if isinstance(thing, tuple | list) else []

    return [*arrays_in(settings), *floats(settings)]


def first_index(mask: Any) -> Index:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), np.shape(mask)))


def first_produced(result: np.ndarray, inputs: list[Any], check_inf: bool = True) -> Index | None:
    """Return the index of the first NaN or infinity in `result` that does not come from the inputs."""
    if not is_floating(result.dtype) or array_module(result).isfinite(result).all():
        return None
    result = on_cpu(result)
    found = np.zeros(result.shape, bool)
    if not any(contains(np.isnan, x) for x in inputs):
        found |= np.isnan(result)
    if check_inf and not any(contains(nonfinite, x) for x in inputs):
        found |= np.isinf(result)
    return first_index(found) if found.any() else None


def nonfinite_error(message: str) -> NonFiniteError:
    """Make a NonFiniteError with the modules whose forward is running, the innermost first."""
    error = NonFiniteError(message)
    scope = current_scope.get()
    while scope is not None:
        if callable(scope.part):
            error.modules = (*error.modules, scope.part())
        scope = scope.parent
    return error


def first_bad(array: np.ndarray) -> Index:
    """Return the index of the first NaN or, without a NaN, the first infinity."""
    nan = np.isnan(array)
    return first_index(nan if nan.any() else nonfinite(array))


# ---------------------------------------------------------------- descriptions


def describe_element(array: Any, index: Index) -> str:
    """Describe an element: `nan at [0, 2] (3 of 12 elements are not finite)`."""
    array = np.asarray(on_cpu(array))
    if not array.ndim:
        return f"{float(array):g}"
    bad = int(nonfinite(array).sum())
    return f"{float(array[index]):g} at {list(index)} ({bad} of {array.size} elements are not finite)"


def describe_array(array: Any) -> str:
    """Describe an array: `float32[2, 3]`."""
    return f"{array.dtype}{list(array.shape)}"


def describe_result(array: Any, index: Index, number: int | None) -> str:
    """Describe an element of an op's result, or of one of its results."""
    which = "its result" if number is None else f"its result {number}"
    return f"{describe_element(array, index)} of {which}, {describe_array(array)}"


def describe_inputs(op: Any, inputs: Iterable[Any], index: Index, result: Any) -> list[str]:
    """Describe the inputs of an op at an element of its result, or of the gradient of an input."""
    inputs = list(inputs)
    return [
        describe_input(op, name, x, index, result)
        for name, x in zip(operand_names(op, len(inputs)), inputs, strict=True)
        if x is not None
    ]


def describe_input(op: Any, name: str, x: Any, index: Index, result: Any) -> str:
    """Describe the element of `x` that was broadcast to an element of the result.

    If there is no such element, as in a matrix product, describe the array.
    """
    x = np.asarray(on_cpu(array_of(x)))
    with contextlib.suppress(ValueError):
        if op.family != "matrix" and x.ndim:
            return f"{name} = {np.broadcast_to(x, result.shape)[index].item():.6g}"
    if not x.ndim:
        return f"{name} = {x.item():.6g}"
    if is_floating(x.dtype) and not np.isfinite(x).all():
        return f"{name}, {describe_array(x)}, has {int(nonfinite(x).sum())} elements that are not finite"
    span = f" from {x.min().item():.6g} to {x.max().item():.6g}" if x.size else ""
    return f"{name}, {describe_array(x)}, is finite,{span}"


def describe_upstream(op: Any, upstream: Iterable[Any], index: Index, r: Any) -> list[str]:
    return [describe_input(op, "the upstream gradient g", g, index, r) for g in upstream]


def advice_for(op: Any) -> str:
    """Return the advice on a result that is not finite."""
    return op.advice or f"Keep the inputs where {op.public_name} is finite (clamp, add an eps)."


def gradient_advice_for(op: Any, operand: str, name: str) -> str:
    """Return the advice on a gradient that is not finite."""
    return (
        f"Keep {operand} away from where the derivative is infinite: choose safe values (where, clamp) "
        f"before {name}, not after it. {op.gradient_advice}".rstrip()
    )
