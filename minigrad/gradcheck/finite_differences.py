"""Slopes by finite differences: the one engine of `gradcheck` and of the checks in a traced graph.

An element x is moved by a step h to either side. The slopes (f(x+h) - f(x)) / h and (f(x) - f(x-h)) / h
differ by h f'' where f is smooth, and by as much for every h where it has a kink. Their mean, the central
difference, is off by h^2 f''' / 6, and by the rounding of f divided by h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import OptionError

LEAST_JUMP = 1e-4  # how much the value must change within a step for a jump on both sides to be suspected
CLOSER = 16  # how much smaller the step is that tells a kink from a curve


class Slopes(NamedTuple):
    """The slopes at one element for one step; `error` is what rounding may do to them."""

    central: float
    left: float
    right: float
    error: float

    @property
    def gap(self) -> float:
        return abs(self.right - self.left)


class SlopeArrays(NamedTuple):
    """The slopes at each element of an input, and where they tell of a kink."""

    central: np.ndarray
    left: np.ndarray
    right: np.ndarray
    kink: np.ndarray
    jump: np.ndarray


class FiniteDifferences:
    """Finite differences of `weights @ values()`.

    `values()` computes the output elements in one line from arrays that are moved in place and restored;
    `base` are the elements at the inputs as they are.
    """

    def __init__(self, values: Callable[[], np.ndarray], weights: np.ndarray, base: np.ndarray) -> None:
        self.values = values
        self.weights = weights
        self.base = base
        self.rounding = 8 * np.finfo(np.float64).eps * float(np.abs(base) @ np.abs(weights))

    def moved(self, array: np.ndarray, index: Any, eps: float) -> tuple[Any, Any, float, float]:
        """The outputs a step above and below, and those steps as floating point made them."""
        before = array[index].copy()  # of an array on a GPU it is a view
        try:
            array[index] = before + eps
            up, above = float((array[index] - before).min()), self.values()
            array[index] = before - eps
            down, below = float((before - array[index]).min()), self.values()
        finally:
            array[index] = before
        if not (up and down):
            raise OptionError(
                f"a step of {eps:g} is lost next to the element {float(before.max()):g}.\nUse a larger eps."
            )
        for moved in (above, below):
            if moved.shape != self.base.shape:
                raise OptionError(
                    f"the function returned {self.base.size} numbers, and {moved.size} a step away.\n"
                    f"Its shapes must not depend on the numbers; use where()."
                )
        return above, below, up, down

    def at(self, array: np.ndarray, index: Any, eps: float) -> Slopes:
        """The slopes at one element, or where all that a mask marks move together."""
        above, below, up, down = self.moved(array, index, eps)
        with np.errstate(invalid="ignore"):  # infinities that cancel are reported as NaN
            return Slopes(
                float(self.weights @ (above - below)) / (up + down),
                float(self.weights @ (self.base - below)) / down,
                float(self.weights @ (above - self.base)) / up,
                self.rounding / eps,
            )

    def slopes(self, array: np.ndarray, eps: float, atol: float, rtol: float) -> SlopeArrays:
        """The slopes at every element. Where the sides differ a smaller step tells a curve from a kink."""
        found = SlopeArrays(*(np.zeros(array.shape, kind) for kind in (float, float, float, bool, bool)))
        for index in np.ndindex(array.shape):
            slopes = self.at(array, index, eps)
            gap = slopes.gap
            if gap > atol + rtol * abs(slopes.central) + CLOSER * slopes.error:
                slopes = self.at(array, index, eps / CLOSER)
                found.kink[index] = slopes.gap > gap / 4
                found.jump[index] = slopes.gap > gap * 4
            elif abs(slopes.central) * eps > LEAST_JUMP:  # on both sides, perhaps
                closer = self.at(array, index, eps / CLOSER)
                if all(abs(c) > 4 * abs(s) for c, s in zip(closer[:3], slopes[:3], strict=True)):
                    slopes = self._beside(array, index, eps)
                    found.kink[index] = found.jump[index] = True
            found.central[index], found.left[index], found.right[index] = slopes[:3]
        return found

    def _beside(self, array: np.ndarray, index: Any, eps: float) -> Slopes:
        """The slopes a step to the left and to the right of an element at which the function jumps."""
        above, below, up, down = self.moved(array, index, eps)
        further_above, further_below, further_up, further_down = self.moved(array, index, 2 * eps)
        left = float(self.weights @ (below - further_below)) / (further_down - down)
        right = float(self.weights @ (further_above - above)) / (further_up - up)
        return Slopes((left + right) / 2, left, right, self.rounding / eps)

    def together(
        self, array: np.ndarray, s: SlopeArrays, eps: float, atol: float, rtol: float
    ) -> Slopes | None:
        """The slopes where the elements at kinks all move by one step, if they are several and it is smooth.

        Of elements that tie for a maximum each has a kink, but all together have a slope.
        """
        if s.kink.sum() < 2 or s.jump.any():
            return None
        slopes = self.at(array, s.kink, eps)
        smooth = slopes.gap <= atol + rtol * abs(slopes.central) + CLOSER * slopes.error
        return slopes if smooth else None

    def jacobian(self, array: np.ndarray, eps: float) -> np.ndarray:
        """d output element / d input element, of shape (outputs, *array.shape)."""
        columns = np.zeros((self.base.size, *array.shape))
        for index in np.ndindex(array.shape):
            above, below, up, down = self.moved(array, index, eps)
            columns[(slice(None), *index)] = (above - below) / (up + down)
        return columns
