"""Errors in the user's terms: which op, which shapes, which axes clash, which line made each operand."""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .backward import producer
from .closures import arrays_in
from .devices import device_of
from .errors import (
    DeviceError,
    DtypeError,
    MinigradError,
    OutOfMemoryError,
    RangeError,
    ShapeError,
    SignatureError,
    counted,
)
from .frames import is_library
from .tensor import Tensor
from .trees import leaves

FOREIGN_ERRORS = (  # what NumPy and Python raise
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, RecursionError, OSError,
    AssertionError, BufferError,
)  # fmt: skip


def raised_by_library(error: BaseException) -> bool:
    """Whether minigrad, or a package that it called, raised an error, rather than a user's function."""
    trace = error.__traceback__
    while trace is not None and is_library[trace.tb_frame.f_code.co_filename]:
        trace = trace.tb_next
    file = "<" if trace is None else trace.tb_frame.f_code.co_filename
    return file.startswith(PACKAGES) or file.endswith(".pyx")  # NumPy's Cython modules


_INSTALLED = Path(np.__file__).parents[1]
_PYTHON = Path(os.__file__).parent
PACKAGES = (  # where the packages that minigrad calls are installed
    "<",
    *[f"{_INSTALLED / name}{os.sep}" for name in ("numpy", "numba", "cupy", "safetensors", "ml_dtypes")],
    *[f"{_PYTHON / name}" for name in ("inspect", "contextlib", "functools", "pathlib")],
)


def raise_extra_arguments(name: str, function: Callable, count: int) -> NoReturn:
    raise SignatureError(f"{name}() got {counted(count, 'argument')}.\nIt takes {signature_text(function)}.")


def raise_unknown_arguments(name: str, unknown: Sequence[str], known: Iterable[str]) -> NoReturn:
    """Raise a SignatureError for unknown keyword arguments."""
    what = ", ".join(map(repr, unknown))
    takes = f"It takes {', '.join(known)}."
    if not {"size_average", "reduce"}.isdisjoint(unknown) and "reduction" in known:
        takes = 'Use reduction="mean", "sum" or "none", as PyTorch does since 2018.'
    if "out" in unknown:
        takes = f"Write `out = {name}(...)`, or write into a tensor: `mg.Tensor.copy_`."
    raise SignatureError(f"{name}() got an unexpected keyword argument {what}.\n{takes}")


def signature_of(function: Callable) -> inspect.Signature:
    """A function's signature without `self`."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)


def signature_text(function: Callable) -> str:
    """A function's signature without types."""
    signature = signature_of(function)
    # arrays before a `/` can be passed by name as well
    kinds = lambda p: p.POSITIONAL_OR_KEYWORD if p.kind is p.POSITIONAL_ONLY else p.kind
    declared = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    return str(signature.replace(parameters=[p.replace(annotation=p.empty, kind=kinds(p)) for p in declared]))


def raise_with_context(
    name: str,
    inputs: Sequence[Any],
    settings: dict[str, Any],
    error: Exception,
    function: Callable | None = None,
) -> NoReturn:
    """Re-raise an error of NumPy or Python as one of minigrad's, with the op, its operands and advice."""
    if isinstance(error.__cause__, MinigradError):  # NumPy wrapped one of minigrad's errors
        raise add_context(error.__cause__, name, inputs, settings) from None
    if type(error) is TypeError and function is not None:
        try:
            signature_of(function).bind(*inputs, **settings)
        except TypeError as mismatch:
            takes = signature_text(function)
            raise SignatureError(f"{name}(): {mismatch}.\nIt takes {takes}.") from None
    arrays = arrays_in([unwrap(x) for x in (*inputs, *settings.values())])
    places = list(dict.fromkeys(map(device_of, arrays)))
    kind: type[MinigradError] = ShapeError
    said = " ".join(str(error).split()).rstrip(".")
    if len(places) > 1:
        kind = DeviceError
        said = f"on different devices: {' and '.join(places)}"
        advice = f"Move all to one, x.to({places[0]!r}) or x.to({places[1]!r})."
    elif isinstance(error, TypeError | AttributeError):
        kind = DtypeError
        advice = _advice_on_types(inputs)
    elif isinstance(error, LookupError):
        kind = RangeError
        advice = (
            "Indices and axes count from 0, or from -1 at the end. Index with integers, slices, None, ..., "
            "lists of positions or masks."
        )
        if said in ("tuple index out of range", "list index out of range"):  # a rule read x.shape[dim]
            said, advice = _missing_axis((*inputs, *settings.values()))
    elif isinstance(error, MemoryError):
        kind = OutOfMemoryError
        advice = "Use smaller shapes."
    elif isinstance(error, RecursionError):
        said = "an argument contains itself, or is nested too deeply"
        advice = "Check the arguments."
    else:
        advice = _advice_on_shapes(inputs)
    raise add_context(kind(f"{said}.\n{advice}"), name, inputs, settings) from error


