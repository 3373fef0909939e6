"""The storage of each result of a tape, and the operations that hold it for backward.

Gradient functions hold arrays. Whether such an array is an operation's result, a view of an operand, or
neither, is found by recomputing the results and comparing them.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Hashable
from typing import Any

import numpy as np

from ..core.backward import Node, ResultEdge, producer
from ..core.closures import arrays_in, root
from ..core.devices import array_module, is_array
from ..core.dtypes import is_floating
from ..graph.tape import Tape

Place = tuple[Any, int]  # (node, number of its result) or (leaf, 0)


class Storages:
    """The storage `of` each result, the storages that each node `keeps`, and their `size` in bytes.

    A storage is identified by a token. The storages of `leaves` always exist.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.size: dict[Hashable, int] = {}
        self.of: dict[Place, Hashable] = {}
        self.keeps: dict[Node, tuple[Hashable, ...]] = {}
        self.leaves = {id(root(x.array)) for x in tape.leaves}
        self.dtype: dict[Place, np.dtype] = {}
        self._same: dict[Hashable, Hashable] = {}
        arrays = {node: arrays_held_by((node.gradients, node.settings)) for node in tape.nodes}
        for node, found in arrays.items():
            for array in found:
                self.size[id(root(array))] = root(array).nbytes
            self.keeps[node] = tuple(dict.fromkeys(id(root(array)) for array in found))
        self._find_storages(arrays)

    def of_edge(self, edge: Any) -> Hashable:
        """Return the storage of an edge's result."""
        token = self.of[place_of(edge)]
        while token in self._same:
            token = self._same[token]
        return token

    def _find_storages(self, arrays: dict[Node, list[np.ndarray]]) -> None:
        users = defaultdict(list)
        for node in self.tape.nodes:
            for edge in node.edges:
                users[producer(edge)].append(node)
        roots: dict[Place, Any] = {}
        for thing, results in self.tape.run():
            near = [array for node in _nearby_users(thing, users) for array in arrays.get(node, ())]
            for i, result in enumerate(results):
                if result is not None:
                    self.dtype[thing, i] = result.dtype
                    self.of[thing, i] = self._storage(thing, i, result, near, roots)
                    roots[thing, i] = weakref.ref(root(result))

    def _storage(
        self, thing: Any, i: int, result: np.ndarray, near: list, roots: dict[Place, Any]
    ) -> Hashable:
        """Return the storage of a result. A recomputed result is compared with the arrays in `near`."""
        memory = root(result)
        is_leaf = type(thing) is not Node or thing in self.tape.ends
        if is_leaf:
            self.leaves.add(id(memory))
        if is_leaf or id(memory) in self.size:
            self.size.setdefault(id(memory), memory.nbytes)
            return id(memory)
        token = self._viewed_storage(thing, memory, roots)
        held = None if token in self.leaves else next((root(a) for a in near if _equal(a, result)), None)
        if token is None:
            token = (thing, i) if held is None else id(held)
            self.size.setdefault(token, memory.nbytes)
        elif held is not None and isinstance(token, tuple):
            self._same[token] = token = id(held)
        return token

    def _viewed_storage(self, node: Node, memory: Any, roots: dict[Place, Any]) -> Hashable | None:
        """Return the storage of the operand that a result is a view of, or None."""
        for edge in node.edges:
            place = place_of(edge)
            if place in roots and roots[place]() is memory:
                return self.of_edge(edge)
        return None


def place_of(edge: Any) -> Place:
    """Return (node or leaf, number of its result) for an edge."""
    return (edge.node, edge.index) if type(edge) is ResultEdge else (edge, 0)


def arrays_held_by(thing: Any) -> list[np.ndarray]:
    """Return the arrays that gradient functions or settings hold."""
    return [array for array in arrays_in(thing) if is_array(array) and array.nbytes]


def _nearby_users(thing: Any, users: dict[Any, list[Node]]) -> list[Node]:
    """Return a node and the nodes that use its result, or a view of it."""
    found = [thing] if type(thing) is Node else []
    stack = [thing]
    while stack:
        for user in users[stack.pop()]:
            if user not in found:
                found.append(user)
                if getattr(user.op, "view", False):
                    stack.append(user)
    return found


def _equal(held: np.ndarray, result: np.ndarray) -> bool:
    """Return whether a held array has the elements of a result, perhaps in another shape."""
    if held.size != result.size or held.dtype != result.dtype or held.size < 2:
        return False
    same_shape = held.shape == result.shape
    a, b = (held, result) if same_shape else (held.reshape(-1), result.reshape(-1))
    corner = tuple(slice(4) for _ in a.shape)
    nan = is_floating(a.dtype)
    return _same(a[corner], b[corner], nan) and _same(a, b, nan)


def _same(a: np.ndarray, b: np.ndarray, nan: bool) -> bool:
    return bool(array_module(a).array_equal(a, b, equal_nan=nan))
