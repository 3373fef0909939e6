"""The Jacobian of one op, computed row by row by its gradient functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.backward import Node
from ..core.devices import on_cpu, to_device_of

ELEMENTS = 64  # the most elements of a result
NUMBERS = 1024  # the most numbers in a Jacobian
TOTAL_NUMBERS = 200_000  # the most numbers in all Jacobians of a trace

# the modules of ops whose result elements each depend on the same elements of the inputs only
ELEMENTWISE = (
    "more.activations", "more.elementary", "more.specials", "core.arithmetic", "ops.arithmetic",
    "ops.comparisons",
    "ops.elementary", "ops.logic", "ops.rounding",
)  # fmt: skip


class Budget:
    """How many more numbers the Jacobians of a trace may have."""

    def __init__(self) -> None:
        self.left = TOTAL_NUMBERS

    def allows(self, numbers: int) -> bool:
        if numbers > self.left:
            return False
        self.left -= numbers
        return True


def jacobians(node: Node, like: np.ndarray, budget: Budget) -> dict[int, np.ndarray]:
    """Return d result / d input for each input whose Jacobian is small, by the input's number.

    A Jacobian is (elements of the result, elements of the input). Row i is the result of the gradient
    function for the i-th unit vector. `like` has the shape and dtype of the result.
    """
    if type(node.shape) is list or not 0 < like.size <= ELEMENTS or not hasattr(node.op, "rule"):
        return {}
    small = tuple(like.size * math.prod(getattr(edge, "shape", ())) <= NUMBERS for edge in node.edges)
    if not any(small):
        return {}
    found: dict[int, np.ndarray] = {}
    try:
        units = to_device_of(np.eye(like.size, dtype=like.dtype), like)
        rows = [_pull(node, unit.reshape(like.shape), small) for unit in units]
    except Exception:  # an error in a user's rule, which backward will report
        return found
    for place in range(len(node.edges)):
        parts = [row[place] for row in rows]
        if all(part is not None for part in parts):
            matrix = np.stack([np.asarray(on_cpu(part)).reshape(-1) for part in parts])
            if _is_elementwise(node):
                _clear(matrix)
            if matrix.size <= NUMBERS and budget.allows(matrix.size):
                matrix.flags.writeable = False
                found[place] = matrix
    return found


def _pull(node: Node, g: np.ndarray, wanted: Sequence[bool]) -> list[Any]:
    """Return the gradients of the wanted inputs for an upstream gradient g; None for other inputs."""
    with np.errstate(all="ignore"):
        if type(node.gradients) is tuple:
            return [f(g) if f and want else None for f, want in zip(node.gradients, wanted, strict=True)]
        needs = tuple(need and want for need, want in zip(node.needs, wanted, strict=True))
        return list(node.gradients(g, needs)) if any(needs) else [None] * len(needs)


def _is_elementwise(node: Node) -> bool:
    """Return whether each element of an op's result depends only on the same elements of its inputs."""
    module = getattr(getattr(node.op, "source", None), "__module__", "")
    return module.removeprefix("minigrad.") in ELEMENTWISE


def _clear(matrix: np.ndarray) -> None:
    """Set NaNs off the diagonal, which are 0 times a non-finite number, to 0."""
    if matrix.shape[0] == matrix.shape[1]:
        matrix[np.isnan(matrix) & ~np.eye(len(matrix), dtype=bool)] = 0


def is_diagonal(matrix: np.ndarray) -> bool:
    """Return whether each element of the result depends only on the same element of the input."""
    rows, columns = matrix.shape
    return rows == columns and not np.any(matrix[~np.eye(rows, dtype=bool)])
