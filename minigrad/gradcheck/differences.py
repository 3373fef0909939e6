"""Slopes by finite differences, and the gradients that they are held against.

An element x is moved by a step h to either side. The slopes (f(x+h) - f(x)) / h and (f(x) - f(x-h)) / h
differ by h f'' where f is smooth, and by as much for every h where it has a kink; their mean, the central
difference, is off by h^2 f''' / 6, and by the rounding of f divided by h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import autograd
from ..devices import on_cpu
from ..errors import DtypeError, GradientShapeError, OptionError
from ..tensor import Tensor, constant
from .arguments import Arguments

CLOSER = 16  # how much smaller the step is that tells a kink from a curve


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
        # a leaf stands in the graph below, so that nothing but its path to the output is differentiated
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
        stack = [autograd.maker(out.node) for out in self.tensors() if out.node is not None]
        recorded, seen = bool(stack), set(stack)
        while stack:
            for edge in map(autograd.maker, stack.pop().edges):
                if any(edge is leaf for leaf in self.arguments.leaves):
                    return False
                if isinstance(edge, autograd.Node) and edge not in seen:
                    seen.add(edge)
                    stack.append(edge)
        return recorded


def _floating(result: Any) -> list[Tensor]:
    outs = [result] if isinstance(result, Tensor) else list(result) if isinstance(result, Sequence) else []
    if not outs or not all(isinstance(out, Tensor) for out in outs):
        raise DtypeError(
            f"the function gave {type(result).__name__}, not a tensor or a tuple of them.\nReturn tensors."
        )
    floating = [out for out in outs if out.is_floating_point()]
    if not floating:
        raise DtypeError(
            f"the function gave {outs[0].dtype}, which has no derivative.\nReturn floating tensors."
        )
    for out in floating:
        if out.dtype != np.float64:
            raise DtypeError(f"the function gave {out.dtype}, too coarse for this.\nCompute in float64.")
    return floating


def _weights(outs: Sequence[Tensor]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [np.asarray(rng.uniform(0.5, 1.5, out.shape)) for out in outs]


def _weighted(outs: Sequence[Tensor]) -> Tensor:
    weighted = [(out * constant(w, out)).sum() for out, w in zip(outs, _weights(outs), strict=True)]
    return sum(weighted[1:], start=weighted[0])


# ---------------------------------------------------------------- slopes


class Slopes(NamedTuple):
    """Of the weighted function at each element of an input, and where they tell of a kink."""

    central: np.ndarray
    left: np.ndarray
    right: np.ndarray
    kink: np.ndarray
    jump: np.ndarray


class Differences:
    """Finite differences of a function around its `base`, the output elements at the inputs as they are."""

    def __init__(self, function: Function, base: np.ndarray) -> None:
        self.function, self.base, self.weights = function, base, function.weights()
        self.rounding = 8 * np.finfo(np.float64).eps * float(np.abs(base) @ np.abs(self.weights))

    def moved(self, array: np.ndarray, index: tuple[int, ...], eps: float) -> tuple[Any, Any, float, float]:
        """The outputs a step above and below, and those steps as floating point made them."""
        before = array[index].copy()  # of an array on a GPU it is a view
        try:
            array[index] = before + eps
            up, above = float(array[index] - before), self.function.values()
            array[index] = before - eps
            down, below = float(before - array[index]), self.function.values()
        finally:
            array[index] = before
        if not (up and down):
            raise OptionError(
                f"a step of {eps:g} is lost beside the element {float(before):g}.\nUse a larger eps."
            )
        for moved in (above, below):
            if moved.shape != self.base.shape:
                raise OptionError(
                    f"the function gave {self.base.size} numbers, and {moved.size} a step away at "
                    f"{[int(i) for i in index]}.\nIts shapes must not depend on the numbers; use where()."
                )
        return above, below, up, down

    def at(self, array: np.ndarray, index: tuple[int, ...], eps: float) -> tuple[float, float, float]:
        """The central, left and right slope."""
        above, below, up, down = self.moved(array, index, eps)
        with np.errstate(invalid="ignore"):  # the infinities that cancel are reported as NaN
            return (
                float(self.weights @ (above - below)) / (up + down),
                float(self.weights @ (self.base - below)) / down,
                float(self.weights @ (above - self.base)) / up,
            )

    def slopes(self, array: np.ndarray, eps: float, atol: float, rtol: float) -> Slopes:
        """At every element. Where the sides differ a smaller step tells a bend from a kink."""
        found = Slopes(*(np.zeros(array.shape, kind) for kind in (float, float, float, bool, bool)))
        for index in np.ndindex(array.shape):
            central, left, right = self.at(array, index, eps)
            gap = abs(right - left)
            if gap > atol + rtol * abs(central) + CLOSER * self.rounding / eps:
                central, left, right = self.at(array, index, eps / CLOSER)
                closer = abs(right - left)
                found.kink[index] = closer > gap / 4
                found.jump[index] = closer > gap * 4
            found.central[index], found.left[index], found.right[index] = central, left, right
        return found

    def jacobian(self, array: np.ndarray, eps: float) -> np.ndarray:
        """d output element / d input element, of shape (outputs, *array.shape)."""
        columns = np.zeros((self.base.size, *array.shape))
        for index in np.ndindex(array.shape):
            above, below, up, down = self.moved(array, index, eps)
            columns[(slice(None), *index)] = (above - below) / (up + down)
        return columns
