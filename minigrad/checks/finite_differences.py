"""Slopes by finite differences, for `gradcheck` and for the gradient checks of a traced graph.

An element x is moved by a step h to either side. The slopes (f(x+h) - f(x)) / h and (f(x) - f(x-h)) / h
differ by h f'' if f is smooth, and by an amount that does not depend on h at a kink. Their mean, the central
difference, has an error of h^2 f''' / 6, plus the rounding error of f divided by h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import OptionError

LEAST_JUMP = 1e-4  # if the value changes by more than this within a step, it may jump on both sides
CLOSER = 16  # the factor between the two steps that distinguish a kink from a curve


class Slopes(NamedTuple):
    """The slopes at one element for one step; `error` bounds their rounding error."""

    central: float
    left: float
    right: float
    error: float

    @property
    def gap(self) -> float:
        return abs(self.right - self.left)


class SlopeArrays(NamedTuple):
    """The slopes at each element of an input, and masks of kinks and jumps."""

    central: np.ndarray
    left: np.ndarray
    right: np.ndarray
    kink: np.ndarray
    jump: np.ndarray


class FiniteDifferences:
    """Finite differences of `weights @ values()`.

    `values()` computes the flattened outputs from arrays that are changed in place and restored; `base` is
    its result at the unchanged inputs.
    """

    def __init__(self, values: Callable[[], np.ndarray], weights: np.ndarray, base: np.ndarray) -> None:
        self.values = values
        self.weights = weights
        self.base = base
        self.rounding = 8 * np.finfo(np.float64).eps * float(np.abs(base) @ np.abs(weights))

    def evaluate_moved(self, array: np.ndarray, index: Any, eps: float) -> tuple[Any, Any, float, float]:
        """Return the outputs one step above and below, and the two steps after rounding."""
        before = array[index].copy()  # on a GPU, indexing returns a view
        try:
            array[index] = before + eps
            up, above = float((array[index] - before).min()), self.values()
            array[index] = before - eps
            down, below = float((before - array[index]).min()), self.values()
        finally:
            array[index] = before
        if not (up and down):
            raise OptionError(
                f"eps={eps:g} is too small for the element {float(before.max()):g}.\nUse a larger eps."
            )
        for moved in (above, below):
            if moved.shape != self.base.shape:
                raise OptionError(
                    f"the function returned {self.base.size} numbers, but {moved.size} one step away.\n"
                    f"Its shapes must not depend on the values; use where()."
                )
        return above, below, up, down

    def slopes_at(self, array: np.ndarray, index: Any, eps: float) -> Slopes:
        """Return the slopes at one element, or with all elements of a mask moved together."""
        above, below, up, down = self.evaluate_moved(array, index, eps)
        with np.errstate(invalid="ignore"):  # infinities that cancel are reported as NaN
            return Slopes(
                float(self.weights @ (above - below)) / (up + down),
                float(self.weights @ (self.base - below)) / down,
                float(self.weights @ (above - self.base)) / up,
                self.rounding / eps,
            )

    def slopes(self, array: np.ndarray, eps: float, atol: float, rtol: float) -> SlopeArrays:
        """Return the slopes at every element. A smaller step distinguishes a kink from a curve."""
        found = SlopeArrays(*(np.zeros(array.shape, kind) for kind in (float, float, float, bool, bool)))
        for index in np.ndindex(array.shape):
            slopes = self.slopes_at(array, index, eps)
            gap = slopes.gap
            if gap > atol + rtol * abs(slopes.central) + CLOSER * slopes.error:
                slopes = self.slopes_at(array, index, eps / CLOSER)
                found.kink[index] = slopes.gap > gap / 4
                found.jump[index] = slopes.gap > gap * 4
            elif abs(slopes.central) * eps > LEAST_JUMP:  # perhaps a jump on both sides
                closer = self.slopes_at(array, index, eps / CLOSER)
                if all(abs(c) > 4 * abs(s) for c, s in zip(closer[:3], slopes[:3], strict=True)):
                    slopes = self._slopes_beside_jump(array, index, eps)
                    found.kink[index] = found.jump[index] = True
            found.central[index], found.left[index], found.right[index] = slopes[:3]
        return found

    def _slopes_beside_jump(self, array: np.ndarray, index: Any, eps: float) -> Slopes:
        """Return the slopes one step to the left and to the right of a jump."""
        above, below, up, down = self.evaluate_moved(array, index, eps)
        further_above, further_below, further_up, further_down = self.evaluate_moved(array, index, 2 * eps)
        left = float(self.weights @ (below - further_below)) / (further_down - down)
        right = float(self.weights @ (further_above - above)) / (further_up - up)
        return Slopes((left + right) / 2, left, right, self.rounding / eps)

    def slopes_together(
        self, array: np.ndarray, s: SlopeArrays, eps: float, atol: float, rtol: float
    ) -> Slopes | None:
        """Return the slopes with all elements at kinks moved together; None if there is a kink, too.

        Each of several elements that tie for a maximum is at a kink, but moved together they have a slope.
        With fewer than two kinks, or with a jump, the result is None.
        """
        if s.kink.sum() < 2 or s.jump.any():
            return None
        slopes = self.slopes_at(array, s.kink, eps)
        smooth = slopes.gap <= atol + rtol * abs(slopes.central) + CLOSER * slopes.error
        return slopes if smooth else None

    def jacobian(self, array: np.ndarray, eps: float) -> np.ndarray:
        """Return d output element / d input element, of shape (outputs, *array.shape)."""
        columns = np.zeros((self.base.size, *array.shape))
        for index in np.ndindex(array.shape):
            above, below, up, down = self.evaluate_moved(array, index, eps)
            columns[(slice(None), *index)] = (above - below) / (up + down)
        return columns
