"""The walk back over the graph: the whole of reverse mode.

Take the latest node whose gradient is complete, pull that gradient through the node's derivative to its
inputs, add what each input gets to what it has already, and free the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NoReturn

from ..errors import DtypeError, MinigradError, RangeError, ShapeError
from ..modes import modes
from ..nodes import Node, Output, producer, refuse_freed
from ..versions import check_versions, modifications
from .accumulate import GradientSums

Add = Callable[[Any, Any, Any], None]  # (edge, gradient, what the gradient was made from), see GradientSums
Pull = Callable[[Node, Any, list[bool], Add], None]  # (node, its gradient, which inputs need one, add)


def walk_back(order: list[Node], sums: GradientSums, pull: Pull, retain_graph: bool = False) -> None:
    """Carry the gradients in `sums` back through the nodes in `order`, from the last to the first."""
    if modes.observers:
        pull = observed(pull)
    while order:
        node = order.pop()  # all that was computed from it has been visited: its gradient is complete
        g = sums.take(node)
        if g is None:
            continue
        pull(node, g, node.needs, sums.add)
        if not retain_graph:
            node.gradients, node.edges = None, []  # what backward needed can be freed


def nodes_behind(edges: Iterable[Any], ends: Iterable[Any] = ()) -> list[Node]:
    """All nodes that `edges` were computed from, in the order of creation; none behind `ends`."""
    beyond = {producer(edge) for edge in ends}
    stack = list({producer(edge) for edge in edges if type(edge) is Node or type(edge) is Output})
    seen = beyond | set(stack)
    while stack:
        for edge in stack.pop().edges:
            if type(edge) is Output:
                edge = edge.node
            if type(edge) is Node and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return sorted(seen - beyond, key=attrgetter("number"))


def pull_arrays(node: Node, g: Any, needs: list[bool], add: Add) -> None:
    """Run the gradient functions of a node on arrays, for each input that needs a gradient."""
    gradients = node.gradients
    if gradients is None:
        refuse_freed(node)
    if node.recorded_at != modifications.count:
        check_versions(node, needs)
    try:
        if type(gradients) is tuple:  # one function for each input
            for edge, gradient, needed in zip(node.edges, gradients, needs):  # noqa: B905 (see Op)
                if needed and gradient is not None:
                    add(edge, gradient(g), g)
        else:  # one for all, which share work
            parts = gradients(g, needs)
            shared = type(g) is list or _repeats(parts, node)  # then none may be added into
            for edge, part, needed in zip(node.edges, parts, needs):  # noqa: B905
                if needed and part is not None:
                    add(edge, part, part if shared else g)
    except MinigradError:
        raise
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        _explain_gradient(node, error)


def observed(pull: Pull) -> Pull:
    """`pull`, showing observers what each node sends to its inputs before it is added."""
    observers = modes.observers

    def pull_and_show(node: Node, g: Any, needs: list[bool], add: Add) -> None:
        sent: list[tuple[Any, Any, Any]] = []
        pull(node, g, needs, lambda *contribution: sent.append(contribution))
        for observer in observers:
            observer.on_pull(node, g, [(edge, part) for edge, part, _ in sent])
        for contribution in sent:
            add(*contribution)

    return pull_and_show


def _repeats(parts: Any, node: Node) -> bool:
    """Whether one array is the gradient of several inputs, which a kernel's never is."""
    if node.op.definition is not None:
        return False
    arrays = [id(part) for part in parts if part is not None]
    return len(set(arrays)) < len(arrays)


def _explain_gradient(node: Node, error: Exception) -> NoReturn:
    """Say which rule's gradient failed."""
    kind = RangeError if isinstance(error, IndexError) else ShapeError
    said = " ".join(str(error).split()).rstrip(".")
    raise (DtypeError if isinstance(error, TypeError | AttributeError) else kind)(
        f"the gradient of {node} failed: {said}.\n"
        f"Look at its rule: a function of g for each array, or one of (g, needs). It gets NumPy arrays, "
        f"and Tensors where a gradient is differentiated again (xp = namespace(x) has the functions of both)."
    ) from error
