"""The walk back over the tape.

Reverse mode in one sentence (`propagate` below): take the latest node whose gradient is complete, ask it for
its inputs' gradients, add each to what that input has already, and let the node go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

from ..devices import HALF, float32, is_writeable
from ..errors import DtypeError, GradientShapeError, MinigradError, RangeError, ShapeError
from ..versions import check_versions, clock, root
from .anomaly import watch
from .hooks import run_hooks
from .nodes import Node, Output, is_edge, maker, refuse_freed
from .replay import replay

if TYPE_CHECKING:
    from ..tensor import Tensor


def propagate(
    seeds: list[tuple[Any, Any]],
    wanted: Iterable[Any] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    ends: Iterable[Any] = (),
    observe: Callable[..., Iterable[tuple[Any, Any, Any]]] | None = None,
) -> tuple[dict[Any, Any], set[Any]]:
    """Walk back from `seeds` (edge, gradient): the whole of reverse mode.

    Gives the gradients of all leaves reached, or of the `wanted` edges, and which of their arrays nobody else
    refers to. With `create_graph` gradients are Tensors, made by replaying each rule on Tensors. The walk
    goes no further than to the `ends`, whose hooks are left to the walk that goes on from there. What is
    pulled through a node goes by way of `observe(node, gradients, g, pulled)`; such a walk leaves no `.grad`.
    """
    pending = _Pending(raw=not create_graph, retain=observe is None)
    for edge, g in seeds:
        pending.add(edge, g, upstream=g)
    add, sums, looking = pending.add, pending.sums, observe or (watch.checked if watch.on else None)
    plain = looking is None and not create_graph
    wanted = None if wanted is None else set(wanted)
    order = _order([maker(edge) for edge, _ in seeds if type(edge) in (Node, Output)], ends)
    goal = None if wanted is None else _Goal(order, wanted)
    results: dict[Any, Any] = {}
    rebuilt: dict[Any, Tensor] = {}
    while order:
        node = order.pop()
        g = sums.pop(node, None) if type(node.shape) is tuple else pending.take(node)
        if g is None:
            continue
        if node.hooks:
            g = run_hooks(node, g, retain=observe is None)
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
            refuse_freed(node)
        if node.clock != clock.time:
            check_versions(node, gradients, create_graph)
        try:
            if not plain:
                pulled = _pull(node, gradients, g, needs, rebuilt if create_graph else None)
                for edge, r, upstream in looking(node, gradients, g, pulled) if looking else pulled:
                    add(edge, r, upstream)
            elif type(gradients) is tuple:
                for edge, gradient in zip(node.edges, gradients):  # noqa: B905 (of one length, see Op)
                    if gradient is not None:
                        add(edge, gradient(g), g)
            else:
                parts = gradients(g, needs)
                shared = type(g) is list or _is_shared(parts, node)  # then nobody may add into them
                for edge, part, needed in zip(node.edges, parts, needs):  # noqa: B905
                    if needed and part is not None:
                        add(edge, part, part if shared else g)
        except MinigradError:
            raise
        except (ValueError, TypeError, IndexError, AttributeError) as error:
            _explain_gradient(node, error)
        if not retain_graph:
            node.gradients = None
            node.edges = []
    pending.finish(goal, results, bool(ends))
    return results, pending.owned


def _explain_gradient(node: Node, error: Exception) -> NoReturn:
    """Say which rule's gradient failed."""
    kind = RangeError if isinstance(error, IndexError) else ShapeError
    said = " ".join(str(error).split()).rstrip(".")
    raise (DtypeError if isinstance(error, TypeError | AttributeError) else kind)(
        f"the gradient of {node} failed: {said}.\n"
        f"Look at its rule: a function of g for each array, or one of (g, needs), which gets NumPy arrays, "
        f"and Tensors where a gradient is differentiated again (xp = namespace(x) has the functions of both)."
    ) from error


