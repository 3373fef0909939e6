"""`gradcheck`: the analytic gradient beside the numeric one, and what to make of the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import GradientShapeError, OptionError
from ..tensor import Tensor
from . import verdicts
from .arguments import Arguments
from .differences import Differences, Function, Slopes
from .report import GradcheckError, GradcheckReport, InputErrors, Kink, label
from .verdicts import Comparison, Verdict

Inputs = Any  # a Tensor, a sequence of arguments, a mapping of names, or a Module


def gradcheck(
    fn: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Tensor | Sequence[Any] | Mapping[str, Any] | Any,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    order: int = 1,
    raise_exception: bool = True,
) -> GradcheckReport:
    """Compare the gradient of a fixed random weighting of `fn`'s outputs with central differences.

    `inputs`: a tensor, a list of arguments, a dict of keyword arguments, or a Module, whose parameters are
    then varied while `fn()` takes none. Those that require a gradient are float64. `fn` gets copies; the
    caller's tensors stay as they are. `order=2` checks the gradient of the gradient.

    Where they differ by more than atol + rtol |numeric| this raises GradcheckError, or returns the report
    without `raise_exception`; its `verdict` says what the mistake looks like. At a kink any slope between
    those to the left and right passes, and is listed in `kinks`.
    """
    refuse_settings(order, eps=eps, atol=atol, rtol=rtol)
    with Arguments(inputs) as arguments:
        report = _Check(fn, arguments, eps, atol, rtol, order).report()
        if order == 2 and not report.passed and report.elements:
            first = _Check(fn, arguments, eps, atol, rtol, 1).report()
            if first.passed:
                report = replace(
                    report,
                    verdict=f"right at first order, wrong at second: {report.verdict or 'no pattern'}",
                    advice="A gradient function computes with what the rule was given (xp = namespace(x)): "
                    "what it takes as a constant, or from outside, is not differentiated again.",
                )
    if raise_exception and not report.passed:
        raise GradcheckError(report)
    return report


def refuse_settings(order: int, **numbers: Any) -> None:
    """Say what is wrong with a setting."""
    for name, number in numbers.items():
        if not isinstance(number, float | int | np.floating):
            raise OptionError(
                f"{name} is a number such as 1e-6, got {type(number).__name__}.\n"
                f"Several inputs go into one list: mg.gradcheck(fn, [x, y])."
            )
        if not 0 <= number < np.inf or (name == "eps" and not number):
            raise OptionError(
                f"{name} is a small positive number, got {number}.\nLeave it out, or give 1e-6."
            )
    if order not in (1, 2):
        raise OptionError(f"order is 1 or 2, got {order}.\nFor more, check the gradient's own gradient.")


class _Check:
    """One check of one order: first what makes it meaningless, then element by element."""

    def __init__(
        self, fn: Callable, arguments: Arguments, eps: float, atol: float, rtol: float, order: int
    ) -> None:
        self.arguments, self.eps, self.atol, self.rtol, self.order = arguments, eps, atol, rtol, order
        self.function = Function(fn, arguments, order)

    def report(self) -> GradcheckReport:
        try:
            base = self.function.values()
        except GradientShapeError as error:  # of the first order, while checking the second
            return self._fault(verdicts.verdict_of_shapes(error))
        fault = self._changed("the function") or self._not_finite(base) or self._not_repeatable(base)
        if fault:
            return fault
        analytic = self.function.gradients()
        fault = self._changed("the gradient") or self._gradient_not_repeatable(analytic)
        if fault:
            return fault
        self.differences = Differences(self.function, base)
        arrays = [leaf.data for leaf in self.arguments.leaves]
        slopes = [self.differences.slopes(a, self.eps, self.atol, self.rtol) for a in arrays]
        if all(a is None for a in analytic) and not any(s.central.any() for s in slopes):
            self._refuse_outsiders()
        return self._compared(arrays, analytic, slopes)

    # ------------------------------------------------------------ faults

    def _fault(self, verdict: Verdict, number: int = 0, index: tuple[int, ...] = ()) -> GradcheckReport:
        """A check that could not be made."""
        number = number if number < len(self.arguments.names) else 0
        name = self.arguments.names[number]
        nan = float("nan")
        return GradcheckReport(
            0, np.inf, number, index, nan, nan, False, name, self.order, 0, np.inf, *verdict
        )

    def _changed(self, who: str) -> GradcheckReport | None:
        changed = self.arguments.changed()
        if changed is None:
            return None
        number, index = changed
        text = f"input mutated: {who} changed {self.arguments.label(number)} at {list(index)}"
        advice = "Compute into a new array: a rule, and a gradient, changes nothing in place."
        return self._fault(Verdict(text, advice), number, index)

    def _not_finite(self, base: np.ndarray) -> GradcheckReport | None:
        place = self._first_output(~np.isfinite(base))
        if place is None:
            return None
        text = f"the function's value is not finite: {place[0]} is {base[place[1]]}"
        advice = "Check at inputs where the function is finite, well within its domain."
        return self._fault(Verdict(text, advice))

    def _not_repeatable(self, base: np.ndarray) -> GradcheckReport | None:
        again = self.function.values()
        same = again.shape == base.shape
        place = self._first_output(~_as_good_as_equal(again, base)) if same else ("the shape", 0)
        if place is None:
            return None
        numbers = f": {base[place[1]]:.10g}, then {again[place[1]]:.10g}" if same else ""
        text = f"not deterministic: {place[0]} differs between two evaluations{numbers}"
        advice = "Make each evaluation draw the same: seed within the function, pass a key, or use .eval()."
        return self._fault(Verdict(text, advice))

    def _gradient_not_repeatable(self, analytic: list[Any]) -> GradcheckReport | None:
        for number, one, other in zip(
            self.arguments.checked, analytic, self.function.gradients(), strict=True
        ):
            if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
                differs = ~_as_good_as_equal(one, other)
                if differs.any():
                    index = tuple(int(i) for i in np.argwhere(differs)[0])
                    where = f"{self.arguments.label(number)} at {list(index)}"
                    text = f"not deterministic: the gradient of {where} differs between two backward passes"
                    advice = "A gradient function draws nothing, and changes nothing that it keeps."
                    return self._fault(Verdict(text, advice), number, index)
        return None

    def _first_output(self, mask: np.ndarray) -> tuple[str, int] | None:
        """The name of the first output element that a mask marks, and its place in line."""
        if not mask.any():
            return None
        place, outs = int(np.argmax(mask)), self.function.tensors()
        ends = np.cumsum([out.data.size for out in outs])
        number = int(np.searchsorted(ends, place, side="right"))
        out = outs[number]
        index = np.unravel_index(place - int(ends[number]) + out.data.size, out.shape)
        return f"output {number} at {[int(i) for i in index]}", place

    def _refuse_outsiders(self) -> None:
        if self.function.uses_other_leaves():
            raise OptionError(
                "the function's value has a gradient, but from none of the inputs.\n"
                "Compute with the arguments that the function is called with: they are copies of the inputs."
            )

    # ------------------------------------------------------------ element by element

    def _compared(
        self, arrays: list[np.ndarray], analytic: list[Any], slopes: list[Slopes]
    ) -> GradcheckReport:
        kinks: list[Kink] = []
        comparisons = []
        for number, x, a, s in zip(self.arguments.checked, arrays, analytic, slopes, strict=True):
            given = (
                np.zeros(x.shape)
                if a is None
                else a
                if isinstance(a, np.ndarray)
                else np.full(x.shape, np.nan)
            )
            low, high = np.minimum(s.left, s.right), np.maximum(s.left, s.right)
            numeric = np.where(s.kink, np.clip(given, low, high), s.central)
            wrong = ~(np.abs(given - numeric) <= self.atol + self.rtol * np.abs(numeric))
            comparisons.append(Comparison(x, given, numeric, wrong, self.atol, self.rtol))
            for index in map(tuple, np.argwhere(s.kink).tolist()):
                sides = (float(s.left[index]), float(s.right[index]), float(given[index]))
                jump, passed = bool(s.jump[index]), not wrong[index]
                kinks.append(Kink(number, self.arguments.names[number], index, *sides, jump, passed))
        inputs = tuple(
            self._of_input(i, comparisons, analytic[i], slopes[i]) for i in range(len(comparisons))
        )
        worst = max((one for one in inputs if one.elements), key=_badness, default=None)
        elements, failing = sum(one.elements for one in inputs), sum(one.failing for one in inputs)
        if worst is None:
            number = self.arguments.checked[0]
            return GradcheckReport(
                0, -np.inf, number, (), 0.0, 0.0, True, self.arguments.names[number], self.order
            )
        also = [label(one.input, one.name) for one in inputs if one.failing and one is not worst]
        verdict = worst.verdict + (f"; also wrong: {', '.join(also)}" if worst.verdict and also else "")
        return GradcheckReport(
            elements, worst.worst_error, worst.input, worst.index, worst.analytic, worst.numeric, not failing,
            worst.name, self.order, failing, max(one.relative_error for one in inputs), verdict, worst.advice,
            inputs, tuple(kinks),
        )  # fmt: skip

    def _of_input(self, i: int, comparisons: list[Comparison], analytic: Any, slopes: Slopes) -> InputErrors:
        c, number = comparisons[i], self.arguments.checked[i]
        head = (number, self.arguments.names[number], c.x.shape, c.x.size, int(c.wrong.sum()))
        if not c.x.size:
            return InputErrors(*head, -np.inf, 0.0, (), 0.0, 0.0)
        off = np.abs(c.analytic - c.numeric)
        errors = np.where(np.isfinite(off), off - self.rtol * np.abs(c.numeric), np.inf)
        index = tuple(int(k) for k in np.unravel_index(np.argmax(errors), c.x.shape))
        if isinstance(analytic, GradientShapeError):  # no element was compared: show the one with most slope
            index = tuple(int(k) for k in np.unravel_index(np.argmax(np.abs(c.numeric)), c.x.shape))
        relative = np.where(np.isfinite(off), off / np.maximum(1, np.abs(c.numeric)), np.inf)
        verdict = self._verdict(i, comparisons, analytic, slopes) if c.wrong.any() else Verdict("", "")
        numbers = (float(errors[index]), float(relative.max()), index)
        return InputErrors(*head, *numbers, float(c.analytic[index]), float(c.numeric[index]), *verdict)

    def _verdict(self, i: int, comparisons: list[Comparison], analytic: Any, slopes: Slopes) -> Verdict:
        c = comparisons[i]
        if isinstance(analytic, GradientShapeError):
            return verdicts.verdict_of_shapes(analytic)
        if not np.isfinite(c.numeric[c.wrong]).all():
            return Verdict(
                "the function is not finite a step away: at the edge of its domain",
                "Check further within its domain, or with a smaller eps.",
            )
        if not (c.wrong & ~slopes.kink).any():
            index = tuple(int(k) for k in np.argwhere(c.wrong)[0])
            left, right = slopes.left[index], slopes.right[index]
            return Verdict(
                f"wrong only at a kink: there is no derivative at {list(index)}, the slope is {left:.6g} to "
                f"the left and {right:.6g} to the right, and {c.analytic[index]:.6g} is not between them",
                "Give a slope between the two there (a subgradient), PyTorch's choice for preference.",
            )
        for j, other in enumerate(comparisons):
            if j != i and verdicts.swapped(c, other):
                pair = sorted(self.arguments.label(self.arguments.checked[k]) for k in (i, j))
                return Verdict(
                    f"gradient to the wrong input: {pair[0]} and {pair[1]} have each other's",
                    "Return the gradients in the order of the rule's arrays.",
                )
        return verdicts.verdict_of(c, lambda: self._jacobians(i), analytic is None)

    def _jacobians(self, i: int) -> list[np.ndarray]:
        """d weighted output / d input, an array an output."""
        array = self.arguments.leaves[i].data
        columns = self.differences.jacobian(array, self.eps)
        columns = columns * self.differences.weights.reshape(-1, *[1] * array.ndim)
        outs = self.function.tensors()
        ends = np.cumsum([out.data.size for out in outs])[:-1]
        return [
            part.reshape(out.shape + array.shape)
            for part, out in zip(np.split(columns, ends), outs, strict=True)
        ]


def _badness(one: InputErrors) -> tuple[bool, float]:
    return one.failing > 0, one.worst_error


def _as_good_as_equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isclose(a, b, rtol=1e-13, atol=0.0, equal_nan=True)
