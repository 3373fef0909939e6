"""Errors in the user's terms: which op, which shapes, which axes clash, which line made each operand."""

from __future__ import annotations

import inspect
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

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
from .node import producer
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


def signature_text(function: Callable) -> str:
    """A function's signature without types."""
    signature = inspect.signature(function)
    kinds = lambda p: p.POSITIONAL_OR_KEYWORD if p.kind is p.POSITIONAL_ONLY else p.kind  # by name, too
    declared = [p for p in signature.parameters.values() if p.name != "self" and p.kind is not p.VAR_KEYWORD]
    shown = [p.replace(annotation=p.empty, kind=kinds(p)) for p in declared]
    return str(signature.replace(parameters=shown, return_annotation=signature.empty))


def raise_with_context(
    name: str,
    inputs: Sequence[Any],
    settings: dict[str, Any],
    error: Exception,
    function: Callable | None = None,
) -> NoReturn:
    """Raise an error of NumPy or Python in the user's terms."""
    if isinstance(error.__cause__, MinigradError):  # NumPy wrapped one of ours
        raise add_context(error.__cause__, name, inputs, settings) from None
    said = " ".join(str(error).split()).rstrip(".")
    if type(error) is TypeError and is_signature_error(said):
        callee = said.partition("()")[0]
        if "." in callee and function is not None and callee.rpartition(".")[2] != function.__name__:
            raise SignatureError(
                f"{name}: {said}.\nThe library calls {callee}: an overriding method must take the "
                f"same arguments."
            ) from None
        takes = f"It takes {signature_text(function)}." if function else "Look at help(...)."
        said = re.sub(r"^\S*\(\)", "", said).strip()
        raise SignatureError(f"{name}() {said}.\n{takes}") from None
    if other := re.match("'(list|tuple|dict|set|str|int|float|bool)' object has no attribute", said):
        said = f"expected a tensor, got {'an' if other[1] == 'int' else 'a'} {other[1]}"
    arrays = arrays_in([unwrap(x) for x in (*inputs, *settings.values())])
    places = list(dict.fromkeys(map(device_of, arrays)))
    if len(places) > 1:
        raise add_context(
            DeviceError(
                f"on different devices: {' and '.join(places)}.\n"
                f"Move all to one, x.to({places[0]!r}) or x.to({places[1]!r})."
            ),
            name,
            inputs,
            settings,
        ) from error
    if isinstance(error, IndexError) and said in ("tuple index out of range", "list index out of range"):
        said = _missing_axis((*inputs, *settings.values()))  # a rule read x.shape[dim]
    kind: type[MinigradError] = ShapeError
    if isinstance(error, TypeError | AttributeError):
        kind = DtypeError
    elif isinstance(error, LookupError):
        kind = RangeError
    elif isinstance(error, MemoryError):
        kind = OutOfMemoryError
    elif isinstance(error, RecursionError):
        said = "an argument contains itself, or is nested too deeply"
    raise add_context(kind(f"{said}.\n{_advice(kind, inputs, said)}"), name, inputs, settings) from error


def _missing_axis(arguments: Sequence[Any]) -> str:
    shapes = [tuple(x.shape) for x in leaves(arguments) if hasattr(x, "shape")]
    if not shapes:
        return "no tensors were passed"
    fewest = min(shapes, key=len)
    return f"the tensor of shape {fewest} does not have the required axis"


def is_signature_error(said: str) -> bool:
    """Whether Python rejected the arguments of a call."""
    return bool(
        re.search(
            r"unexpected keyword|required (positional|keyword)|positional argument|multiple values", said
        )
    )


def unwrap(x: Any) -> Any:
    return x.array if isinstance(x, Tensor) else x


def add_context(
    error: MinigradError, name: str, inputs: Sequence[Any], settings: dict[str, Any]
) -> MinigradError:
    """Add the op, its operands and their origins to an error; an enclosing function adds its name."""
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
        while node is not None and node.op.casts:  # from promotion, not the user
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


def _advice(kind: type[MinigradError], inputs: Sequence[Any], said: str) -> str:
    """Advice: what to look at, or which axes clash."""
    if kind is RangeError:
        if "of bounds" in said:
            return "Indices and axes count from 0, or from -1 at the end."
        if said == "no tensors were passed":
            return "Pass at least one."
        if "required axis" in said:
            return "Add an axis (x.unsqueeze(0), x.reshape(1, -1)), or choose another one."
        if "axis" in said:
            return "Axes count from 0, or from -1 at the end."
        return "Index with integers, slices, None, ..., lists of positions, or a mask of the axis's length."
    if kind is OutOfMemoryError:
        return "Use smaller shapes."
    if said.startswith("expected a tensor, got a") or (
        kind is DtypeError and any(isinstance(x, list | tuple) for x in inputs)
    ):
        return "Convert it with mg.tensor(...), which stacks lists of tensors and keeps their gradients."
    if kind is DtypeError and any(x is None for x in inputs):
        return (
            "None is not a tensor. A `.grad` is None before backward(), after zero_grad(), and for a tensor "
            "that is not a leaf."
        )
    if kind is DtypeError:
        return "Look at the type and dtype of each argument."
    shapes = [x.shape for x in inputs if hasattr(x, "shape")]
    if len(shapes) == 2:
        for axis, (n, m) in enumerate(zip(reversed(shapes[0]), reversed(shapes[1]), strict=False), 1):
            if n != m and 1 not in (n, m):
                held = counted(n, "element")
                return f"Axis -{axis} has {held} in the first, {m} in the second; reshape or index one."
    return "Check the shapes and settings."
