"""The evidence for a verdict: the two gradients of an input, and what is known about the function."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Verdict(NamedTuple):
    """The description of a mistake in a gradient, and advice on what to do about it."""

    text: str
    advice: str


class Comparison(NamedTuple):
    """An input `x` with its analytic and numeric gradients. `wrong` marks the elements that differ."""

    x: np.ndarray
    analytic: np.ndarray
    numeric: np.ndarray
    wrong: np.ndarray
    atol: float
    rtol: float

    def matches(self, expected: np.ndarray, where: np.ndarray | None = None) -> bool:
        """Return whether the analytic gradient is `expected`, within tolerance, everywhere or at `where`."""
        off = np.abs(self.analytic - expected) > self.atol + self.rtol * np.abs(expected)
        return not (off if where is None else off & where).any()

    @property
    def flat(self) -> np.ndarray:
        """A mask of the elements with zero slope."""
        return np.abs(self.numeric) <= self.atol


class Derivative(NamedTuple):
    """The derivative d y / d x of one output, (*y.shape, *x.shape): numeric, and by backward passes."""

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
        """The difference below which two entries count as equal."""
        return max(self.atol, 1e-6 * float(np.abs(self.numeric).max(initial=0.0)))


class Evidence(NamedTuple):
    """What a verdict on one input may use in addition to its gradients."""

    missing: bool  # whether backward gave no gradient
    lengths: list[tuple[str, int]]  # names and lengths of axes: ("the length of axis 0 of the input", 3)
    outputs: Sequence[np.ndarray]
    others: list[tuple[str, np.ndarray]]  # the other inputs, by their labels
    weights: np.ndarray | None  # the upstream gradient, if the only output has the input's shape
    derivatives: Callable[[], Sequence[Derivative]]  # costs a backward pass for each output element
    # the labels of inputs on which only the numeric derivative depends, or only the analytic one
    used: Callable[[], tuple[list[str], list[str]]]
    order: int


# ---------------------------------------------------------------- the wrong elements


def where_wrong(c: Comparison) -> str:
    """Describe which elements are wrong; "" if all elements with a slope are."""
    right = ~c.wrong & ~c.flat
    count = int(c.wrong.sum())
    if not right.any():
        return ""
    if count == 1:
        return f", only in the element {list(first_index(c.wrong))}"
    return region(c, c.wrong) or f", in {count} of {c.x.size} elements"


def region(c: Comparison, chosen: np.ndarray) -> str:
    """Describe the chosen elements, by a description that excludes right elements with a slope; or ""."""
    right = ~c.wrong & ~c.flat
    for what, holds in _regions(c.x):
        if holds[chosen].all() and not holds[right].any():
            return f", only {what}"
    return ""


def _regions(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield "where the input is negative", x < 0
    yield "where the input is positive", x > 0
    yield "where the input is zero", x == 0
    yield "where the input is above 1 in absolute value", np.abs(x) > 1
    yield "where the input is below 1 in absolute value", np.abs(x) < 1
    for axis, length in enumerate(x.shape):
        for index in range(length if length > 1 else 0):
            chosen = np.zeros(x.shape, bool)
            np.moveaxis(chosen, axis, 0)[index] = True
            yield f"at index {index} of axis {axis}", chosen


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, count + 1):
        yield from itertools.combinations(range(count), size)


def first_index(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])
