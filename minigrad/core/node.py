"""The graph that forward computation records: one Node for each operation.

A node's *edges* are its inputs: the Node that made the input, or the input itself where no node did (a leaf
tensor or a constant). The arrays that a node needs for its backward are held by its gradient functions'
closures; the edges of leaves and constants hold those tensors, too.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from .errors import GraphError
from .modes import modes
from .versions import VersionCounter, caller, modifications, where

RETAINS_GRAD = sys.maxsize  # the number of retain_grad's hook, which runs after all others

node_numbers = itertools.count()  # nodes are numbered in the order in which they are made


class Node:
    """One recorded operation: `op` applied to `edges` with `settings`, called at `source`.

    `gradients` is a tuple of functions g -> gradient, one for each edge (None where none is needed), or one
    function (g, needs) -> gradients; None once freed. `shape` is the shape of the result, or a list of the
    shapes of several results; so is `version`. `output` refers weakly to the tensor, or each, that it made.
    """

    __slots__ = (
        "__weakref__", "edges", "gradients", "hooks", "needs", "number", "op", "output", "recorded_at",
        "scope", "settings", "shape", "source", "version",
    )  # fmt: skip

    def __init__(
        self, op: Any, settings: dict[str, Any], edges: Sequence[Any], needs: Sequence[bool], gradients: Any
    ) -> None:
        self.op, self.settings = op, settings
        self.edges, self.needs, self.gradients = edges, needs, gradients
        self.number = next(node_numbers)
        self.source = caller()
        self.scope = modes.scope
        self.recorded_at = modifications.count
        self.shape: Any = None
        self.output: Any = None
        self.version: Any = None
        self.hooks: dict[int, Callable] | None = None

    def free(self) -> None:
        """Let go of what backward needed."""
        self.edges, self.gradients = (), None

    def __repr__(self) -> str:
        return f"{self.op.name} (recorded at {where(self.source)})"


class Output:
    """The edge of one result of an op with several: `node`'s result number `index`."""

    __slots__ = ("hooks", "index", "node", "shape", "version")

    def __init__(self, node: Node, index: int, shape: tuple[int, ...], version: VersionCounter) -> None:
        self.node, self.index, self.shape, self.version = node, index, shape, version
        self.hooks: dict[int, Callable] | None = None


def producer(edge: Any) -> Any:
    """The node that an edge refers to, or the leaf itself."""
    return edge.node if type(edge) is Output else edge


def shape_of(edge: Any) -> tuple[int, ...]:
    """The shape of what an edge refers to."""
    return edge.shape if type(edge) is Node or type(edge) is Output else edge.array.shape


def requires_grad(edge: Any) -> bool:
    """Whether a gradient flows to `edge`: a node, a result of one, or a leaf that requires a gradient."""
    return type(edge) is Node or type(edge) is Output or getattr(edge, "requires_grad", False)


def tensor_of(edge: Any) -> Any:
    """The tensor (or constant) that an edge refers to, or None if it no longer exists."""
    if type(edge) is Node:
        return edge.output()
    if type(edge) is Output:
        return edge.node.output[edge.index]()
    return edge


def set_output(edge: Any, tensor: Any) -> None:
    """Let an edge refer (weakly) to its tensor."""
    if type(edge) is Output:
        edge.node.output[edge.index] = weakref.ref(tensor)
    else:
        edge.output = weakref.ref(tensor)


def refuse_freed(node: Node) -> NoReturn:
    raise GraphError(
        f"backward reached {node} a second time, but the first backward freed it.\n"
        f"Compute the loss again for each backward(), and .detach() a state that is carried over from the "
        f"step before (h = h.detach()). To walk the same graph twice, pass retain_graph=True to the first."
    )
