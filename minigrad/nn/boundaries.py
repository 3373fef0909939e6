"""Boundaries: identity operations on several tensors, whose gradients backward passes to one function.

A module's backward hooks use two of them, one around its inputs and one around its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.backward import Node
from ..core.higher_order import Recorded
from ..core.modes import no_grad
from ..core.tensor import Tensor, same_memory

Gradients = Sequence[Tensor | None]


def boundary(tensors: list[Tensor], pull: Callable[[Gradients], Gradients]) -> list[Tensor]:
    """Return the tensors as results of one node, whose gradients `pull` maps to those of the inputs.

    The gradient of a result that was not used is None.
    """

    def gradients(g: list[Any], needs: Sequence[bool]) -> list[Any]:
        with no_grad():
            found = pull([None if part is None else Tensor(part) for part in g])
        return [None if x is None else x.array for x in found]

    edges = [x.node or x for x in tensors]
    outs = tuple(map(same_memory, tensors))
    Node(Boundary(pull), {}, edges, [True] * len(edges), gradients, outs)
    return list(outs)


class Boundary(Recorded):
    """The `op` of a boundary's node."""

    name = public_name = "boundary"
    view = runs_user_code = True
    advice = gradient_advice = "Check the module's backward hooks."

    def __init__(self, pull: Callable[[Gradients], Gradients]) -> None:
        self.pull = pull

    def pull_tensors(self, inputs: list[Any], settings: dict, needs: Sequence[bool], g: Any) -> Gradients:
        return self.pull(g)

    def rebuild(self, arrays: list[Any], settings: dict) -> tuple:
        return tuple(arrays)
