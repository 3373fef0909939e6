"""The recorded operations of a function, so that each can be checked separately."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.backward import Node, ResultEdge, nodes_behind, requires_grad
from ..core.op import Op
from ..core.tensor import Tensor

MOST_NODES = 60  # larger graphs are not checked
MOST_ELEMENTS = 3000


class Step(NamedTuple):
    """One recorded operation, as a function of its inputs."""

    node: Node
    function: Callable[..., Any]
    inputs: list[Any]


def steps_of(outs: Sequence[Tensor]) -> list[Step]:
    """Return the operations that computed `outs`, in order; [] if they are too many, or not all ops."""
    nodes = nodes_behind([out.node for out in outs if out.node is not None])
    if len(nodes) > MOST_NODES or not all(isinstance(node.op, Op) for node in nodes):
        return []
    values: dict[Any, Any] = {}
    steps = []
    for node in nodes:
        arrays = [_array(edge, values) for edge in node.edges]
        steps.append(Step(node, _function(node), list(_inputs(node, arrays))))
        value, _ = node.op.run(arrays, node.settings)
        if isinstance(node.shape, tuple):
            values[node] = value
        else:
            values |= {(node, i): part for i, part in enumerate(value)}
    size = sum(
        np.size(x.array) for step in steps for x in step.inputs if isinstance(x, Tensor) and x.requires_grad
    )
    return steps if size <= MOST_ELEMENTS else []


def _array(edge: Any, values: dict[Any, Any]) -> Any:
    if type(edge) is Node:
        return values[edge]
    if type(edge) is ResultEdge:
        return values[edge.node, edge.index]
    return edge.array if isinstance(edge, Tensor) else edge


def _inputs(node: Node, arrays: list[Any]) -> Iterator[Any]:
    for edge, array in zip(node.edges, arrays, strict=True):
        tensor = requires_grad(edge) or isinstance(edge, Tensor)
        yield Tensor(np.asarray(array), requires_grad=requires_grad(edge)) if tensor else array


def _function(node: Node) -> Callable[..., Any]:
    def function(*inputs: Any) -> Any:
        result = node.op.call(*inputs, **node.settings)
        outs = result if isinstance(result, tuple | list) else [result]
        return [out for out in outs if out.is_floating_point()]

    return function
