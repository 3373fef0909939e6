"""Higher-order derivatives: a node's rule, run again on Tensors, records the graph of the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .backward import (
    Node,
    ResultEdge,
    backward_modes,
    producer,
    raise_freed,
    requires_grad,
    set_tensor,
    tensor_of,
)
from .errors import GraphError
from .tensor import Tensor
from .versions import check_versions, modifications


class Recorded:
    """The base class of a node's `op`: an `Op`, or a checkpoint or boundary that runs a user's function.

    First derivatives do not use it, as the node holds its gradient functions. Higher derivatives call its
    methods. The attributes say how it is drawn and described (see `About`).
    """

    name: str
    public_name: str
    runs_user_code = False  # if True, observers see the ops of a replay
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

    def replay(self, node: Node, g: Any, needs: Sequence[bool], rebuilt: dict[Any, Tensor]) -> Sequence[Any]:
        """The gradients of a node's inputs, given the gradient `g` of its result, as Tensors.

        `rebuilt` holds results recomputed in this backward pass. Autocast is off, as it chose the inputs'
        dtypes already: the gradient of a float32 product is float32.
        """
        if node.gradients is None:
            raise_freed(node)
        if node.recorded_at != modifications.count:
            check_versions(node, needs, replayed=True)
        inputs = [rebuilt_tensor(edge, rebuilt) for edge in node.edges]
        # observers see users' functions, not the inside of a rule
        paused = {} if self.runs_user_code else {"observers": ()}
        with backward_modes(True, node.scope, autocast_dtype=None, **paused):
            gradients = self.pull_tensors(inputs, node.settings, needs, g)
        return [gradient if needed else None for gradient, needed in zip(gradients, needs, strict=True)]


def rebuilt_tensor(edge: Any, rebuilt: dict[Any, Tensor]) -> Any:
    """The edge's tensor, recomputed if it no longer exists."""
    if edge is None:
        return None
    stack = [edge]
    while stack:
        top = stack[-1]
        if top in rebuilt or tensor_of(top) is not None:
            stack.pop()
            continue
        node = producer(top)
        if node.gradients is None:
            raise_freed(node)
        missing = [e for e in node.edges if requires_grad(e) and e not in rebuilt and tensor_of(e) is None]
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
    """A tensor of `array` that replaces the tensor of an edge, which no longer exists."""
    tensor = Tensor(array)
    tensor._requires_grad = True
    tensor.node = edge
    tensor.version = edge.version
    set_tensor(edge, tensor)
    return tensor


def check_unchanged(node: Node, result: Any) -> None:
    """Raise a GraphError if a result to recompute, or an input of its node, was changed in place since."""
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
