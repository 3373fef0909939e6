"""A function with several inputs and outputs, reduced to a single number, and its analytic gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.backward import Node, producer
from ..core.devices import on_cpu
from ..core.errors import DtypeError, GradientShapeError, MinigradError
from ..core.grad import grad
from ..core.tensor import Tensor, constant
from .arguments import Arguments

Analytic = np.ndarray | GradientShapeError | None  # a gradient, the error raised instead, or None


class GradientFailure(Exception):
    """Raised if a gradient function raises `error`."""

    def __init__(self, error: MinigradError) -> None:
        super().__init__(str(error))
        self.error = error


class Passes(NamedTuple):
    """The gradients of two backward passes over the same graph, and their side effects."""

    first: list[Analytic]
    second: list[Analytic]
    shared: list[bool]  # whether both passes returned the same memory for an input
    changed: str  # what the first pass changed: "output 0", "the upstream gradient g", or ""


class Function:
    """A function of Arguments, reduced to one number: sum(weights * outputs), with fixed random weights.

    Random weights distinguish the output elements. At order 2, the outputs are the gradient of that number,
    which is differentiated again.
    """

    def __init__(self, fn: Callable, arguments: Arguments, order: int) -> None:
        self.fn = fn
        self.arguments = arguments
        self.order = order

    def tensors(self) -> list[Tensor]:
        """Return the floating-point outputs; at order 2, the gradients of the checked inputs."""
        outs = self.outputs()
        if self.order == 1:
            return outs
        wanted = self.arguments.leaves
        pairs = [(out, w) for out, w in zip(outs, _weights(outs), strict=True) if out.requires_grad]
        if not pairs:
            return [x * 0.0 for x in wanted]
        # only the paths from the leaves to the outputs are differentiated
        found = _grad(
            [out for out, _ in pairs], wanted, grad_outputs=[w for _, w in pairs], create_graph=True
        )
        return [g if g is not None else x * 0.0 for g, x in zip(found, wanted, strict=True)]

    def outputs(self) -> list[Tensor]:
        """Return the floating-point outputs of the function itself, at any order."""
        return _floating(self.arguments.call(self.fn))

    def values(self) -> np.ndarray:
        """Return a flat copy of the output elements."""
        return np.concatenate([on_cpu(out.array).ravel() for out in self.tensors()], dtype=np.float64)

    def weights(self) -> np.ndarray:
        return np.concatenate([on_cpu(w.array).ravel() for w in _weights(self.tensors())])

    def gradients(self, scale: float = 1.0) -> list[Analytic]:
        """Return the analytic gradient of each checked input, or its error or None, for g times `scale`."""
        return self.passes(scale).first

    def passes(self, scale: float = 1.0) -> Passes:
        """Compute the gradients by two backward passes over the same graph."""
        every = self.tensors()
        leaves = self.arguments.leaves
        pairs = [(out, w) for out, w in zip(every, _weights(every), strict=True) if out.requires_grad]
        if not pairs:
            return Passes([None] * len(leaves), [None] * len(leaves), [False] * len(leaves), "")
        outs = [out for out, _ in pairs]
        upstream = [Tensor(w.array * scale) for _, w in pairs]
        watched = [(f"output {i}", out) for i, out in enumerate(outs)]
        watched += [("the upstream gradient g", g) for g in upstream]
        before = [on_cpu(x.array).copy() for _, x in watched]
        first = self._gradients(outs, upstream)
        changed = (
            name
            for (name, x), array in zip(watched, before, strict=True)
            if not np.array_equal(on_cpu(x.array), array, equal_nan=True)
        )
        if name := next(changed, ""):
            return Passes([*map(_array, first)], [*map(_array, first)], [False] * len(leaves), name)
        second = self._gradients(outs, upstream)
        shared = [
            any(_share_memory(found, x) for x in (again, *leaves, *outs))
            for found, again in zip(first, second, strict=True)
        ]
        return Passes([*map(_array, first)], [*map(_array, second)], shared, "")

    def _gradients(
        self, outs: list[Tensor], upstream: list[Tensor]
    ) -> list[Tensor | GradientShapeError | None]:
        leaves = self.arguments.leaves
        try:
            return _grad(outs, leaves, grad_outputs=upstream, retain_graph=True)
        except GradientShapeError:  # find the inputs that cause it
            return [found for leaf in leaves for found in self._one_gradient(outs, leaf, upstream)]

    @staticmethod
    def _one_gradient(outs: list[Tensor], leaf: Tensor, upstream: list[Tensor]) -> list[Any]:
        try:
            return _grad(outs, [leaf], grad_outputs=upstream, retain_graph=True)
        except GradientShapeError as error:
            return [error]

    def jacobian(self, leaf: Tensor) -> list[np.ndarray]:
        """Return d output / d leaf for each output, by one backward pass for each output element."""
        return [self._jacobian_of(out, leaf) for out in self.tensors()]

    @staticmethod
    def _jacobian_of(out: Tensor, leaf: Tensor) -> np.ndarray:
        rows = np.zeros(out.shape + leaf.shape)
        for index in np.ndindex(out.shape) if out.requires_grad else ():
            unit = np.zeros(out.shape)
            unit[index] = 1.0
            (g,) = _grad(out, [leaf], grad_outputs=constant(unit, out), retain_graph=True)
            rows[index] = 0.0 if g is None else g.numpy()
        return rows

    def uses_other_leaves(self) -> bool:
        """Return whether the outputs depend on leaves that require a gradient, but on none of the inputs."""
        stack = [producer(out.node) for out in self.tensors() if out.node is not None]
        recorded = bool(stack)
        seen = set(stack)
        while stack:
            for edge in map(producer, stack.pop().edges):
                if any(edge is leaf for leaf in self.arguments.leaves):
                    return False
                if isinstance(edge, Node) and edge not in seen:
                    seen.add(edge)
                    stack.append(edge)
        return recorded


def _grad(outs: Tensor | list[Tensor], leaves: list[Tensor], **options: Any) -> list[Any]:
    try:
        return list(grad(outs, leaves, allow_unused=True, **options))
    except GradientShapeError:
        raise
    except MinigradError as error:
        raise GradientFailure(error) from error


def _array(found: Any) -> Analytic:
    return found.numpy() if isinstance(found, Tensor) else found


def _share_memory(one: Any, other: Any) -> bool:
    """Return whether two tensors share memory on the CPU."""
    a, b = (getattr(x, "array", None) for x in (one, other))
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


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
            f"the function returned {outs[0].dtype}, which has no derivative.\nReturn floating-point tensors."
        )
    for out in floating:
        if out.dtype != np.float64:
            raise DtypeError(
                f"the function returned {out.dtype}, but gradcheck needs float64.\nCompute in float64."
            )
    return floating


def _weights(outs: Sequence[Tensor]) -> list[Tensor]:
    rng = np.random.default_rng(0)
    return [constant(np.asarray(rng.uniform(0.5, 1.5, out.shape)), out) for out in outs]
