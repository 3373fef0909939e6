"""A mistake in the user's terms: which op, which shapes, which axes clash, which line made each operand."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..devices import device_of
from ..errors import DeviceError, DtypeError, MinigradError, RangeError, ShapeError
from ..nodes import producer
from ..tensor import Tensor
from ..versions import arrays_in


def refuse_extra(op: Any, inputs: Sequence[Any]) -> NoReturn:
    names = ", ".join(op.settings) or "none"
    raise DtypeError(
        f"{op.name} takes {op.arity} tensors and the settings ({names}), got {len(inputs)} arguments.\n"
        f"Leave out the last."
    )


FOREIGN = (ValueError, TypeError, IndexError, AttributeError, ArithmeticError)  # what NumPy and Python raise


def explain(name: str, inputs: Sequence[Any], settings: dict[str, Any], error: Exception) -> NoReturn:
    """Say a NumPy error in the user's terms."""
    places = list(dict.fromkeys(map(device_of, arrays_in([_bare(x) for x in (*inputs, *settings.values())]))))
    if len(places) > 1:
        raise place(
            DeviceError(
                f"on different devices: {' and '.join(places)}.\n"
                f"Move all to one, x.to({places[0]!r}) or x.to({places[1]!r})."
            ),
            name,
            inputs,
            settings,
        ) from error
    kind: type[MinigradError] = ShapeError
    if isinstance(error, TypeError | AttributeError):
        kind = DtypeError
    elif isinstance(error, IndexError):
        kind = RangeError
    said = " ".join(str(error).split()).rstrip(".")
    raise place(kind(f"{said}.\n{_advice(kind, inputs, said)}"), name, inputs, settings) from error


def _bare(x: Any) -> Any:
    return x.array if isinstance(x, Tensor) else x


def place(error: MinigradError, name: str, inputs: Sequence[Any], settings: dict[str, Any]) -> MinigradError:
    """Add to one of our errors the op, its operands and where they came from; the function around an op
    adds its name."""
    what, _, remedy = str(error).partition("\n")
    if not error.placed:
        remedy += _origins(inputs)
        if not what.startswith(name):
            options = "".join(f", {k}={describe(v)}" for k, v in settings.items())
            what = f"{name}({', '.join(map(describe, inputs))}{options}): {what}"
    elif not what.startswith(name):
        what = f"{name}: {what}"
    error.args, error.placed = (f"{what}\n{remedy}",), True
    return error


def _origins(inputs: Sequence[Any]) -> str:
    """The lines that made the operands, where that is known."""
    said = ""
    for i, x in enumerate(inputs):
        node = producer(x.node) if isinstance(x, Tensor) else None
        while node is not None and node.op.casts:  # promotion's, not the user's
            node = node.edges[0] if type(node.edges[0]) is type(node) else None
        if node is not None:
            said += f" Operand {i} came from {node}."
    return said


def describe(x: Any) -> str:
    if isinstance(x, list | tuple) and any(isinstance(item, Tensor | np.ndarray) for item in x):
        shown = ", ".join(map(describe, x[:4])) + ", ..." * (len(x) > 4)
        return f"[{shown}]"
    return f"{x.dtype}{list(x.shape)}" if hasattr(x, "dtype") else " ".join(reprlib.repr(x).split())


def _advice(kind: type[MinigradError], inputs: Sequence[Any], said: str) -> str:
    """What to look at; where axes clash, which."""
    if kind is RangeError:
        if "of bounds" in said:
            return "Indices and axes count from 0, or from the end from -1."
        if any(word in said for word in ("id ", "class ", "none of", "axis")):
            return "Ids and classes count from 0; axes also from the end, from -1."
        return "Index with integers, slices, None, ..., lists of places, or a mask of the axis's length."
    if kind is DtypeError and "argument" in said:
        return "Look at the arguments that the function takes (help(...))."
    if kind is DtypeError:
        return "Look at what each argument is, and at its dtype."
    shapes = [x.shape for x in inputs if hasattr(x, "shape")]
    if len(shapes) == 2:
        for axis, (n, m) in enumerate(zip(reversed(shapes[0]), reversed(shapes[1]), strict=False), 1):
            if n != m and 1 not in (n, m):
                return f"Axis -{axis} has {n} elements in the first, {m} in the second; reshape or index one."
    return "Check the shapes and settings."
