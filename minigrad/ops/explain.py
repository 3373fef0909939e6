"""A mistake in the user's terms: which op, which shapes, which axes clash, which line made each operand."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import autograd
from ..errors import DtypeError, MinigradError, RangeError, ShapeError
from ..tensor import Tensor


def refuse_extra(op: Any, inputs: Sequence[Any]) -> NoReturn:
    names = ", ".join(op.settings) or "none"
    raise DtypeError(
        f"{op.name} takes {op.arity} tensors and the settings ({names}), got {len(inputs)} arguments.\n"
        f"Leave out the last."
    )


FOREIGN = (ValueError, TypeError, IndexError, AttributeError, ArithmeticError)  # what NumPy and Python raise


def explain(name: str, inputs: Sequence[Any], settings: dict[str, Any], error: Exception) -> NoReturn:
    """Say a NumPy error in the user's terms."""
    operands = ", ".join(describe(x) for x in inputs)
    given = "".join(f", {k}={describe(v)}" for k, v in settings.items())
    kind: type[MinigradError] = ShapeError
    if isinstance(error, TypeError | AttributeError):
        kind = DtypeError
    elif isinstance(error, IndexError):
        kind = RangeError
    origins = "".join(
        f" Operand {i} came from {autograd.maker(x.node)}."
        for i, x in enumerate(inputs)
        if isinstance(x, Tensor) and x.node is not None
    )
    said = " ".join(str(error).split()).rstrip(".")
    raise kind(f"{name}({operands}{given}): {said}.\n{_advice(kind, inputs)}{origins}") from error


def describe(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if hasattr(x, "shape") else " ".join(reprlib.repr(x).split())


def _advice(kind: type[MinigradError], inputs: Sequence[Any]) -> str:
    """What to look at; where axes clash, which."""
    if kind is RangeError:
        return "Indices count from 0, ids and classes too; axes also from the end, from -1."
    if kind is DtypeError:
        return "Look at what each argument is, and at its dtype."
    shapes = [x.shape for x in inputs if hasattr(x, "shape")]
    if len(shapes) == 2:
        for axis, (n, m) in enumerate(zip(reversed(shapes[0]), reversed(shapes[1]), strict=False), 1):
            if n != m and 1 not in (n, m):
                return f"Axis -{axis} has {n} elements in the first, {m} in the second; reshape or index one."
    return "Check the shapes and settings."