def unwrap(x: Any) -> Any:
    return x.array if isinstance(x, Tensor) else x


def add_context(
    error: MinigradError, name: str, inputs: Sequence[Any], settings: dict[str, Any]
) -> MinigradError:
    """Add the op, its operands and the lines that created them to an error's message, and return the error.

    If an inner op has added these already, only `name` is put in front.
    """
    what, _, remedy = str(error).partition("\n")
    if not error.has_context:
        remedy += _origins(inputs)
        if not what.startswith(name):
            passed = [*map(describe, inputs), *[f"{k}={describe(v)}" for k, v in settings.items()]]
            what = f"{name}({', '.join(passed)}): {what}"
    elif not what.startswith(name):
        what = f"{name}: {what}"
    error.args = (f"{what}\n{remedy}",)
    error.has_context = True
    return error


def _origins(inputs: Sequence[Any]) -> str:
    """The lines that created the operands, where known."""
    said = ""
    for i, x in enumerate(inputs):
        node = producer(x.node) if isinstance(x, Tensor) else None
        while node is not None and node.op.casts:  # a cast may be due to promotion
            node = node.edges[0] if type(node.edges[0]) is type(node) else None
        if node is not None:
            said += f" Operand {i} came from {node}."
    return said


def describe(x: Any, depth: int = 4) -> str:
    if depth and isinstance(x, list | tuple) and any(isinstance(item, Tensor | np.ndarray) for item in x):
        shown = ", ".join(describe(item, depth - 1) for item in x[:4]) + ", ..." * (len(x) > 4)
        return f"[{shown}]"
    # the class Tensor has these attributes, too
    is_array = hasattr(x, "dtype") and isinstance(getattr(x, "shape", None), tuple)
    return f"{x.dtype}{list(x.shape)}" if is_array else " ".join(reprlib.repr(x).split())


def _missing_axis(arguments: Sequence[Any]) -> tuple[str, str]:
    shapes = [tuple(x.shape) for x in leaves(arguments) if hasattr(x, "shape")]
    if not shapes:
        return "no tensors were passed", "Pass at least one."
    said = f"the tensor of shape {min(shapes, key=len)} does not have the required axis"
    return said, "Add an axis (x.unsqueeze(0), x.reshape(1, -1)), or choose another one."


def _advice_on_types(inputs: Sequence[Any]) -> str:
    if any(isinstance(x, list | tuple) for x in inputs):
        return "Convert it with mg.tensor(...), which stacks lists of tensors and keeps their gradients."
    if any(x is None for x in inputs):
        return (
            "None is not a tensor. A `.grad` is None before backward(), after zero_grad(), and for a tensor "
            "that is not a leaf."
        )
    return "Look at the type and dtype of each argument."


def _advice_on_shapes(inputs: Sequence[Any]) -> str:
    """Advice that names the axis, the last if there are several, on which two shapes do not broadcast."""
    shapes = [x.shape for x in inputs if hasattr(x, "shape")]
    if len(shapes) == 2:
        for axis, (n, m) in enumerate(zip(reversed(shapes[0]), reversed(shapes[1]), strict=False), 1):
            if n != m and 1 not in (n, m):
                held = counted(n, "element")
                return f"Axis -{axis} has {held} in the first, {m} in the second; reshape or index one."
    return "Check the shapes and settings."
