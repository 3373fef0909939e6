"""A function of several inputs and outputs as one number, and its analytic gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import autograd
from ..devices import on_cpu
from ..errors import DtypeError, GradientShapeError
from ..nodes import Node, producer
from ..tensor import Tensor, constant
from .arguments import Arguments


class Function:
    """A function of Arguments, weighted to one number: sum(weights * outputs), the weights random but fixed.

    Every output element moves that number by an amount of its own. At order 2 the outputs are the gradient of
    it, to be differentiated once more.
    """

    def __init__(self, fn: Callable, arguments: Arguments, order: int) -> None:
        self.fn, self.arguments, self.order = fn, arguments, order

    def tensors(self) -> list[Tensor]:
        """The floating outputs."""
        outs = _floating(self.arguments.call(self.fn))
        if self.order == 1:
            return outs
        wanted = self.arguments.leaves
        total = _weighted(outs)
        if not total.requires_grad:
            return [x * 0.0 for x in wanted]
        # the graph below begins at leaves, so that nothing but its path to the output is differentiated
        found = autograd.grad(total, wanted, create_graph=True, allow_unused=True)
        return [g if g is not None else x * 0.0 for g, x in zip(found, wanted, strict=True)]

    def values(self) -> np.ndarray:
        """The output elements in one line, copied."""
        return np.concatenate([on_cpu(out.array).ravel() for out in self.tensors()], dtype=np.float64)

    def weights(self) -> np.ndarray:
        return np.concatenate([w.ravel() for w in _weights(self.tensors())])

    def gradients(self, upstream: float = 1.0) -> list[np.ndarray | GradientShapeError | None]:
        """The analytic gradient of each checked input: None where there is none, or an error in its place."""
        try:
            return self._gradients(self.arguments.leaves, upstream)
        except GradientShapeError:
            return [found for leaf in self.arguments.leaves for found in self._one_gradient(leaf, upstream)]

    def _one_gradient(self, leaf: Tensor, upstream: float) -> list[Any]:
        try:
            return self._gradients([leaf], upstream)
        except GradientShapeError as error:
            return [error]

    def _gradients(self, wanted: list[Tensor], upstream: float) -> list[Any]:
        total = _weighted(self.tensors())
        if not total.requires_grad:
            return [None] * len(wanted)
        found = autograd.grad(total, wanted, upstream, allow_unused=True)
        return [None if g is None else g.numpy() for g in found]

    def uses_other_leaves(self) -> bool:
        """Whether the outputs lead back to tensors that require a gradient, but to none of the inputs."""
        stack = [producer(out.node) for out in self.tensors() if out.node is not None]
        recorded, seen = bool(stack), set(stack)
        while stack:
            for edge in map(producer, stack.pop().edges):
                if any(edge is leaf for leaf in self.arguments.leaves):
                    return False
                if isinstance(edge, Node) and edge not in seen:
                    seen.add(edge)
                    stack.append(edge)
        return recorded


def _floating(result: Any) -> list[Tensor]:
    outs = [result] if isinstance(result, Tensor) else list(result) if isinstance(result, Sequence) else []
    if not outs or not all(isinstance(out, Tensor) for out in outs):
        raise DtypeError(
            f"the function returned {type(result).__name__}, not a tensor or a tuple of them.\n"
            f"Return tensors."
        )
    floating = [out for out in outs if out.is_floating_point()]
    if not floating:
        raise DtypeError(
            f"the function returned {outs[0].dtype}, which has no derivative.\nReturn floating tensors."
        )
    for out in floating:
        if out.dtype != np.float64:
            raise DtypeError(f"the function returned {out.dtype}, too coarse for this.\nCompute in float64.")
    return floating


def _weights(outs: Sequence[Tensor]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [np.asarray(rng.uniform(0.5, 1.5, out.shape)) for out in outs]


def _weighted(outs: Sequence[Tensor]) -> Tensor:
    weighted = [(out * constant(w, out)).sum() for out, w in zip(outs, _weights(outs), strict=True)]
    return sum(weighted[1:], start=weighted[0])
