"""What is wrong with a gradient, from two arrays: the analytic gradient and the numeric one.

Each function below is about one common mistake in a derivative, and asks whether the analytic array is what
that mistake would make of the numeric one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ..errors import GradientShapeError


class Verdict(NamedTuple):
    """What is wrong, and what to do about it."""

    text: str
    advice: str


class Comparison(NamedTuple):
    """One input's value `x`, its analytic and numeric gradients; `wrong` marks the elements that differ."""

    x: np.ndarray
    analytic: np.ndarray
    numeric: np.ndarray
    wrong: np.ndarray
    atol: float
    rtol: float

    def explains(self, expected: np.ndarray, wrong_only: bool = False) -> bool:
        """Whether the analytic gradient is `expected` (within tolerance, at the wrong elements or all)."""
        off = np.abs(self.analytic - expected) > self.atol + self.rtol * np.abs(expected)
        return not (off & self.wrong if wrong_only else off).any()


LOOK = (
    "Look at the rule of the op that this element passes through first; mg.gradcheck_sweep varies the step."
)


def verdict_of(c: Comparison, jacobian: Callable[[], Sequence[np.ndarray]], missing: bool) -> Verdict:
    """The verdict on one input that has wrong elements.

    `jacobian` returns d output / d input for each output, for mistakes that concern single outputs; `missing`
    says that there was no gradient.
    """
    if not np.isfinite(c.analytic[c.wrong]).all():
        worst = _first(c.wrong & ~np.isfinite(c.analytic))
        return Verdict(
            f"the gradient is {c.analytic[worst]} at {list(worst)}{_where(c)}",
            "Look for 0 / 0, inf - inf or 0 * inf in the rule, also in the branch that a `where` leaves.",
        )
    for question in (_missing, _factor, _permuted, _summed):
        found = question(c, missing)
        if found:
            return found
    found = _unsummed(c, jacobian())
    if found:
        return found
    return _misplaced(c) or Verdict(f"wrong{_where(c)}" if _where(c) else "", LOOK)


def verdict_of_shapes(error: GradientShapeError) -> Verdict:
    """The verdict on a gradient that does not have its input's shape."""
    shape, expected = error.shape, error.expected
    shapes = f"the gradient has shape {list(shape)}, the input {list(expected)}"
    if sorted(shape) == sorted(expected):
        return Verdict(f"transposed: {shapes}", "Move the gradient's axes back before it is returned.")
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            kept = tuple(n for i, n in enumerate(shape) if i not in axes)
            ones = tuple(1 if i in axes else n for i, n in enumerate(shape))
            if expected in (kept, ones):
                lengths = " and ".join(f"axis {i} (length {shape[i]})" for i in axes)
                return Verdict(
                    f"missing sum over a broadcast axis: {lengths} of the gradient; {shapes}",
                    "Sum the gradient over the axes along which the rule repeats this input.",
                )
    return Verdict(f"of the wrong shape: {shapes}", "Return a gradient of the shape of its input.")


def swapped(c: Comparison, other: Comparison) -> bool:
    """Whether two inputs have each other's gradients."""
    if c.x.shape != other.x.shape or not c.x.size:
        return False
    return c.explains(other.numeric) and other.explains(c.numeric)


# ---------------------------------------------------------------- one mistake each


def _missing(c: Comparison, missing: bool) -> Verdict | None:
    if not c.explains(np.zeros_like(c.numeric), wrong_only=True):
        return None
    kind = "None" if missing else "zero"
    return Verdict(
        f"gradient missing ({kind} where the slope is not){_where(c)}",
        "Return a gradient for this input from the rule, and do not detach (.data, .numpy()).",
    )


def _factor(c: Comparison, missing: bool) -> Verdict | None:
    """Analytic = k numeric. One element alone fits any k, so there only plain fractions count."""
    a, n = c.analytic[c.wrong], c.numeric[c.wrong]
    k = float(a @ n / (n @ n)) if n.any() else 0.0
    if not k or not c.explains(k * c.numeric, wrong_only=True):
        return None
    plain = float(Fraction(k).limit_denominator(12))
    near = abs(plain - k) <= 10 * c.rtol * abs(k) + c.atol
    if (np.abs(n) > c.atol).sum() < 2 and not (near and plain):
        return None
    k = plain if near and plain else k
    if k == -1:
        return Verdict(f"sign flipped (analytic = -numeric){_where(c)}", "Look for a minus sign in the rule.")
    return Verdict(
        f"off by a constant factor (analytic = {k:.6g} x numeric){_length(c, k)}{_where(c)}",
        "Look for a factor that the rule leaves out or has twice: 2, 1/2, the length of an axis.",
    )


