"""The tape: every operation records a Node; walking the nodes backward gives every gradient.

Reverse mode in one sentence (`propagate` below): take the latest node whose gradient is complete, ask it for
its inputs' gradients, add each to what that input has already, and let the node go.

A node's *edges* are its inputs: the Node that made the input, or the input itself where no node did (a leaf
tensor or a constant). The arrays that a node needs for its backward live in its gradient functions' closures
and nowhere else.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .errors import GraphError, OptionError, ShapeError
from .versions import Cell, check_versions, clock, record_change, root, where

if TYPE_CHECKING:
    from .tensor import Tensor


class _GradMode(threading.local):
    enabled = True


grad_mode = _GradMode()


class _SetGrad:
    """A context manager and decorator that switches recording on or off."""

    value: bool

    def __enter__(self) -> None:
        self.before, grad_mode.enabled = grad_mode.enabled, self.value

    def __exit__(self, *exc: object) -> None:
        grad_mode.enabled = self.before

    def __call__(self, function: Callable) -> Callable:
        import functools

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return function(*args, **kwargs)

        return wrapped


class no_grad(_SetGrad):
    """Within it (or in a function it decorates) nothing is recorded."""

    value = False


class enable_grad(_SetGrad):
    """Within it operations are recorded again."""

    value = True


def is_grad_enabled() -> bool:
    return grad_mode.enabled


# ---------------------------------------------------------------- nodes

creation = itertools.count()  # numbers nodes in the order in which they were made


class Node:
    """One recorded operation: `op` applied to `edges` with `settings`.

    `gradients` is a tuple of functions g -> gradient, one an edge (None where none is needed), or one
    function (g, needs) -> gradients; None once freed. `output` refers weakly to the tensor that it made.
    """

    __slots__ = (
        "__weakref__", "cell", "clock", "edges", "gradients", "hooks", "needs", "number", "op", "output",
        "settings", "shape", "source",
    )  # fmt: skip

    op: Any
    settings: dict[str, Any]
    edges: list[Any]
    gradients: Any
    needs: list[bool]
    number: int
    output: Any
    shape: Any
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


# ---------------------------------------------------------------- changes in place


def mutate(tensor: Tensor, name: str) -> None:
    """Announce that `name` is about to change `tensor` in place; refused where a graph is being recorded."""
    if tensor.requires_grad and grad_mode.enabled:
        raise GraphError(
            f"{name} would change a tensor of shape {tensor.shape} that requires a gradient.\n"
            f"Write it out of place (x = x + y), or wrap the change in `with mg.no_grad():`."
        )
    record_change(tensor, name)


# ---------------------------------------------------------------- the walk


def _order(nodes: Iterable[Node]) -> list[Node]:
    """All nodes that `nodes` were computed from, and they, in the order of creation."""
    seen = set(nodes)
    stack = list(seen)
    while stack:
        for edge in stack.pop().edges:
            if type(edge) is Output:
                edge = edge.node
            if type(edge) is Node and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return sorted(seen, key=attrgetter("number"))


def maker(edge: Any) -> Any:
    """The node behind an edge, or the leaf itself."""
    return edge.node if type(edge) is Output else edge


def _is_edge(thing: Any) -> bool:
    return type(thing) is Node or type(thing) is Output or getattr(thing, "requires_grad", False)


class _Goal:
    """Where a walk that is asked for certain edges has to go."""

    def __init__(self, order: list[Node], wanted: Iterable[Any]) -> None:
        self.wanted = set(wanted)
        self.reach = {maker(edge) for edge in self.wanted}  # what is wanted, and the nodes that lead there
        self.leading: set[Node] = set()
        self.freed = next((node for node in order if node.gradients is None), None)
        for node in order:
            if any(maker(edge) in self.reach for edge in node.edges if _is_edge(edge)):
                self.reach.add(node)
                self.leading.add(node)

    def captured(self, node: Node, g: Any) -> dict[Any, Any]:
        """What of the gradient `g` of a node's results is wanted."""
        if type(g) is not list:
            return {node: g} if node in self.wanted else {}
        return {e: g[e.index] for e in self.wanted if type(e) is Output and e.node is node}

    def needs(self, node: Node) -> list[bool]:
        """Which inputs' gradients lead on."""
        return [
            needed and maker(edge) in self.reach for edge, needed in zip(node.edges, node.needs, strict=True)
        ]


