"""Find the operation that produced a NaN or an infinity.

An operation *produces* a NaN if none of its inputs has one, and an infinity if all of its inputs (arrays,
numbers and settings) are finite. A mask filled with -inf on purpose does not count, nor do values that an
operation only passes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.closures import arrays_in
from ..core.devices import array_module, as_array, is_array, on_cpu
from ..core.dtypes import is_floating
from ..core.errors import NonFiniteError
from ..core.modes import modes, no_grad
from ..core.observers import Observer, observe
from .module import Module

Index = tuple[int, ...]


def array_of(x: Any) -> Any:
    """Return the array of a Tensor, and anything else unchanged."""
    return x if is_array(x) or isinstance(x, np.generic) else getattr(x, "array", x)


def nonfinite(x: Any) -> Any:
    """Return a mask of the NaNs and infinities in an array."""
    return ~np.isfinite(on_cpu(x))


def contains(test: Callable[[Any], Any], x: Any) -> bool:
    """Return whether `x` is a float, or a floating-point array, with a number that passes the test."""
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
    scope = modes.scope
    while scope is not None:
        if callable(scope.part):
            error.modules = (*error.modules, scope.part())
        scope = scope.parent
    return error


class _Finder(Observer):
    """Raises an error at the first operation that produces a NaN or an infinity."""

    def on_result(
        self, op: Any, arrays: Sequence[Any], settings: dict[str, Any], value: Any, gradients: Any
    ) -> None:
        inputs = [*arrays, *values_in(settings)]
        for result in value if type(value) is tuple else (value,):
            if first_produced(as_array(result), inputs) is not None:
                raise nonfinite_error(f"{op.name} produced a NaN or an infinity.")


def first_nonfinite(model: Module, forward: Callable[[], Any]) -> str | None:
    """Run `forward()` and return the path of the first module with a NaN or infinity in it.

    Parameters are checked first, then operations. Returns "" for an operation outside all modules, and None
    if everything is finite.
    """
    for path, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return path.rpartition(".")[0]
    paths = {id(module): path for path, module in model.named_modules()}
    try:
        with no_grad(), np.errstate(all="ignore"), observe(_Finder()):
            forward()
    except NonFiniteError as error:
        return next((paths[id(m)] for m in error.modules if id(m) in paths), "")
    return None
