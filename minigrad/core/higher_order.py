"""Higher-order derivatives: a node's rule, run again on Tensors, records the graph of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from .errors import GraphError
from .modes import Switch, backward_scope, enable_grad, modes
from .node import Node, ResultEdge, producer, raise_freed, requires_grad, set_tensor, tensor_of
from .observers import unobserved
from .tensor import Tensor
from .versions import check_versions, modifications


class Replay:
    """Pulls gradients that are Tensors with a graph; `rebuilt` holds recomputed results.

    Autocast is off, as it chose the inputs' dtypes already: the gradient of a float32 product is float32.
    """

    def __init__(self) -> None:
        self.rebuilt: dict[Any, Tensor] = {}

    def pull(self, node: Node, g: Any, needs: Sequence[bool]) -> Sequence[Any]:
        """The gradients of a node's inputs, given the gradient `g` of its result, as Tensors."""
        if node.gradients is None:
            raise_freed(node)
        if node.recorded_at != modifications.count:
            check_versions(node, needs, replayed=True)
        inputs = [self._tensor_of(edge) for edge in node.edges]
        # observers see users' functions, not the inside of a rule
        paused = nullcontext() if node.op.runs_user_code else unobserved()
        with enable_grad(), Switch(modes, "autocast_dtype", None), backward_scope(node.scope), paused:
            gradients = node.op.pull_tensors(inputs, node.settings, needs, g)
        return [gradient if needed else None for gradient, needed in zip(gradients, needs, strict=True)]

    def _tensor_of(self, edge: Any) -> Any:
        """The edge's tensor, recomputed if it no longer exists."""
        if edge is None:
            return None
        rebuilt = self.rebuilt
        stack = [edge]
        while stack:
            top = stack[-1]
            if top in rebuilt or tensor_of(top) is not None:
                stack.pop()
                continue
            node = producer(top)
            if node.gradients is None:
                raise_freed(node)
            missing = [
                e for e in node.edges if requires_grad(e) and e not in rebuilt and tensor_of(e) is None
            ]
            if missing:
                stack.extend(missing)
                continue
            check_unchanged(node, top)
            inputs = [rebuilt[e] if requires_grad(e) and e in rebuilt else tensor_of(e) for e in node.edges]
            arrays = [x.array if isinstance(x, Tensor) else x for x in inputs]
            made = node.op.rebuild(arrays, node.settings)
            rebuilt[top] = replacement_tensor(top, made[top.index] if type(top) is ResultEdge else made)
            stack.pop()
        return rebuilt[edge] if requires_grad(edge) and edge in rebuilt else tensor_of(edge)


def replacement_tensor(edge: Any, array: Any) -> Tensor:
    """A tensor that replaces one that no longer exists."""
    tensor = Tensor(array)
    tensor._requires_grad = True
    tensor.node = edge
    tensor.version = edge.version
    set_tensor(edge, tensor)
    return tensor


def check_unchanged(node: Node, result: Any) -> None:
    """Raise if an input of a recomputed result, or the result itself, was changed in place since."""
    for edge in (*node.edges, result):
        version = getattr(edge, "version", None)
        versions = version if isinstance(version, list) else [version]  # a list: several results
        changed = [v for v in versions if v is not None and v.modified_at > node.recorded_at]
        if changed:
            what = "its result" if edge is result else "its input"
            raise GraphError(
                f"{node} must be recomputed, but {what} was changed since by {changed[0].changes[-1]}.\n"
                f"Keep its result in a variable, or change the tensor after backward()."
            )