def _length(c: Comparison, k: float) -> str:
    """Which axis is as long as the factor, if one is."""
    for i, length in enumerate(c.x.shape):
        if length > 2 and length in (k, round(1 / k, 9)):
            return f"; {length} is the length of axis {i}, as where a mean meets a sum"
    return ""


def _permuted(c: Comparison, missing: bool) -> Verdict | None:
    for axes in itertools.permutations(range(c.x.ndim)) if c.x.ndim < 6 else ():
        moved = c.numeric.transpose(axes)
        if moved.shape == c.x.shape and c.explains(moved):
            how = "" if c.x.ndim == 2 else f" with axes {list(axes)}"
            return Verdict(
                f"transposed (analytic = numeric transposed{how})",
                "Move the gradient's axes back before it is returned.",
            )
    return None


def _summed(c: Comparison, missing: bool) -> Verdict | None:
    for axis, length in enumerate(c.x.shape):
        total = c.numeric.sum(axis, keepdims=True) + np.zeros_like(c.numeric)
        for value, what in ((total, "summed"), (total / max(length, 1), "averaged")):
            if length > 1 and c.explains(value):
                return Verdict(
                    f"{what} over axis {axis}, which is not broadcast (analytic = numeric {what} over it)",
                    f"Do not sum the gradient over axis {axis}: each element has its own.",
                )
    return None


def _unsummed(c: Comparison, jacobians: Sequence[np.ndarray]) -> Verdict | None:
    """Whether only one index of an output's axis counts: the sum over a broadcast axis was left out."""
    for part in jacobians:
        out_axes = part.ndim - c.x.ndim
        others = c.numeric - part.sum(tuple(range(out_axes)))  # what the other outputs give
        for axis, length in enumerate(part.shape[:out_axes]):
            per_index = part.sum(tuple(i for i in range(out_axes) if i != axis))
            for index in range(length if length > 1 else 0):
                if c.explains(per_index[index] + others):
                    return Verdict(
                        f"missing sum over a broadcast axis: only index {index} of the output's axis {axis} "
                        f"(length {length}) counts",
                        "Sum the gradient over that axis: every index of it uses this input.",
                    )
    return None


def _misplaced(c: Comparison) -> Verdict | None:
    a, n = np.sort(c.analytic, axis=None), np.sort(c.numeric, axis=None)
    if c.x.size < 3 or (np.abs(a - n) > c.atol + c.rtol * np.abs(n)).any():
        return None
    return Verdict(
        f"the right numbers in the wrong places{_where(c)}",
        "Look for an index, a flip, a roll or a reshape that the rule does not undo.",
    )


# ---------------------------------------------------------------- which elements


def _where(c: Comparison) -> str:
    """Which elements are wrong, if not all elements with a slope are."""
    right = ~c.wrong & (np.abs(c.numeric) > c.atol)
    count = int(c.wrong.sum())
    if not right.any():
        return ""
    if count == 1:
        return f", only in the element {list(_first(c.wrong))}"
    for what, holds in _regions(c.x):
        if holds[c.wrong].all() and not holds[right].any():
            return f", only {what}"
    return f", in {count} of {c.x.size} elements"


def _regions(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield "where the input is negative", x < 0
    yield "where the input is positive", x > 0
    yield "where the input is zero", x == 0
    yield "where the input is more than 1 in size", np.abs(x) > 1
    yield "where the input is less than 1 in size", np.abs(x) < 1
    for axis, length in enumerate(x.shape):
        for index in range(length if length > 1 else 0):
            chosen = np.zeros(x.shape, bool)
            np.moveaxis(chosen, axis, 0)[index] = True
            yield f"at index {index} of axis {axis}", chosen


def _first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])