def _order(nodes: Iterable[Node], ends: Iterable[Any]) -> list[Node]:
    """All nodes that `nodes` were computed from, up to the `ends`, and they, in the order of creation."""
    beyond = {maker(edge) for edge in ends}
    seen = set(nodes)
    stack = list(seen)
    seen |= beyond
    while stack:
        for edge in stack.pop().edges:
            if type(edge) is Output:
                edge = edge.node
            if type(edge) is Node and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return sorted(seen - beyond if beyond else seen, key=attrgetter("number"))


def _pull(
    node: Node, gradients: Any, g: Any, needs: list[bool], rebuilt: dict[Any, Tensor] | None
) -> Iterator[tuple[Any, Any, Any]]:
    """(edge, gradient, what it was made from) for each input that needs one."""
    if rebuilt is not None:
        for edge, r in replay(node, g, needs, rebuilt):
            yield edge, r, g
    elif type(gradients) is tuple:
        for edge, gradient in zip(node.edges, gradients, strict=True):
            if gradient is not None:
                yield edge, gradient(g), g
    else:
        parts = gradients(g, needs)
        shared = type(g) is list or _is_shared(parts, node)
        for edge, part, needed in zip(node.edges, parts, needs, strict=True):
            if needed and part is not None:
                yield edge, part, part if shared else g


def _is_shared(parts: Sequence[Any], node: Node) -> bool:
    """Whether one array is given to several inputs, which a kernel does not."""
    if node.op.definition is not None:
        return False
    given = [id(part) for part in parts if part is not None]
    return len(given) > 1 and len(set(given)) < len(given)


class _Goal:
    """Where a walk that is asked for certain edges has to go."""

    def __init__(self, order: list[Node], wanted: set[Any]) -> None:
        self.wanted = wanted
        self.reach = {maker(edge) for edge in wanted}  # what is wanted, and the nodes that lead there
        self.leading: set[Node] = set()
        self.freed = next((node for node in order if node.gradients is None), None)
        for node in order:
            if any(maker(edge) in self.reach for edge in node.edges if is_edge(edge)):
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


class _Pending:
    """Gradients on their way: edge -> the sum of what has arrived so far."""

    def __init__(self, raw: bool, retain: bool) -> None:
        self.sums: dict[Any, Any] = {}
        self.owned: set[Any] = set()  # edges whose array nobody else sees, so that one may add into it
        self.raw, self.retain = raw, retain

    def add(self, edge: Any, r: Any, upstream: Any) -> None:
        """Add gradient `r`, made by a rule from `upstream`: a fresh array, or `upstream` or a view of it."""
        if r.shape != edge.shape:
            r = unbroadcast(r, edge.shape)
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
            parts[edge.index] = run_hooks(edge, self.sums.pop(edge), self.retain)
        return parts if any(part is not None for part in parts) else None

    def finish(self, goal: _Goal | None, results: dict[Any, Any], ends: bool) -> None:
        """Add to `results` what has arrived where the walk ends: at leaves, or at `ends`."""
        wanted = set() if goal is None else goal.wanted
        if goal is not None and goal.freed and any(e not in results and e not in self.sums for e in wanted):
            refuse_freed(goal.freed)
        for edge, g in self.sums.items():
            if goal is not None and edge not in wanted:
                continue
            if ends:
                results[edge] = g
            elif type(edge) not in (Node, Output):
                results[edge] = run_hooks(edge, g, self.retain)
                if results[edge] is not g:
                    self.owned.discard(edge)


def unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum `g` over the axes along which an operand of `shape` was expanded."""
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and g.shape[i + extra] != 1
    )
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, g.shape[extra:], strict=True)):
        raise GradientShapeError(tuple(g.shape), shape)
    if not axes:
        return g.reshape(shape)
    if g.dtype in HALF:
        return unbroadcast(g.astype(float32), shape).astype(g.dtype)
    return g.sum(axis=axes, keepdims=True).reshape(shape)


def _is_fresh(r: Any, upstream: Any) -> bool:
    """Whether an array that a rule made from `upstream` is the engine's own, to add into."""
    if r is upstream or not r.ndim:
        return False
    return r.base is None or (is_writeable(r) and root(r) is not root(upstream))
