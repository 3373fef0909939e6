"""The graph that the forward pass records: one Node per operation.

A node's *edges* are its inputs, in the order of its op's arrays. A gradient flows back along an edge to what
the edge refers to, which is one of these:

    Node          the result of an operation with one result
    ResultEdge    one result of an operation with several
    Tensor        a leaf: no operation made it. A gradient flows to it if it requires one.
    a number      a constant, or None where an array was left out. No gradient flows to it.

So the edge to a tensor x is `x.node or x`. The functions below ask an edge what it refers to. The arrays that
a node needs for its backward are held by its gradient functions' closures; edges hold leaves and constants.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .dtypes import is_floating
from .errors import GraphError
from .frames import caller, where
from .modes import modes
from .versions import VersionCounter, modifications, version_of

if TYPE_CHECKING:
    from .tensor import Tensor

RETAINS_GRAD = sys.maxsize  # the number of retain_grad's hook, which runs after all others

node_numbers = itertools.count()  # nodes are numbered in the order in which they are made


class Recorded:
    """The base class of a node's `op`: an `Op`, or a checkpoint or boundary that runs a user's function.

    First derivatives do not use it, as the node holds its gradient functions. Higher derivatives call the two
    methods. The attributes say how it is drawn and described, see `About`.
    """

    name: str
    public_name: str
    runs_user_code = False  # observers see it when it runs again
    view = False
    casts = False
    definition: Callable | None = None
    samples: Any = None
    flops: Any = None
    latex: tuple[str | None, ...] = ()
    family = "other"
    sign = advice = gradient_advice = ""

    def pull_tensors(
        self, inputs: list[Any], settings: dict[str, Any], needs: Sequence[bool], g: Any
    ) -> Sequence[Any]:
        """The gradients of the inputs, as Tensors with a graph."""
        raise NotImplementedError

    def rebuild(self, arrays: list[Any], settings: dict[str, Any]) -> Any:
        """Recompute the result (a tuple if there are several) from `arrays`, when it no longer exists."""
        raise NotImplementedError


class Node:
    """One recorded operation: `op` applied to `edges` with `settings`, called at `source`.

    `gradients` is a tuple of functions g -> gradient, one for each edge (None where none is needed), or one
    function (g, needs) -> gradients; None once freed. `shape`, `version` and `result` (a weak reference to
    the tensor) describe its result; each is a list if there are several results.
    """

    shape: Any
    result: Any
    version: Any

    __slots__ = (
        "__weakref__", "edges", "gradients", "hooks", "needs", "number", "op", "recorded_at", "result",
        "scope", "settings", "shape", "source", "version",
    )  # fmt: skip

    def __init__(
        self,
        op: Recorded,
        settings: dict[str, Any],
        edges: Sequence[Any],
        needs: Sequence[bool],
        gradients: Any,
        result: Tensor | tuple[Tensor, ...],
    ) -> None:
        self.op: Any = op
        self.settings = settings
        self.edges = edges
        self.needs = needs
        self.gradients = gradients
        self.number = next(node_numbers)
        self.source = caller(above=3)  # skips this method and the op's call
        self.scope = modes.scope
        self.recorded_at = modifications.count
        self.hooks: dict[int, Callable] | None = None
        if isinstance(result, tuple):
            self._attach_all(result)
            return
        result._requires_grad = True
        result.node = self
        self.shape = result.array.shape
        self.result = weakref.ref(result)
        self.version = result.version

    def _attach_all(self, results: Sequence[Tensor]) -> None:
        """Make this the node of several results; integer results have no gradient."""
        self.shape = [x.shape for x in results]
        self.result = [weakref.ref(x) for x in results]
        self.version = [version_of(x) for x in results]
        for i, x in enumerate(results):
            if is_floating(x.dtype):
                x._requires_grad = True
                x.node = ResultEdge(self, i)

    def __repr__(self) -> str:
        return f"{self.op.name} (recorded at {where(self.source)})"


class ResultEdge:
    """The edge to result number `index` of a node with several results."""

    __slots__ = ("hooks", "index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index
        self.hooks: dict[int, Callable] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape[self.index]

    @property
    def version(self) -> VersionCounter:
        return self.node.version[self.index]

    @version.setter
    def version(self, version: VersionCounter) -> None:
        self.node.version[self.index] = version


def needed_only(gradients: tuple, needs: Sequence[bool]) -> tuple:
    """The gradient functions that are needed; the memory of the others can be freed."""
    kept = list(gradients)
    for i, needed in enumerate(needs):
        if not needed:
            kept[i] = None
    return tuple(kept)


def producer(edge: Any) -> Any:
    """The node that an edge refers to, or the leaf itself."""
    return edge.node if type(edge) is ResultEdge else edge


def shape_of(edge: Any) -> tuple[int, ...]:
    """The shape of what an edge refers to."""
    return edge.shape if type(edge) is Node or type(edge) is ResultEdge else edge.array.shape


def requires_grad(edge: Any) -> bool:
    """Whether a gradient flows along `edge`: to a node's result, or to a leaf that requires one."""
    return type(edge) is Node or type(edge) is ResultEdge or getattr(edge, "requires_grad", False)


def tensor_of(edge: Any) -> Any:
    """The tensor (or constant) that an edge refers to, or None if it no longer exists."""
    if type(edge) is Node:
        return edge.result()
    if type(edge) is ResultEdge:
        return edge.node.result[edge.index]()
    return edge


def set_tensor(edge: Any, tensor: Any) -> None:
    """Let an edge refer (weakly) to `tensor`."""
    if type(edge) is ResultEdge:
        edge.node.result[edge.index] = weakref.ref(tensor)
    else:
        edge.result = weakref.ref(tensor)


def raise_freed(node: Node) -> NoReturn:
    raise GraphError(
        f"backward reached {node} a second time, but the first backward freed it.\n"
        f"Compute the loss again for each backward(), and .detach() a state that is carried over from the "
        f"step before (h = h.detach()). To walk the same graph twice, pass retain_graph=True to the first."
    )
