"""What the tape holds: one Node for each operation.

A node's *edges* are its inputs: the Node that made the input, or the input itself where no node did (a leaf
tensor or a constant). The arrays that a node needs for its backward live in its gradient functions' closures
and nowhere else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import GraphError
from ..versions import Cell, record_change, where
from .modes import Scope, grad_mode

if TYPE_CHECKING:
    from ..tensor import Tensor

creation = itertools.count()  # numbers nodes in the order in which they were made


class Node:
    """One recorded operation: `op` applied to `edges` with `settings`.

    `gradients` is a tuple of functions g -> gradient, one an edge (None where none is needed), or one
    function (g, needs) -> gradients; None once freed. `output` refers weakly to the tensor that it made.
    """

    __slots__ = (
        "__weakref__", "cell", "clock", "edges", "gradients", "hooks", "needs", "number", "op", "output",
        "scope", "settings", "shape", "source",
    )  # fmt: skip

    op: Any
    settings: dict[str, Any]
    edges: list[Any]
    gradients: Any
    needs: list[bool]
    number: int
    output: Any
    shape: Any
    scope: Scope | None
    source: tuple[CodeType, int]
    clock: int
    cell: Cell | None
    hooks: dict[int, Callable] | None

    def __repr__(self) -> str:
        return f"{self.op.name} (recorded at {where(self.source)})"


class Output:
    """The edge of one result of an op with several: `node`'s result number `index`."""

    __slots__ = ("cell", "hooks", "index", "node", "shape")

    def __init__(self, node: Node, index: int, shape: tuple[int, ...], cell: Cell) -> None:
        self.node, self.index, self.shape, self.cell = node, index, shape, cell
        self.hooks: dict[int, Callable] | None = None


def maker(edge: Any) -> Any:
    """The node behind an edge, or the leaf itself."""
    return edge.node if type(edge) is Output else edge


def is_edge(thing: Any) -> bool:
    """Whether a gradient can flow to `thing`: a node, a result of one, or a leaf that requires a gradient."""
    return type(thing) is Node or type(thing) is Output or getattr(thing, "requires_grad", False)


def alive(edge: Any) -> Any:
    """The tensor (or constant) that an edge stands for, or None where it has been let go."""
    if type(edge) is Node:
        return edge.output()
    if type(edge) is Output:
        return edge.node.output[edge.index]()
    return edge


def refuse_freed(node: Node) -> NoReturn:
    raise GraphError(
        f"backward came a second time to {node}, which was freed the first time.\n"
        f"Pass retain_graph=True to the first backward(), or compute the loss anew."
    )


def refuse_in_graph(tensor: Tensor, name: str) -> None:
    """Refuse to change `tensor` in place by `name` where a graph is being recorded."""
    if tensor.requires_grad and grad_mode.enabled:
        raise GraphError(
            f"{name} would change a tensor of shape {tensor.shape} that requires a gradient.\n"
            f"Write it out of place (x = x + y), or wrap the change in `with mg.no_grad():`."
        )


def mutate(tensor: Tensor, name: str, source: tuple[CodeType, int] | None = None) -> None:
    """Announce that `name` is about to change `tensor` in place; refused where a graph is being recorded."""
    refuse_in_graph(tensor, name)
    record_change(tensor, name, source)
