"""The peak memory of forward and backward, by simulation.

Backward is run on copies of the nodes. Their gradient functions hold blocks, which only count bytes, instead
of arrays, and return uninitialized arrays.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np

from ..core.backward import Node, ResultEdge, producer, propagate, requires_grad
from ..core.checkpointing import Checkpoint
from ..core.closures import arrays_in, root
from ..core.tensor import Tensor
from ..core.versions import VersionCounter
from ..graph.tape import Tape, shapes
from ..graph.trace import expanded_shape
from ..ops.linalg import matmul
from .storages import Storages, arrays_held_by, place_of


class Meter:
    """Counts the bytes in use, and the most at each place. A place is a phase and a node."""

    def __init__(self) -> None:
        self.now = 0
        self.place: Any = None
        self.highest: dict[Any, int] = {}

    def add(self, nbytes: int) -> None:
        self.now += nbytes
        if self.now > self.highest.get(self.place, 0):
            self.highest[self.place] = self.now


class _Block:
    """Memory that is in use as long as this object exists."""

    __slots__ = ("__weakref__", "meter", "nbytes")

    def __init__(self, meter: Meter, nbytes: int) -> None:
        self.meter = meter
        self.nbytes = nbytes
        meter.add(nbytes)

    def __del__(self) -> None:
        self.meter.add(-self.nbytes)


class _Fake(np.ndarray):
    """An array whose memory is counted, as is the memory of all arrays computed from it."""

    meter: ClassVar[Meter]
    block: _Block

    def __array_finalize__(self, before: Any) -> None:
        if self.base is None:
            self.block = _Block(self.meter, self.nbytes)


class Simulation:
    """One run of forward and backward with copies of the nodes."""

    def __init__(self, tape: Tape, storages: Storages, checkpoint: Node | None = None) -> None:
        self.tape = tape
        self.storages = storages
        self.meter = Meter()
        self.checkpoint = checkpoint
        self.fake = type("Fake", (_Fake,), {"meter": self.meter})
        self.blocks: weakref.WeakValueDictionary[Hashable, _Block] = weakref.WeakValueDictionary()
        self.copies: dict[Any, Any] = {}

    def run(self) -> tuple[list[int], str, Node | None]:
        """Run forward and backward. Return the most bytes at each place, and the peak's phase and node."""
        kept = self._forward()
        seeds = [(self._copy(edge), self._new(edge.shape, self._dtype(edge))) for edge in self.tape.outputs]
        self.copies.clear()
        with np.errstate(all="ignore"):
            sums = propagate(seeds)
        copies = [
            self._new(g.shape, g.dtype) for leaf, g in sums.leaf_gradients() if leaf not in sums.owned
        ]  # copies for .grad
        del kept, copies
        highest = self.meter.highest
        phase, node = max(highest, key=highest.__getitem__, default=None) or ("forward", None)
        # self.fake, a class, keeps the nodes alive until the next garbage collection
        self.meter.place = None
        self.meter.highest = {}
        return list(highest.values()), phase, node

    def _forward(self) -> list[_Block | None]:
        """Run forward, and return the blocks of the outputs.

        Results are freed after their last use, unless backward needs them.
        """
        everything = (*(e for node in self.tape.nodes for e in node.edges), *self.tape.outputs)
        uses = Counter(self.storages.of_edge(e) for e in everything if type(producer(e)) is Node)
        living: dict[Hashable, _Block | None] = {}
        for node in self.tape.nodes:
            self._note("forward", node)
            made = [self.storages.of_edge(edge) for edge in _results(node)]
            living |= {token: self._block(token) for token in made}
            self._add_copy(node)
            self._free(node, made, uses, living)
        return [self._block(self.storages.of_edge(edge)) for edge in self.tape.outputs]

    def _free(self, node: Node, made: list[Hashable], uses: Counter, living: dict) -> None:
        """Free the results that are no longer needed after a node."""
        uses.subtract(self.storages.of_edge(edge) for edge in node.edges if type(producer(edge)) is Node)
        for token in (*made, *(self.storages.of_edge(e) for e in node.edges if type(producer(e)) is Node)):
            if uses[token] <= 0:
                living.pop(token, None)

    def _block(self, token: Hashable) -> _Block | None:
        """Return the block of a storage, which all its holders share; None for a leaf."""
        if token in self.storages.leaves:
            return None
        block = self.blocks.get(token)
        if block is None:
            block = self.blocks[token] = _Block(self.meter, self.storages.size[token])
        return block

    def _note(self, phase: str, node: Node) -> None:
        """Set the current place. Everything inside a checkpoint counts as the checkpoint's backward."""
        self.meter.place = (phase, node) if self.checkpoint is None else ("backward", self.checkpoint)

    def _new(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        return self.fake(tuple(shape), dtype)

    # ------------------------------------------------------------ copies of nodes

    def _add_copy(self, node: Node) -> None:
        twin = self.copies[node] = copy(node)
        twin.edges = [self._copy(edge) for edge in node.edges]
        twin.settings = {"held": self._blocks(node.settings)}
        twin.gradients = self._gradients(node)
        twin.version = [VersionCounter() for _ in node.shape] if type(node.shape) is list else None
        twin.scope = twin.hooks = None

    def _copy(self, edge: Any) -> Any:
        if type(edge) is ResultEdge:
            place = place_of(edge)
            if place not in self.copies and edge.node not in self.copies:
                self.copies[place] = self._copy_of(edge)
            elif place not in self.copies:
                self.copies[place] = ResultEdge(self.copies[edge.node], edge.index)
            return self.copies[place]
        if isinstance(edge, Tensor) and edge not in self.copies:
            self.copies[edge] = self._copy_of(edge)
        if type(edge) is Node and edge not in self.copies:  # a node before a checkpoint
            self.copies[edge] = self._copy_of(edge)
        return self.copies[edge] if isinstance(edge, Node | Tensor) else edge

    def _copy_of(self, edge: Any) -> Tensor:
        """Return a leaf of an edge's shape that takes no memory."""
        leaf = Tensor(np.broadcast_to(np.zeros((), self._dtype(edge)), edge.shape))
        leaf._requires_grad = requires_grad(edge)
        return leaf

    def _dtype(self, edge: Any) -> Any:
        return self.storages.dtype[place_of(edge)]

    def _blocks(self, thing: Any) -> list[_Block | None]:
        """Return blocks for the arrays that gradient functions or settings hold."""
        return [self._block(id(root(array))) for array in arrays_held_by(thing)]

    def _gradients(self, node: Node) -> Any:
        """Return gradient functions like the node's, but with blocks instead of arrays."""
        if isinstance(node.op, Checkpoint):
            blocks = self._blocks(node.gradients)
            return lambda g, needs: (blocks, self._recompute(node, g))[1]
        needed = enumerate(zip(node.edges, node.needs, strict=True))
        kinds: list[Any] = [(raw_shape(node, i), self._dtype(e)) if need else None for i, (e, need) in needed]
        if type(node.gradients) is tuple:
            functions = zip(node.gradients, kinds, strict=True)
            return tuple(f and self._pull(node, f, kind) for f, kind in functions)
        blocks = self._blocks(node.gradients)
        is_light = _keeps_nothing(node.gradients)

        def pull_all(g: Any, needs: Sequence[bool]) -> list[Any]:
            self._note("backward", node)
            real = (_try_call(node.gradients, g, needs) if is_light else None) or kinds
            parts = zip(real, kinds, needs, strict=True)
            return [self._result(g, r, *kind) if needed else None for r, kind, needed in parts]

        return lambda g, needs: (blocks, pull_all(g, needs))[1]

    def _pull(self, node: Node, function: Callable, kind: Any) -> Callable:
        blocks = self._blocks(function)
        is_light = _keeps_nothing(function)

        def pull(g: Any) -> Any:
            self._note("backward", node)
            return (blocks, self._result(g, _try_call(function, g) if is_light else None, *kind))[1]

        return pull

    def _result(self, g: Any, r: Any, shape: Any, dtype: Any) -> Any:
        """Return `r` if it is a view of g or was broadcast; otherwise, a new array."""
        upstream = [part for part in (g if type(g) is list else [g]) if part is not None]
        if isinstance(r, np.ndarray):
            memory = root(r)
            if memory.nbytes < r.nbytes or any(memory is root(part) for part in upstream):
                return r
        return self._new(r.shape if isinstance(r, np.ndarray) else shape, dtype)

    def _recompute(self, node: Node, g: Any) -> list[Any]:
        """Simulate forward and backward of the operations inside a checkpoint; return its gradients."""
        self._note("backward", node)
        outs = node.op.segment().recompute()
        inner = Tape([x.node for x in outs], ends=node.edges)
        inner_run = Simulation(inner, Storages(inner), self.checkpoint or node)
        inner_run.meter, inner_run.fake = self.meter, self.fake
        inner_run._forward()
        self._note("backward", node)
        parts = g if type(g) is list else [g]
        seeds = [
            (inner_run._copy(x.node), part) for x, part in zip(outs, parts, strict=True) if part is not None
        ]
        ends = [inner_run.copies.get(place_of(e) if type(e) is ResultEdge else e) for e in node.edges]
        inner_run.copies.clear()
        sums = propagate(seeds)
        found = {e: g if e in sums.owned else self._new(g.shape, g.dtype) for e, g in sums.leaf_gradients()}
        return [None if edge is None else found.get(edge) for edge in ends]


def raw_shape(node: Node, place: int) -> tuple[int, ...]:
    """Return the shape of a gradient function's result: the operand's after broadcasting."""
    shape = node.edges[place].shape
    if node.op is matmul.op and all(len(edge.shape) >= 2 for edge in node.edges):
        return (*shapes(node)[0][:-2], *shape[-2:])
    return expanded_shape(node, shape) or shape


def _results(node: Node) -> list[Any]:
    """Return an edge for each of a node's results."""
    if type(node.shape) is not list:
        return [node]
    return [ResultEdge(node, i) for i in range(len(node.shape))]


def _try_call(function: Callable, *arguments: Any) -> Any:
    """Call a gradient function with uninitialized arrays; return None if it fails."""
    try:
        return function(*arguments)
    except Exception:
        return None


def _keeps_nothing(gradients: Any) -> bool:
    """Return whether gradient functions hold no arrays, so that they only move and scale g."""
    return all(array.ndim == 0 for array in arrays_in(gradients))