def _unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum `g` over the axes along which an operand of `shape` was expanded."""
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and g.shape[i + extra] != 1
    )
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, g.shape[extra:], strict=True)):
        raise ShapeError(
            f"a gradient of shape {tuple(g.shape)} was given for an input of shape {shape}.\n"
            f"This is a fault in the op's rule."
        )
    return g.sum(axis=axes, keepdims=True).reshape(shape) if axes else g.reshape(shape)


def _is_fresh(r: Any, upstream: Any) -> bool:
    """Whether an array that a rule made from `upstream` is the engine's own, to add into."""
    if r is upstream or not r.ndim:
        return False
    return r.base is None or (r.flags.writeable and root(r) is not root(upstream))


class _Pending:
    """Gradients on their way: edge -> the sum of what has arrived so far."""

    def __init__(self, raw: bool) -> None:
        self.sums: dict[Any, Any] = {}
        self.owned: set[Any] = set()  # edges whose array nobody else sees, so that one may add into it
        self.raw = raw

    def add(self, edge: Any, r: Any, upstream: Any) -> None:
        """Add gradient `r`, made by a rule from `upstream`: a fresh array, or `upstream` or a view of it."""
        if r.shape != edge.shape:
            r = _unbroadcast(r, edge.shape)
        sums = self.sums
        before = sums.get(edge)
        if before is None:
            sums[edge] = r
            if type(edge) is not Node and self.raw and _is_fresh(r, upstream):
                self.owned.add(edge)
        elif edge in self.owned:
            before += r
        elif self.raw and _is_fresh(r, upstream):
            r += before
            sums[edge] = r
            self.owned.add(edge)
        else:
            sums[edge] = before + r

    def take(self, node: Node) -> Any:
        """The gradients of all of a node's outputs, removed, as a list; None if none arrived."""
        parts: list[Any] = [None] * len(node.shape)
        for edge in [e for e in self.sums if type(e) is Output and e.node is node]:
            parts[edge.index] = run_hooks(edge, self.sums.pop(edge))
        return parts if any(part is not None for part in parts) else None


registration = itertools.count()  # numbers hooks


class Handle:
    """What registering a hook gives: `handle.remove()` (or calling it) takes the hook away."""

    def __init__(self, hooks: dict[int, Callable], hook: Callable) -> None:
        self.hooks, self.key = hooks, next(registration)
        hooks[self.key] = hook

    def remove(self) -> None:
        self.hooks.pop(self.key, None)

    __call__ = remove


def run_hooks(edge: Any, g: Any) -> Any:
    """Show `g` to the edge's hooks; one that returns something replaces it."""
    if not edge.hooks:
        return g
    from .tensor import Tensor, as_tensor

    for hook in list(edge.hooks.values()):
        raw = not isinstance(g, Tensor)
        with no_grad() if raw else enable_grad():
            result = hook(Tensor(g) if raw else g)
        if result is not None:
            result = as_tensor(result)
            if result.shape != g.shape:
                raise ShapeError(
                    f"a hook returned shape {result.shape} for a gradient of shape {tuple(g.shape)}.\n"
                    f"Return a gradient of the same shape, or None to leave it alone."
                )
            g = result.data if raw else result
    return g


def _refuse_freed(node: Node) -> NoReturn:
    raise GraphError(
        f"backward came a second time to {node}, which was freed the first time.\n"
        f"Pass retain_graph=True to the first backward(), or compute the loss anew."
    )


