"""The comparison of an input's two gradients: which elements differ, which are at kinks, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.errors import GradientShapeError
from . import verdicts
from .evidence import Comparison, Evidence, Verdict
from .finite_differences import SlopeArrays, Slopes
from .function import Analytic
from .report import GradcheckReport, Index, InputErrors, Kink, label


class Measured(NamedTuple):
    """The measurements of one input: its number and name, the result of backward, and both gradients."""

    number: int
    name: str
    found: Analytic
    slopes: SlopeArrays
    compared: Comparison
    tie: float | None = None  # the slope of all elements at kinks moved together, if wrong


def measure(
    number: int, name: str, x: np.ndarray, found: Analytic, slopes: SlopeArrays, atol: float, rtol: float
) -> Measured:
    """Compare an input's analytic gradient with its slopes.

    At a kink, the numeric gradient is the slope between the left and the right slope that is nearest to the
    analytic gradient; at a jump, it is the left or the right slope, whichever is nearer.
    """
    analytic = found if isinstance(found, np.ndarray) else np.full(x.shape, 0.0 if found is None else np.nan)
    low = np.minimum(slopes.left, slopes.right)
    high = np.maximum(slopes.left, slopes.right)
    inside = np.where(np.isfinite(analytic), np.clip(analytic, low, high), slopes.central)
    numeric = np.where(slopes.kink, inside, slopes.central)
    to_left = np.abs(analytic - slopes.left) < np.abs(analytic - slopes.right)
    numeric = np.where(slopes.jump, np.where(to_left, slopes.left, slopes.right), numeric)
    wrong = ~(np.abs(analytic - numeric) <= atol + rtol * np.abs(numeric))
    return Measured(number, name, found, slopes, Comparison(x, analytic, numeric, wrong, atol, rtol))


def mark_ties(m: Measured, together: Slopes | None) -> Measured:
    """Mark the elements at kinks as wrong if their gradients do not add up to the slope `together`.

    `together` are the slopes when all these elements are moved by the same step, or None.
    """
    if together is None or not isinstance(m.found, np.ndarray):
        return m
    c = m.compared
    kink = m.slopes.kink
    off = together.central - float(c.analytic[kink].sum())
    if abs(off) <= 10 * (c.atol + c.rtol * abs(together.central)) + together.error:
        return m
    numeric = np.where(kink, c.analytic + off / kink.sum(), c.numeric)
    return m._replace(compared=c._replace(numeric=numeric, wrong=c.wrong | kink), tie=together.central)


def kinks_of(m: Measured) -> list[Kink]:
    """Return the elements of an input at which there is no derivative."""
    s, c = m.slopes, m.compared
    places = [tuple(index) for index in np.argwhere(s.kink).tolist()]
    return [
        Kink(
            m.number, m.name, i, float(s.left[i]), float(s.right[i]), float(c.analytic[i]),
            jump=bool(s.jump[i]), passed=not c.wrong[i],
        )
        for i in places
    ]  # fmt: skip


def errors_of(m: Measured, verdict: Verdict) -> InputErrors:
    """Return the errors of an input and its worst element."""
    c = m.compared
    head = (m.number, m.name, c.x.shape, c.x.size, int(c.wrong.sum()))
    if not c.x.size:
        return InputErrors(*head, -np.inf, 0.0, (), 0.0, 0.0)
    off = np.abs(c.analytic - c.numeric)
    errors = np.where(np.isfinite(off), off - c.rtol * np.abs(c.numeric), np.inf)
    relative = np.where(np.isfinite(off), off / np.maximum(1, np.abs(c.numeric)), np.inf)
    # if no element could be compared, show the one with the largest slope
    worst = _largest(np.abs(c.numeric) if isinstance(m.found, GradientShapeError) else errors)
    numbers = (float(errors[worst]), float(relative.max()), worst)
    return InputErrors(*head, *numbers, float(c.analytic[worst]), float(c.numeric[worst]), *verdict)


def verdict_on(m: Measured, everything: Sequence[Measured], evidence: Evidence) -> Verdict:
    """Return the verdict on one input's gradient. It is empty if nothing is wrong."""
    c = m.compared
    if not c.wrong.any():
        return Verdict("", "")
    if isinstance(m.found, GradientShapeError):
        other = next((other for other in everything if other is not m and _shapes_swapped(m, other)), None)
        return verdicts.verdict_of_shapes(m.found) if other is None else _swapped_verdict(m, other)
    if not np.isfinite(c.numeric[c.wrong]).all():
        return Verdict(
            "the function is not finite one step away, at the edge of its domain",
            "Check further within its domain, or with a smaller eps.",
        )
    if not (c.wrong & ~m.slopes.kink).any() and np.isfinite(c.analytic[c.wrong]).all():
        if m.tie is not None:
            total = float(c.analytic[m.slopes.kink].sum())
            return Verdict(
                f"wrong at a tie: {int(m.slopes.kink.sum())} elements at kinks have the slope {m.tie:.6g} "
                f"together, but their gradients add up to {total:.6g}",
                "Pass the gradient to one of the tied elements, or divide it among them.",
            )
        kink = next(kink for kink in kinks_of(m) if not kink.passed)
        what, neither, choice = (
            ("a jump", "neither of them", "the slope of the side that does not jump")
            if kink.jump
            else ("a kink", "not between them", "a slope between the two there (a subgradient)")
        )
        return Verdict(
            f"wrong only at {what}: there is no derivative at {list(kink.index)}, the slope is "
            f"{kink.left:.6g} to the left and {kink.right:.6g} to the right, and {kink.analytic:.6g} "
            f"is {neither}",
            f"Return {choice}, preferably PyTorch's choice.",
        )
    for other in everything:
        if other is not m and verdicts.are_swapped(c, other.compared):
            swapped = _swapped_verdict(m, other)
            return swapped._replace(text=f"{swapped.text}{verdicts.exchange_in(evidence)}")
    return verdicts.verdict_of(c, evidence)


