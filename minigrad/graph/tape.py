"""The recorded operations behind some outputs, which can be recomputed.

A graph does not keep intermediate results: an op's value exists only as long as something refers to it. Rules
draw no random numbers and change nothing, so a rule that is run again on the same arrays returns the same
bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from ..core.backward import Node, ResultEdge, producer
from ..core.devices import as_array
from ..core.errors import GraphError
from ..core.higher_order import check_unchanged
from ..core.tensor import Tensor

Arrays = tuple[np.ndarray, ...]


class Tape:
    """The `nodes` behind some edges, in the order of recording, and the `leaves` that they start from.

    The tape does not go beyond `ends`, edges whose tensors must still exist.
    """

    def __init__(self, edges: Iterable[Any], ends: Iterable[Any] = ()) -> None:
        self.outputs = list(edges)
        self.ends = {producer(edge) for edge in ends if type(producer(edge)) is Node}
        seen = {producer(edge) for edge in self.outputs if type(producer(edge)) is Node}
        stack = list(seen)
        while stack:
            node = stack.pop()
            if node.gradients is None:
                _raise_freed(node)
            for edge in node.edges:
                before = producer(edge)
                if type(before) is Node and before not in seen and before not in self.ends:
                    seen.add(before)
                    stack.append(before)
        self.nodes: list[Node] = sorted(seen, key=attrgetter("number"))
        edges_in_order = [e for node in self.nodes for e in node.edges] + self.outputs
        self.leaves: list[Tensor] = list(dict.fromkeys(e for e in edges_in_order if isinstance(e, Tensor)))

    def run(self, double: bool = False) -> Iterator[tuple[Any, Arrays]]:
        """Yield (leaf or node, its arrays) in the order of recording.

        Results that are no longer in memory are recomputed; all are, in float64, if `double` is True. Arrays
        are freed after their last use.
        """
        uses = self._uses()
        arrays: dict[Any, Arrays] = {}
        for x in self.leaves:
            arrays[x] = (x.array.astype(np.float64) if double and x.is_floating_point() else x.array,)
            yield x, arrays[x]
        for node in self.ends:
            held: Any = tuple(x if x is None else x.array for x in _tensors(node))
            arrays[node] = held
            yield node, arrays[node]
        for node in self.nodes:
            found = None if double else _arrays_in_memory(node)
            if found is None:
                check_unchanged(node, node)
                found = apply(node, arrays, double)
            arrays[node] = found
            yield node, found
            for edge in node.edges:
                source = producer(edge)
                if source in uses and source not in self.ends:
                    uses[source] -= 1
                    if not uses[source]:
                        del arrays[source], uses[source]

    def _uses(self) -> dict[Any, int]:
        """Count the uses of each node's arrays. The arrays of leaves are never freed."""
        uses: dict[Any, int] = {}
        for node in self.nodes:
            for edge in node.edges:
                if type(producer(edge)) is Node:
                    uses[producer(edge)] = uses.get(producer(edge), 0) + 1
        for edge in self.outputs:
            uses.pop(producer(edge), None)
        return uses

    def downstream(self, leaf: Tensor) -> list[Node]:
        """Return the nodes whose values depend on a leaf."""
        reached: set[Any] = {leaf}
        for node in self.nodes:
            if any(producer(edge) in reached for edge in node.edges):
                reached.add(node)
        return [node for node in self.nodes if node in reached]


def look_up(arrays: Mapping[Any, Arrays], edge: Any) -> Any:
    """Return the array of an edge. A number or None is returned unchanged."""
    if type(edge) is ResultEdge:
        return arrays[edge.node][edge.index]
    return arrays[edge][0] if type(edge) is Node or isinstance(edge, Tensor) else edge


def apply(node: Node, arrays: Mapping[Any, Arrays], double: bool = False) -> Arrays:
    """Recompute a node's results from the arrays of its edges; with `double`, in float64."""
    operands = [look_up(arrays, edge) for edge in node.edges]
    if double and node.op.casts and operands[0].dtype == np.float64:
        return (operands[0],)
    with np.errstate(all="ignore"):
        value = node.op.rebuild(operands, node.settings)
    return tuple(as_array(part) for part in (value if type(value) is tuple else (value,)))


def operand_names(op: Any, count: int) -> list[str]:
    """Return the names of an op's `count` array arguments: x, y, or xs[0], xs[1], ... for variadic ones."""
    parameters = inspect.signature(op.source).parameters.values() if hasattr(op, "source") else ()
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            return [f"{p.name}[{i}]" for i in range(count)]
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    return names if len(names) == count else [f"input {i}" for i in range(count)]


def pulled_places(node: Node, contributions: Sequence[tuple[Any, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield the input number and the gradient of each of a node's contributions, see `Observer.on_pull`."""
    place = -1
    for edge, g in contributions:
        place += 1
        while node.edges[place] is not edge or not _has_gradient(node, place):
            place += 1
        yield place, g


def _has_gradient(node: Node, place: int) -> bool:
    """Return whether an input needs a gradient and the node's rule has one."""
    return node.needs[place] and (type(node.gradients) is not tuple or node.gradients[place] is not None)


def shapes(node: Node) -> Sequence[tuple[int, ...]]:
    """Return the shape of each of a node's results."""
    return node.shape if type(node.shape) is list else [node.shape]


def _arrays_in_memory(node: Node) -> Arrays | None:
    """Return a node's results if all still exist unchanged, otherwise None."""
    tensors = _tensors(node)
    if any(
        x is None or (x.version is not None and x.version.modified_at > node.recorded_at) for x in tensors
    ):
        return None
    return tuple(x.array for x in tensors)


def _tensors(node: Node) -> list[Any]:
    """Return the tensors of a node's results, with None for each that was freed."""
    references = node.result if type(node.result) is list else [node.result]
    return [reference() for reference in references]


def _raise_freed(node: Node) -> None:
    raise GraphError(
        f"the graph is gone: {node} was freed by backward().\n"
        f"Trace before loss.backward(); or, to trace later, run the training step within "
        f"`with mg.graph.keep():`, or call backward(retain_graph=True)."
    )