def propagate(
    seeds: list[tuple[Any, Any]],
    wanted: Iterable[Any] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> tuple[dict[Any, Any], set[Any]]:
    """Walk back from `seeds` (edge, gradient): the whole of reverse mode.

    Gives the gradients of all leaves reached, or of the `wanted` edges, and which of their arrays nobody else
    refers to. With `create_graph` gradients are Tensors, made by replaying each rule on Tensors.
    """
    pending = _Pending(raw=not create_graph)
    for edge, g in seeds:
        pending.add(edge, g, upstream=g)
    add, sums = pending.add, pending.sums
    order = _order([maker(edge) for edge, _ in seeds if type(edge) in (Node, Output)])
    goal = None if wanted is None else _Goal(order, wanted)
    results: dict[Any, Any] = {}
    rebuilt: dict[Any, Tensor] = {}
    while order:
        node = order.pop()
        g = sums.pop(node, None) if type(node.shape) is tuple else pending.take(node)
        if g is None:
            continue
        if node.hooks:
            g = run_hooks(node, g)
            pending.owned.discard(node)
        needs, gradients = node.needs, node.gradients
        if goal is not None:
            results.update(goal.captured(node, g))
            if node not in goal.leading:
                continue
            needs = goal.needs(node)
            if type(gradients) is tuple:
                gradients = tuple(f if needed else None for f, needed in zip(gradients, needs, strict=True))
        if gradients is None:
            _refuse_freed(node)
        if node.clock != clock.time:
            check_versions(node, gradients, create_graph)
        if create_graph:
            for edge, r in replay(node, g, needs, rebuilt):
                add(edge, r, upstream=g)
        elif type(gradients) is tuple:
            for edge, gradient in zip(node.edges, gradients):  # noqa: B905 (of one length, see Op)
                if gradient is not None:
                    add(edge, gradient(g), g)
        else:
            parts = [r if needed else None for r, needed in zip(gradients(g, needs), needs, strict=True)]
            for edge, part in zip(node.edges, parts, strict=True):
                if part is not None:  # of several results, or given twice: not to be added into
                    shared = type(g) is list or sum(part is other for other in parts) > 1
                    add(edge, part, part if shared else g)
        if not retain_graph:
            node.gradients = None
            node.edges = []
    if goal is not None and goal.freed and any(e not in results and e not in sums for e in goal.wanted):
        _refuse_freed(goal.freed)
    for edge, g in sums.items():
        if type(edge) not in (Node, Output) and (goal is None or edge in goal.wanted):
            results[edge] = run_hooks(edge, g)
            if results[edge] is not g:
                pending.owned.discard(edge)
    return results, pending.owned


# ---------------------------------------------------------------- higher order


def replay(node: Node, g: Any, needs: list[bool], rebuilt: dict[Any, Tensor]) -> Iterator[tuple[Any, Tensor]]:
    """The inputs' gradients as Tensors with graphs of their own: the rule, run again on Tensors."""
    inputs = [_tensor_of(edge, rebuilt) for edge in node.edges]
    with enable_grad():
        gradients = node.op.pull_tensors(inputs, node.settings, needs, g)
    for edge, r, needed in zip(node.edges, gradients, needs, strict=True):
        if needed and r is not None:
            yield edge, r


def _alive(edge: Any) -> Any:
    """The tensor (or constant) that an edge stands for, or None where it has been let go."""
    if type(edge) is Node:
        return edge.output()
    if type(edge) is Output:
        return edge.node.output[edge.index]()
    return edge


def _tensor_of(edge: Any, rebuilt: dict[Any, Tensor]) -> Any:
    """The edge's tensor, recomputed from what is still alive where it is not."""
    if edge is None:
        return None
    stack = [edge]
    while stack:
        top = stack[-1]
        if top in rebuilt or _alive(top) is not None:
            stack.pop()
            continue
        node = maker(top)
        if node.gradients is None:
            _refuse_freed(node)
        missing = [e for e in node.edges if _is_edge(e) and e not in rebuilt and _alive(e) is None]
        if missing:
            stack.extend(missing)
            continue
        for e in (*node.edges, top):
            cell = getattr(e, "cell", None)
            if cell is not None and cell.stamp > node.clock:
                what = "its result" if e is top else "its input"
                raise GraphError(
                    f"{node} must be computed again, but {what} was changed since by {cell.changes[-1]}.\n"
                    f"Keep its result in a variable, or change the tensor after backward()."
                )
        inputs = [rebuilt[e] if _is_edge(e) and e in rebuilt else _alive(e) for e in node.edges]
        rebuilt[top] = node.op.rebuild(inputs, node.settings, top)
        stack.pop()
    return rebuilt[edge] if _is_edge(edge) and edge in rebuilt else _alive(edge)


# ---------------------------------------------------------------- what users call


def _seed(tensor: Tensor, gradient: Any) -> tuple[Any, Any]:
    """(edge, gradient) to begin from; a scalar's gradient is 1."""
    if not tensor.requires_grad:
        raise GraphError(
            f"a tensor of shape {tensor.shape} has no gradient: nothing that it came from requires one.\n"
            f"Set requires_grad=True on a leaf before computing, and do not compute under no_grad()."
        )
    if gradient is None:
        if tensor.data.size != 1:
            raise GraphError(
                f"backward() of a tensor of shape {tensor.shape}, which is not one number.\n"
                f"Reduce it (`.sum()`, `.mean()`), or pass gradient= of that shape."
            )
        gradient = np.ones_like(tensor.data)
    return tensor.node if tensor.node is not None else tensor, gradient


def _matching(tensor: Tensor, gradient: Any, create_graph: bool) -> Any:
    """A user's gradient, checked, as an array (a Tensor with create_graph)."""
    from .tensor import Tensor, as_tensor

    if gradient is not None:
        gradient = as_tensor(gradient).to(tensor.dtype)
        if gradient.shape != tensor.shape:
            raise ShapeError(
                f"the gradient has shape {gradient.shape}, the tensor {tensor.shape}.\n"
                f"Pass one of the tensor's shape."
            )
        if not create_graph:
            gradient = gradient.data
    edge, g = _seed(tensor, gradient)
    return edge, (Tensor(g) if create_graph and not isinstance(g, Tensor) else g)


def backward(
    tensor: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """Add d tensor / d leaf to `.grad` of every leaf that requires it (torch.Tensor.backward)."""
    retain = create_graph if retain_graph is None else retain_graph
    seed = _matching(tensor, gradient, create_graph)
    gradients, owned = propagate([seed], retain_graph=retain, create_graph=create_graph)
    for leaf, g in gradients.items():
        leaf.accumulate_grad(g, owned=leaf in owned)


def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """d sum(outputs * grad_outputs) / d inputs, leaving every `.grad` alone (torch.autograd.grad).

    `inputs` may be intermediate tensors. One that was not used is a GraphError, or None with `allow_unused`.
    """
    from .tensor import Tensor

    outs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    ins = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = list(grad_outputs) if isinstance(grad_outputs, list | tuple) else [grad_outputs] * len(outs)
    if len(given) != len(outs) or (isinstance(grad_outputs, Tensor) and len(outs) > 1):
        raise OptionError(f"{len(outs)} outputs need as many grad_outputs.\nPass a list, or None.")
    for x in ins:
        if not x.requires_grad:
            raise GraphError(
                f"an input of shape {x.shape} does not require a gradient.\n"
                f"Set requires_grad=True before it is used."
            )
    retain = create_graph if retain_graph is None else retain_graph
    seeds = [_matching(out, g, create_graph) for out, g in zip(outs, given, strict=True)]
    edges = [x.node if x.node is not None else x for x in ins]
    found, owned = propagate(seeds, edges, retain, create_graph)
    results: list[Tensor | None] = []
    for x, edge in zip(ins, edges, strict=True):
        g = found.get(edge)
        if g is None and not allow_unused:
            raise GraphError(
                f"an input of shape {x.shape} was not used to compute the outputs.\n"
                f"Pass allow_unused=True to get None for it."
            )
        if not (g is None or isinstance(g, Tensor)):
            g = Tensor(g if edge in owned else g.copy())
            owned.discard(edge)
        results.append(g)
    return tuple(results)
