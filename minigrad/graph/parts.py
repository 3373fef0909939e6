"""The parts of a fused op: the ops that its readable definition calls, or that its formula names.

They are read from the definition's code and docstring, without running it. With them, a search for softmax
finds attention, although softmax has no box.
"""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from ..core.registry import registry

NAMED = ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD")  # instructions that load a function or method
OPERATORS = {"@": "matmul"}  # other operators may have no tensors as operands


@cache
def parts_of(op: Any) -> tuple[str, ...]:
    """Return the names of the ops that a composite op consists of, recursively; () for other ops."""
    definition = getattr(op, "definition", None)
    if definition is None:
        return ()
    found: dict[str, None] = {}
    for name in (*_names_in(definition.__doc__ or ""), *_names_called_by(definition)):
        if name in registry and name != op.name:
            found |= dict.fromkeys((name, *parts_of(registry[name])))
    found.pop(op.name, None)
    return tuple(found)


def _names_in(text: str) -> list[str]:
    """Return the function names in a formula: `softmax` in "softmax(scale Q Kᵀ) V"."""
    return re.findall(r"\w+(?=\()", text)


def _names_called_by(definition: Any) -> Iterator[str]:
    for instruction in dis.get_instructions(inspect.unwrap(definition)):
        if instruction.opname in NAMED:
            yield str(instruction.argval)
        elif instruction.opname == "BINARY_OP" and instruction.argrepr in OPERATORS:
            yield OPERATORS[instruction.argrepr]
