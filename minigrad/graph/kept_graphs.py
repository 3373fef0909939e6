"""`keep`, which retains graphs after backward(), with the values that the parameters had.

backward() frees each node after computing its gradients. Under `keep`, the node is restored. The parameters
are copied, since an optimizer changes them in place; `trace`, `why_nan` and `memory` read the copies.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..core.backward import Node, nodes_behind, producer
from ..core.observers import Observer, observe
from ..core.tensor import Tensor
from ..core.versions import version_of


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A leaf at the start of backward(): its array, a copy of its values, and when they last changed."""

    leaf: weakref.ref[Tensor]
    memory: weakref.ref[Any]
    values: Any
    modified_at: int


_parameters: weakref.WeakKeyDictionary[Node, list[_Parameter]] = weakref.WeakKeyDictionary()  # by output
_active: list[_Keeper] = []


class _Keeper(Observer):
    def __init__(self) -> None:
        self.pulled: tuple[Node, Any, Sequence[Any]] | None = None  # the node that backward is about to free

    def on_backward_start(self, tensor: Tensor, g: Any) -> None:
        self.put_back()
        output = producer(tensor.node)
        if output is None:
            return
        edges = [edge for node in nodes_behind([output]) for edge in node.edges]
        leaves = dict.fromkeys(e for e in edges if isinstance(e, Tensor) and e.requires_grad)
        _parameters[output] = [
            _Parameter(weakref.ref(x), weakref.ref(x.array), x.array.copy(), version_of(x).modified_at)
            for x in leaves
        ]

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        self.put_back()
        self.pulled = node, node.gradients, node.edges

    def put_back(self) -> None:
        if self.pulled is not None:
            node, gradients, edges = self.pulled
            node.gradients = gradients
            node.edges = edges
            self.pulled = None


class keep(observe):
    """Context manager that retains the graph after backward(), for `trace`, `why_nan` and `memory`.

    These can be called even after the optimizer's step, and use the parameters as they were at backward().
    Each backward() copies the parameters; the copies and the graph exist as long as the loss does.
    """

    def __init__(self) -> None:
        self.keeper = _Keeper()
        super().__init__(self.keeper)

    def __enter__(self) -> keep:
        _active.append(self.keeper)
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        _active.remove(self.keeper)
        self.keeper.put_back()


@contextmanager
def as_at_backward(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Context manager in which the parameters behind kept outputs have their values from backward()."""
    for keeper in _active:
        keeper.put_back()
    outputs = [producer(x.node) for x in tensors]
    found = [each for output in outputs if output is not None for each in _parameters.get(output, ())]
    changed = []
    try:
        for parameter in found:
            leaf = parameter.leaf()
            if leaf is None or leaf.array is not parameter.memory():
                continue
            version = version_of(leaf)
            if version.modified_at > parameter.modified_at:
                changed.append((leaf, leaf.array.copy(), version, version.modified_at))
                leaf.array[...] = parameter.values
                version.modified_at = parameter.modified_at
        yield
    finally:
        for leaf, values, version, modified_at in reversed(changed):
            leaf.array[...] = values
            version.modified_at = modified_at
