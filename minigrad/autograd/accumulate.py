"""Adding up gradients: the only place that knows who owns an array, and so which may be added into.

A tensor that is used twice gets the sum of two gradients (the multivariable chain rule). The first that
arrives may share memory with the gradient that it was made from, or with another input's, so the engine adds
in place only into arrays that nobody else refers to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ..devices import HALF, array_module, float32, is_writeable
from ..errors import GradientShapeError, ShapeError
from ..nodes import Node, Output
from ..tensor import Tensor
from ..versions import bump_version, root
from .hooks import run_hooks


class GradientSums:
    """For each edge, the sum of the gradients that have arrived so far.

    `owned` are the edges whose sum is an array that nobody else refers to. `keep_grad` says whether
    `retain_grad()` leaves gradients on tensors.
    """

    def __init__(self, create_graph: bool = False, keep_grad: bool = True) -> None:
        self.sums: dict[Any, Any] = {}
        self.owned: set[Any] = set()
        self.arrays, self.keep_grad = not create_graph, keep_grad  # else the gradients are Tensors

    def add(self, edge: Any, g: Any, source: Any) -> None:
        """Add the gradient `g` of an edge, which a rule made from `source`.

        It is a new array, or `source` itself or a view of it.
        """
        if g.shape != edge.shape:
            g = unbroadcast(g, edge.shape)
        total = self.sums.get(edge)
        if total is None:
            self.sums[edge] = g
            if type(edge) is not Node and self.arrays and _is_new(g, source):  # leaves keep theirs as .grad
                self.owned.add(edge)
        elif edge in self.owned:
            total += g
        elif self.arrays and _is_new(g, source):
            g += total
            self.sums[edge] = g
            self.owned.add(edge)
        else:
            self.sums[edge] = total + g

    def take(self, node: Node) -> Any:
        """Remove and return the gradient of a node's result, after its hooks; None if none has arrived.

        Of a node with several results a list, with None for each that none has arrived at.
        """
        if type(node.shape) is tuple:
            g = self.sums.pop(node, None)
        else:
            parts: list[Any] = [None] * len(node.shape)
            for edge in [e for e in self.sums if type(e) is Output and e.node is node]:
                parts[edge.index] = self._after_hooks(edge, self.sums.pop(edge))
            g = parts if any(part is not None for part in parts) else None
        return self._after_hooks(node, g) if node.hooks and g is not None else g

    def of_leaves(self, wanted: Collection[Any] | None = None) -> Iterator[tuple[Tensor, Any]]:
        """(leaf, its gradient after its hooks) once the walk is done: all, or those that are wanted."""
        for edge, g in self.sums.items():
            is_leaf = type(edge) is not Node and type(edge) is not Output
            if is_leaf and (wanted is None or edge in wanted):
                yield edge, self._after_hooks(edge, g) if edge.hooks else g

    def _after_hooks(self, edge: Any, g: Any) -> Any:
        replaced = run_hooks(edge, g, self.keep_grad)
        if replaced is not g:  # a hook may return an array that somebody else refers to
            self.owned.discard(edge)
        return replaced

    def as_tensor(self, edge: Any, g: Any) -> Tensor:
        """The gradient of an edge as a Tensor of its own, which the caller may change."""
        if isinstance(g, Tensor):
            return g
        if edge in self.owned:
            self.owned.discard(edge)  # the same edge asked for a second time gets a copy
            return Tensor(g)
        return Tensor(array_module(g).array(g))


def _is_new(g: Any, source: Any) -> bool:
    """Whether an array that a rule made from `source` shares no memory with it: one may add into it."""
    if g is source or not g.ndim:
        return False
    return g.base is None or (is_writeable(g) and root(g) is not root(source))


def unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum `g` over the axes along which an operand of `shape` was broadcast."""
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


def accumulate_grad(leaf: Tensor, g: Any, owned: bool) -> None:
    """Add `g`, an array (kept without a copy only if `owned`) or a Tensor with a graph, to `leaf.grad`."""
    grad = leaf.grad
    if grad is None:
        if isinstance(g, Tensor):
            leaf.grad = g.clone()
        else:
            leaf.grad = Tensor(g if owned else array_module(g).array(g))
        return
    if grad.shape != leaf.shape:
        raise ShapeError(
            f"`.grad` has shape {grad.shape}, its tensor has shape {leaf.shape}.\n"
            f"Assign a gradient of the tensor's shape, or None."
        )
    if isinstance(g, Tensor):
        leaf.grad = grad + g
    elif grad.requires_grad:
        leaf.grad = Tensor(grad.array + g)
    else:
        bump_version(grad, "backward")
        grad.array += g
