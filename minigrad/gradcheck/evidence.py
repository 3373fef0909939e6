"""What a verdict is made of: two gradients of an input to compare, and what else may be asked of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np


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

    def explains(self, expected: np.ndarray, where: np.ndarray | None = None) -> bool:
        """Whether the analytic gradient is `expected` (within tolerance, at all elements or `where`)."""
        off = np.abs(self.analytic - expected) > self.atol + self.rtol * np.abs(expected)
        return not (off if where is None else off & where).any()

    @property
    def flat(self) -> np.ndarray:
        """Where the slope is zero."""
        return np.abs(self.numeric) <= self.atol


class Derivative(NamedTuple):
    """d y / d x of one output, of shape y.shape + x.shape: numeric, and by backward passes."""

    x: np.ndarray
    y: np.ndarray
    numeric: np.ndarray
    analytic: np.ndarray
    atol: float
    rtol: float

    def same(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.abs(one - other) <= self.tolerance + self.rtol * np.abs(other)

    @property
    def tolerance(self) -> float:
        """The elements that are within noise."""
        return max(self.atol, 1e-6 * float(np.abs(self.numeric).max(initial=0.0)))


class Evidence(NamedTuple):
    """What a verdict on one input may ask for besides its gradients."""

    missing: bool  # there was no gradient
    lengths: list[
        tuple[str, int]
    ]  # what the lengths of axes are called: ("axis 0", 3), ("the output's axis 1", 4)
    outputs: Sequence[np.ndarray]
    others: list[tuple[str, np.ndarray]]  # the other inputs, by their labels
    weights: np.ndarray | None  # the upstream gradient, if there is one output, of the input's shape
    derivatives: Callable[[], Sequence[Derivative]]  # costs a backward pass for each output element


# ---------------------------------------------------------------- which elements


def where_wrong(c: Comparison) -> str:
    """Which elements are wrong, if not all elements with a slope are."""
    right = ~c.wrong & ~c.flat
    count = int(c.wrong.sum())
    if not right.any():
        return ""
    if count == 1:
        return f", only in the element {list(first(c.wrong))}"
    return region(c, c.wrong) or f", in {count} of {c.x.size} elements"


def region(c: Comparison, chosen: np.ndarray) -> str:
    """A description that holds for the chosen elements and for none that is right and has a slope."""
    right = ~c.wrong & ~c.flat
    for what, holds in _regions(c.x):
        if holds[chosen].all() and not holds[right].any():
            return f", only {what}"
    return ""


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


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, count + 1):
        yield from itertools.combinations(range(count), size)


def first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])
