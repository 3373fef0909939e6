"""The graph that the forward pass records, and the backward pass over it.

A Node is one operation. Its *edges* are its inputs, in the order of its op's arrays. A gradient flows back
along an edge to what the edge refers to, which is one of these:

    Node          the result of an operation with one result
    ResultEdge    one result of an operation with several
    Tensor        a leaf: no operation made it. A gradient flows to it if it requires one.
    a number      a constant, or None where an array was left out. No gradient flows to it.

So the edge to a tensor x is `x.node or x`. The arrays that a node needs for its backward are held by its
gradient functions' closures; of tensors, edges hold only leaves and constants.

`backward()` takes the latest node, whose gradient is complete; applies its gradient functions; accumulates
the results into its inputs' gradients; and frees the node.

If an array that a gradient function holds was changed in place since, backward raises an error (see
`versions`); a change that is itself recorded makes a new array instead (see `ops/in_place`). For second
derivatives, the rule runs again on Tensors, which record a graph (see `pull_of`).
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .closures import root
from .devices import array_module, as_array, is_writeable
from .dtypes import is_floating
from .errors import (  # fmt: skip
    ArgumentError,
    DeviceError,
    DtypeError,
    GradientShapeError,
    GraphError,
    MinigradError,
    OptionError,
    RangeError,
    ShapeError,
)
from .frames import is_library, where
from .hooks import run_hooks
from .modes import BACKWARD, Scope, current_modes, current_scope
from .sums import unbroadcast
from .tensor import Tensor, as_tensor_like, new_tensor
from .versions import VersionCounter, bump_version, check_versions, modifications, version_of

if TYPE_CHECKING:
    from .higher_order import Recorded

FAILURES = (ValueError, TypeError, IndexError, AttributeError)  # what a wrong gradient function raises
Seeds = list[tuple[Any, Any]]  # (edge, gradient) pairs from which a backward pass starts

# Nodes are numbered in the order in which they are made: a node's inputs have lower numbers.
node_numbers = itertools.count()


# ---------------------------------------------------------------- the graph


class Node:
    """One recorded operation: `op` applied to `edges` with `settings`, called at `source`.

    `gradients` is a tuple of functions g -> gradient, one for each edge (None where none is needed), or one
    function (g, needs) -> gradients; None once freed. `needs` says which edges need a gradient. `shape`,
    `version` and `result` (a weak reference to the tensor) describe its result; each is a list if there are
    several results. `recorded_at` is the number of in-place changes made before the node was recorded;
    `scope` is the definition or module in which the op was called.
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
        frame = sys._getframe(2)  # what called the op; this is `frames.caller`, inlined
        while is_library[frame.f_code.co_filename] and frame.f_back is not None:
            frame = frame.f_back
        self.source = frame.f_code, frame.f_lasti  # the user's line, which `where` formats
        self.scope = current_scope.get()
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
    """The `.node` of a tensor that is one of several results of `node`: the one at `index`."""

    __slots__ = ("hooks", "index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index
        self.hooks: dict[int, Callable] | None = None

    @property
    def op(self) -> Any:
        return self.node.op

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape[self.index]

    @property
    def version(self) -> VersionCounter:
        return self.node.version[self.index]

    @version.setter
    def version(self, version: VersionCounter) -> None:
        self.node.version[self.index] = version

    def __repr__(self) -> str:
        return repr(self.node)


def needed_only(gradients: tuple, needs: Sequence[bool]) -> tuple:
    """Replace gradient functions that are not needed with None, which frees the memory that they hold."""
    kept = list(gradients)
    for i, needed in enumerate(needs):
        if not needed:
            kept[i] = None
    return tuple(kept)


def producer(edge: Any) -> Any:
    """The node that an edge refers to, or the leaf itself."""
    return edge.node if type(edge) is ResultEdge else edge


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


# A pull carries a gradient back through one node (a vector-Jacobian product): (node, the gradient of its
# result, which inputs need one) -> the gradient of each input, None where none is needed.
Pull = Callable[[Node, Any, Sequence[bool]], Sequence[Any]]


# ---------------------------------------------------------------- the backward pass


def backward(
    tensor: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the derivative of `tensor` (times `gradient`) into `.grad` of the leaves it depends on.

    `gradient` has the tensor's shape and may be left out for a tensor of one element. If `inputs` is given,
    only these leaves get a gradient (torch.Tensor.backward).

    >>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x**2).backward(gradient=mg.tensor([1.0, 1.0, 10.0]))
    >>> x.grad
    tensor([ 2.,  4., 60.])
    """
    if not isinstance(retain_graph, int | None) or not isinstance(create_graph, int):
        raise ArgumentError("retain_graph and create_graph must be flags.\nPass True or False.")
    seed = seed_of(tensor, gradient, create_graph)
    wanted = None if inputs is None else leaves_only(inputs)
    retain = create_graph if retain_graph is None else retain_graph
    with backward_modes(bool(create_graph)):
        propagate([seed], retain, create_graph).accumulate(wanted)


def propagate(
    seeds: Seeds, retain_graph: bool = False, create_graph: bool = False, keep_grad: bool = True
) -> GradientSums:
    """Carry gradients back from the seeds to all leaves, and return the sums that arrive there."""
    sums = GradientSums(seeds, create_graph, keep_grad)
    walk_back(sums, pull_of(create_graph), retain_graph)
    return sums


@contextmanager
def backward_modes(records: bool, of: Scope | None = None, **others: Any) -> Iterator[None]:
    """Set grad mode and other modes for a backward pass; what it records is the gradient of the scope `of`.

    If a gradient's scope is open already, since a gradient is taken within a gradient, it is kept.
    """
    before = current_modes.get()
    outer = current_scope.get()
    current_modes.set(before.replaced(grad_enabled=records, **others))
    if outer is None or outer.part is not BACKWARD or of not in (None, outer):
        scope = Scope()
        scope.part, scope.parent = BACKWARD, of
        current_scope.set(scope)
    try:
        yield
    finally:
        current_modes.set(before)
        current_scope.set(outer)


def pull_of(create_graph: bool) -> Pull:
    """The function that carries a gradient back through a node, as an array or as a Tensor with a graph.

    A closure over arrays records no graph, so with `create_graph` the rule runs again on the tensors of the
    inputs, which are recomputed if they no longer exist (see `higher_order`).
    """
    rebuilt: dict[Any, Tensor] = {}
    return (lambda node, g, needs: node.op.replay(node, g, needs, rebuilt)) if create_graph else pull_arrays


def walk_back(
    sums: GradientSums, pull: Pull, retain_graph: bool = False, only: Collection[Node] | None = None
) -> None:
    """Carry the gradients in `sums` back from the latest node to the first, only through `only` if given."""
    if current_modes.get().observers:
        pull = with_observers(pull)
    totals, waiting = sums.totals, sums.waiting
    while waiting:
        # Of the nodes that a gradient has reached, the latest: its consumers are later still and have been
        # visited, so its gradient is complete.
        node = heappop(waiting)[1]
        if only is not None and node not in only:
            continue  # its sum stays, as `grad` may have been asked for it
        # `take`, inlined for a node with one result and no hooks
        g = sums.take(node) if node.hooks or type(node.shape) is list else totals.pop(node)
        try:
            for edge, gradient in zip(node.edges, pull(node, g, node.needs)):  # noqa: B905
                if gradient is None:
                    continue
                if type(edge) is Node and edge not in totals and gradient.shape == edge.shape:
                    totals[edge] = gradient  # what `add` does in most cases
                    heappush(waiting, (-edge.number, edge))
                else:
                    sums.add(edge, gradient, g)
        except GradientShapeError as error:
            raise GradientShapeError(error.shape, error.expected, node) from None
        if not retain_graph:
            node.edges = ()
            node.gradients = None


def pull_arrays(node: Node, g: Any, needs: Sequence[bool]) -> Sequence[Any]:
    """The gradients of a node's inputs, given the gradient `g` of its result, as arrays."""
    gradients = node.gradients
    if gradients is None:
        raise_freed(node)
    if node.recorded_at != modifications.count:  # something has changed in place since
        check_versions(node, needs)
    try:
        if type(gradients) is tuple:  # one function per input, None where none is needed
            if needs is not node.needs:  # `grad` needs fewer
                gradients = needed_only(gradients, needs)
            return [f and f(g) for f in gradients]
        parts = gradients(g, needs)  # one function for all inputs, whose gradients share work
        return [part if needed else None for part, needed in zip(parts, needs, strict=True)]
    except FAILURES as error:
        _explain_gradient(node, error)


class GradientSums:
    """The sum of the gradients that have arrived at each edge.

    A tensor that is used twice gets the sum of two gradients (the multivariable chain rule). The first one
    may share memory with the gradient it was computed from, so the engine adds in place only to arrays that
    it owns: sums that it has allocated, and new arrays that a rule returned for a leaf. Such an array becomes
    a leaf's `.grad` without a copy, because no rule returns the same new array for two inputs.
    `owned` holds the edges of these arrays. `keep_grad` is whether `retain_grad()` takes effect. `waiting` is
    a heap of the nodes that a gradient has reached, the latest first.
    """

    def __init__(self, seeds: Seeds, create_graph: bool = False, keep_grad: bool = True) -> None:
        self.totals: dict[Any, Any] = {}
        self.owned: set[Any] = set()
        self.are_arrays = not create_graph  # otherwise the gradients are Tensors
        self.keep_grad = keep_grad
        self.waiting: list[tuple[int, Node]] = []
        self.arrived: dict[Node, list[ResultEdge]] = {}  # for nodes with several results
        for edge, g in seeds:
            self.add(edge, g, g)

    def add(self, edge: Any, g: Any, source: Any) -> None:
        """Add `g`, which a rule computed from the gradient `source`, to the gradient of an edge.

        `g` is a new array, `source` itself or a view of `source`: later gradients are added in place only to
        a new array.
        """
        totals = self.totals
        kind = type(edge)
        shape = edge.shape if kind is Node or kind is ResultEdge else edge.array.shape
        if g.shape != shape:
            g = unbroadcast(g, shape)
        if edge not in totals:
            totals[edge] = g
            if kind is Node:
                heappush(self.waiting, (-edge.number, edge))
            elif kind is ResultEdge:
                node = edge.node
                if node not in self.arrived:
                    self.arrived[node] = []
                    heappush(self.waiting, (-node.number, node))
                self.arrived[node].append(edge)
            elif self.are_arrays and is_new_array(g, source):
                self.owned.add(edge)
        elif edge in self.owned:
            totals[edge] += g
        else:
            totals[edge] = totals[edge] + g
            if self.are_arrays:
                self.owned.add(edge)

    def take(self, node: Node) -> Any:
        """Remove a node's gradient, and return it after its hooks have run.

        For a node with several results, return a list of their gradients, with None where none arrived.
        """
        if type(node.shape) is not list:
            g = self.totals.pop(node)
            return self.after_hooks(node, g) if node.hooks else g
        parts: list[Any] = [None] * len(node.shape)
        for edge in self.arrived.pop(node):
            g = self.totals.pop(edge)
            parts[edge.index] = self.after_hooks(edge, g) if edge.hooks else g
        return parts

    def leaf_gradients(self, wanted: Collection[Any] | None = None) -> Iterator[tuple[Tensor, Any]]:
        """Yield (leaf, gradient) for all leaves, or only the `wanted` ones, after running their hooks."""
        for edge, g in self.totals.items():
            is_leaf = type(edge) is not Node and type(edge) is not ResultEdge
            if is_leaf and (wanted is None or edge in wanted):
                yield edge, self.after_hooks(edge, g) if edge.hooks else g

    def after_hooks(self, edge: Any, g: Any) -> Any:
        self.owned.discard(edge)  # a hook may keep this array, or return one that is in use elsewhere
        return run_hooks(edge, g, self.keep_grad)

    def as_tensor(self, edge: Any, g: Any) -> Tensor:
        """The gradient of an edge as a new Tensor, which the caller may change."""
        if isinstance(g, Tensor):
            return g
        if edge in self.owned:
            self.owned.discard(edge)  # a second request for the same edge gets a copy
            return Tensor(g)
        return Tensor(copied(g))

    def accumulate(self, wanted: Collection[Any] | None = None) -> None:
        """Add the gradient of each leaf, or only of the `wanted` ones, to its `.grad`."""
        for edge, g in list(self.leaf_gradients(wanted)):
            grad = edge._grad
            if grad is None and self.are_arrays:
                is_ours = edge in self.owned and not isinstance(g, np.generic)
                edge._grad = new_tensor(g if is_ours else copied(g))
            elif grad is None:
                edge._grad = g.clone()
            elif grad.shape != edge.shape:
                raise ShapeError(
                    f"`.grad` has shape {grad.shape}, its tensor has shape {edge.shape}.\n"
                    f"Assign a gradient of the tensor's shape, or None."
                )
            elif not self.are_arrays:
                edge._grad = grad + g
            elif grad.requires_grad:  # a graph may refer to its array
                edge._grad = Tensor(grad.array + g)
            elif not is_writeable(grad.array):
                raise OptionError(
                    f"`.grad` of shape {grad.shape} cannot be added to: its memory is read-only, or its "
                    f"elements share memory.\nAssign a copy, x.grad.clone(), or None."
                )
            else:
                bump_version(grad, "backward")
                grad.array += g


def copied(g: Any) -> Any:
    """A copy of an array; a NumPy scalar becomes a 0-d array."""
    return np.array(g) if isinstance(g, np.generic) else g.copy()


def leaves_only(inputs: Any) -> set[Any]:
    """Return the leaves of `backward(inputs=)` as a set, or raise an OptionError if one is not a leaf."""
    leaves = list(inputs) if isinstance(inputs, Iterable) and not isinstance(inputs, Tensor) else [inputs]
    if not leaves or not all(isinstance(x, Tensor) and x.node is None and x.requires_grad for x in leaves):
        raise OptionError(
            "backward(inputs=) needs leaves that require a gradient, at least one.\n"
            "For gradients of other tensors use mg.autograd.grad."
        )
    return set(leaves)


def is_new_array(g: Any, source: Any) -> bool:
    """Whether an array computed from `source` shares no memory with it, so that it may be changed."""
    # A list has the gradients of several results. NumPy's scalars have no axes and cannot be changed.
    if g is source or type(source) is list or not g.ndim:
        return False
    if g.base is None:
        return True
    writeable = 0 not in g.strides and getattr(g.flags, "writeable", True)  # CuPy has no such flag
    return writeable and root(g) is not root(source)


def nodes_behind(edges: Iterable[Any], ends: Iterable[Any] = ()) -> list[Node]:
    """All nodes that `edges` were computed from, in order of creation, stopping at `ends`."""
    beyond = {producer(edge) for edge in ends}
    stack = list({producer(edge) for edge in edges if type(edge) is Node or type(edge) is ResultEdge})
    seen = beyond | set(stack)
    while stack:
        for edge in stack.pop().edges:
            if type(edge) is not Node:
                if type(edge) is not ResultEdge:
                    continue
                edge = edge.node
            if edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return sorted(seen - beyond, key=attrgetter("number"))


def with_observers(pull: Pull) -> Pull:
    """Wrap `pull` so that it also shows observers the gradients that each node sends to its inputs."""
    observers = current_modes.get().observers

    def pull_and_show(node: Node, g: Any, needs: Sequence[bool]) -> Sequence[Any]:
        found = [_as_array(gradient) for gradient in pull(node, g, needs)]
        sent = [(edge, part) for edge, part in zip(node.edges, found, strict=True) if part is not None]
        for observer in observers:
            observer.on_pull(node, g, sent)
        return found

    return pull_and_show


def _as_array(gradient: Any) -> Any:
    """Convert a NumPy scalar to an array; return Tensors and None unchanged."""
    return gradient if gradient is None or isinstance(gradient, Tensor) else as_array(gradient)


def _explain_gradient(node: Node, error: Exception) -> NoReturn:
    """Re-raise the error of a gradient function with its op's name, which minigrad's own errors have."""
    if isinstance(error, GradientShapeError):
        raise GradientShapeError(error.shape, error.expected, node) from None
    if isinstance(error, MinigradError):
        raise error
    kind = RangeError if isinstance(error, IndexError) else ShapeError
    said = " ".join(str(error).split()).rstrip(".")
    raise (DtypeError if isinstance(error, TypeError | AttributeError) else kind)(
        f"the gradient of {node} failed: {said}.\n"
        f"Look at its rule: a function of g for each array, or one function (g, needs). It gets NumPy "
        f"arrays, and Tensors for higher derivatives (xp = namespace(x) works for both)."
    ) from error


def seed_of(tensor: Tensor, gradient: Any, create_graph: bool) -> tuple[Any, Any]:
    """Return the (edge, gradient) with which the backward pass from `tensor` starts, or raise an error.

    The gradient is an array, or with `create_graph` a Tensor; it is 1 if `gradient` is None.
    """
    if not tensor._requires_grad:
        raise GraphError(
            f"a tensor of shape {tensor.shape} has no gradient: nothing it was computed from requires one.\n"
            f"Set requires_grad=True on a leaf before computing, and do not compute under no_grad()."
        )
    if gradient is None:
        if tensor.array.size != 1:
            raise GraphError(
                f"backward() needs a tensor of one element, got shape {tensor.shape}.\n"
                f"Reduce it (`.sum()`, `.mean()`), or pass gradient= of that shape."
            )
        array = tensor.array
        library = np if type(array) is np.ndarray else array_module(array)
        start = new_tensor(library.ones(array.shape, array.dtype))
    else:
        start = as_tensor_like(gradient, tensor).to(tensor.dtype)
        if start.shape != tensor.shape:
            raise ShapeError(
                f"the gradient has shape {start.shape}, the tensor {tensor.shape}.\n"
                f"Pass one of the tensor's shape."
            )
        if start.device != tensor.device:
            raise DeviceError(
                f"the gradient is on {start.device}, the tensor on {tensor.device}.\n"
                f"Move the gradient: .to({tensor.device!r})."
            )
    g = start if create_graph else start.array
    for observer in current_modes.get().observers:
        observer.on_backward_start(tensor, g)
    return (tensor if tensor.node is None else tensor.node), g
