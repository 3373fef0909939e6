"""Higher order: the rule of a node, run again on Tensors, records a graph of the gradient itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ..errors import GraphError
from .anomaly import watch
from .modes import autocast_to, backward_scope, enable_grad
from .nodes import Node, alive, is_edge, maker, refuse_freed

if TYPE_CHECKING:
    from ..tensor import Tensor


def replay(node: Node, g: Any, needs: list[bool], rebuilt: dict[Any, Tensor]) -> Iterator[tuple[Any, Tensor]]:
    """(edge, gradient) for the inputs that need one, as Tensors with graphs of their own.

    Autocast, which has chosen their dtypes already, is off: the gradient of a float32 product stays float32.
    """
    inputs = [_tensor_of(edge, rebuilt) for edge in node.edges]
    own = not getattr(node.op, "runs_user_code", False)  # what a rule does inside is no anomaly of the user's
    paused = watch.paused() if own else nullcontext()
    with enable_grad(), autocast_to(None), backward_scope(node.scope), paused:
        gradients = node.op.pull_tensors(inputs, node.settings, needs, g)
    for edge, r, needed in zip(node.edges, gradients, needs, strict=True):
        if needed and r is not None:
            yield edge, r


def _tensor_of(edge: Any, rebuilt: dict[Any, Tensor]) -> Any:
    """The edge's tensor, recomputed from what is still alive where it is not."""
    if edge is None:
        return None
    stack = [edge]
    while stack:
        top = stack[-1]
        if top in rebuilt or alive(top) is not None:
            stack.pop()
            continue
        node = maker(top)
        if node.gradients is None:
            refuse_freed(node)
        missing = [e for e in node.edges if is_edge(e) and e not in rebuilt and alive(e) is None]
        if missing:
            stack.extend(missing)
            continue
        refuse_changed(node, top)
        inputs = [rebuilt[e] if is_edge(e) and e in rebuilt else alive(e) for e in node.edges]
        rebuilt[top] = node.op.rebuild(inputs, node.settings, top)
        stack.pop()
    return rebuilt[edge] if is_edge(edge) and edge in rebuilt else alive(edge)


def refuse_changed(node: Node, result: Any) -> None:
    """Refuse to compute a result again whose inputs, or which itself, have been changed in place since."""
    for e in (*node.edges, result):
        cell = getattr(e, "cell", None)
        if cell is not None and cell.stamp > node.clock:
            what = "its result" if e is result else "its input"
            raise GraphError(
                f"{node} must be computed again, but {what} was changed since by {cell.changes[-1]}.\n"
                f"Keep its result in a variable, or change the tensor after backward()."
            )
