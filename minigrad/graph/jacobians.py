"""The local derivative of one op as numbers: its Jacobian, pulled out of its gradient functions by rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import Node

ELEMENTS = 64  # of a result, at most
NUMBERS = 1024  # of a Jacobian, at most
ALTOGETHER = 200_000  # numbers in a trace


class Budget:
    """How many more numbers a trace may hold."""

    def __init__(self) -> None:
        self.left = ALTOGETHER

    def allows(self, numbers: int) -> bool:
        self.left -= numbers if numbers <= self.left else 0
        return numbers <= self.left


def jacobians(node: Node, like: np.ndarray, budget: Budget) -> dict[int, np.ndarray]:
    """For each input of a node with one small result: d result / d input, (elements, elements of the input).

    Row i is the gradient function's answer to the i-th unit vector. `like` has the result's shape and dtype.
    """
    if type(node.shape) is not tuple or not 0 < like.size <= ELEMENTS or not hasattr(node.op, "rule"):
        return {}
    rows = [_pull(node, unit.reshape(like.shape)) for unit in np.eye(like.size, dtype=like.dtype)]
    found = {}
    for place in range(len(node.edges)):
        parts = [row[place] for row in rows]
        if all(part is not None for part in parts):
            matrix = np.stack([np.asarray(part).reshape(-1) for part in parts])
            if matrix.size <= NUMBERS and budget.allows(matrix.size):
                matrix.flags.writeable = False
                found[place] = matrix
    return found


def _pull(node: Node, g: np.ndarray) -> list[Any]:
    with np.errstate(all="ignore"):
        if type(node.gradients) is tuple:
            return [None if f is None else f(g) for f in node.gradients]
        return list(node.gradients(g, node.needs))


def is_diagonal(matrix: np.ndarray) -> bool:
    """Whether each element of the result depends on its own element of the input alone."""
    rows, columns = matrix.shape
    return rows == columns and not np.any(matrix[~np.eye(rows, dtype=bool)])