def _swapped_verdict(m: Measured, other: Measured) -> Verdict:
    one, two = sorted((m, other), key=lambda each: each.number)
    return Verdict(
        f"gradient to the wrong input: {label(one.number, one.name)} and "
        f"{label(two.number, two.name)} have each other's",
        "Return the gradients in the order of the rule's arrays.",
    )


def _shapes_swapped(m: Measured, other: Measured) -> bool:
    """Return whether two gradients of wrong shape each have the shape of the other input."""
    both = isinstance(m.found, GradientShapeError) and isinstance(other.found, GradientShapeError)
    return both and (m.found.shape, other.found.shape) == (other.compared.x.shape, m.compared.x.shape)  # type: ignore[union-attr]


def summarize(order: int, inputs: tuple[InputErrors, ...], kinks: tuple[Kink, ...]) -> GradcheckReport:
    """Return the report on all inputs, with the numbers of the worst element."""
    filled = [one for one in inputs if one.elements]
    if not filled:
        return GradcheckReport(0, -np.inf, inputs[0].input, (), 0.0, 0.0, True, inputs[0].name, order)
    worst = max(filled, key=lambda one: (one.failing > 0, one.worst_error))
    others = [label(one.input, one.name) for one in inputs if one.failing and one is not worst]
    also = [other for other in others if other not in worst.verdict]
    return GradcheckReport(
        elements=sum(one.elements for one in inputs),
        worst_error=worst.worst_error,
        input=worst.input,
        index=worst.index,
        analytic=worst.analytic,
        numeric=worst.numeric,
        passed=not worst.failing,
        name=worst.name,
        order=order,
        failing=sum(one.failing for one in inputs),
        relative_error=max(one.relative_error for one in inputs),
        verdict=worst.verdict + (f"; also wrong: {', '.join(also)}" if worst.verdict and also else ""),
        advice=worst.advice,
        inputs=inputs,
        kinks=kinks,
    )


def _largest(values: np.ndarray) -> Index:
    return tuple(int(i) for i in np.unravel_index(np.argmax(values), values.shape))
