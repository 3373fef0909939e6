"""`gradcheck`: compares the analytic gradient with the numeric one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..devices import on_cpu
from ..errors import GradientShapeError, OptionError
from ..modes import enable_grad
from ..tensor import Tensor
from . import verdicts
from .arguments import Arguments
from .comparing import errors_of, kinks_of, measured, summed_up, verdict_on
from .finite_differences import FiniteDifferences, SlopeArrays
from .function import Function
from .report import GradcheckError, GradcheckReport
from .verdicts import Verdict


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
    varied while `fn()` takes none. Inputs that require a gradient must be float64. `fn` gets copies, so the
    caller's tensors do not change. `order=2` checks the gradient of the gradient.

    Where they differ by more than atol + rtol |numeric| this raises GradcheckError, or returns the report
    with `raise_exception=False`; its `verdict` names the likely mistake. At a kink any slope between those to
    the left and right passes; where the function jumps, that of the side that does not jump. Both are listed
    in `kinks`.
    """
    refuse_settings(order, eps=eps, atol=atol, rtol=rtol)
    # non-finite numbers are reported instead
    with enable_grad(), np.errstate(all="ignore"), Arguments(inputs) as arguments:
        report = _Check(fn, arguments, eps, atol, rtol, order).report()
        if order == 2 and not report.passed and report.elements:
            first = _Check(fn, arguments, eps, atol, rtol, 1).report()
            if first.passed:
                report = replace(
                    report,
                    verdict=f"right at first order, wrong at second: {report.verdict or 'no pattern'}",
                    advice="A gradient function must compute with the rule's arguments (xp = namespace(x)): "
                    "constants, and values from outside, are not differentiated again.",
                )
    if raise_exception and not report.passed:
        raise GradcheckError(report)
    return report


def refuse_settings(order: int, **numbers: Any) -> None:
    """Raise an error for an invalid setting."""
    for name, number in numbers.items():
        if not isinstance(number, float | int | np.floating):
            raise OptionError(
                f"{name} must be a number such as 1e-6, got {type(number).__name__}.\n"
                f"Pass several inputs as one list: mg.gradcheck(fn, [x, y])."
            )
        if not 0 <= number < np.inf or (name == "eps" and not number):
            raise OptionError(
                f"{name} must be a small positive number, got {number}.\nLeave it out, or pass 1e-6."
            )
    if order not in (1, 2):
        raise OptionError(f"order must be 1 or 2, got {order}.\nFor more, check the gradient's gradient.")


class _Check:
    """One check of one order: first for faults that make it meaningless, then element by element."""

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
        fault = (
            self._changed("the gradient")
            or self._gradient_not_repeatable(analytic)
            or self._gradient_not_linear(analytic)
        )
        if fault:
            return fault
        self.differences = FiniteDifferences(self.function.values, self.function.weights(), base)
        arrays = [leaf.array for leaf in self.arguments.leaves]
        slopes = [self.differences.slopes(a, self.eps, self.atol, self.rtol) for a in arrays]
        if all(a is None for a in analytic) and not any(s.central.any() for s in slopes):
            self._refuse_outsiders()
        return self._compared([*map(on_cpu, arrays)], analytic, slopes)

    # ------------------------------------------------------------ faults

    def _fault(self, verdict: Verdict, number: int = 0, index: tuple[int, ...] = ()) -> GradcheckReport:
        """The report on a check that is not possible."""
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
        advice = "Compute into a new array: a rule and its gradients must not change arrays in place."
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
        advice = "Each evaluation must draw the same: seed in the function, pass a key, or use .eval()."
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
                    advice = "A gradient function must not draw numbers, or change what it keeps."
                    return self._fault(Verdict(text, advice), number, index)
        return None

    def _gradient_not_linear(self, analytic: list[Any]) -> GradcheckReport | None:
        """Check that the gradient of -f is minus the gradient of f."""
        negative = self.function.gradients(-1.0)
        for number, one, other in zip(self.arguments.checked, analytic, negative, strict=True):
            if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
                differs = ~np.isclose(-other, one, rtol=self.rtol, atol=self.atol, equal_nan=True)
                if differs.any():
                    index = tuple(int(i) for i in np.argwhere(differs)[0])
                    where = f"{self.arguments.label(number)} at {list(index)}"
                    text = (
                        f"not linear in the upstream gradient g: of {where} it is {one[index]:.6g} for one, "
                        f"{other[index]:.6g} for -g"
                    )
                    advice = "A gradient is g times the derivative: branch on the inputs (x > 0), never on g."
                    return self._fault(Verdict(text, advice), number, index)
        return None

    def _first_output(self, mask: np.ndarray) -> tuple[str, int] | None:
        """The name of the first output element that a mask marks, and its flat index."""
        if not mask.any():
            return None
        place, outs = int(np.argmax(mask)), self.function.tensors()
        ends = np.cumsum([out.array.size for out in outs])
        number = int(np.searchsorted(ends, place, side="right"))
        out = outs[number]
        index = np.unravel_index(place - int(ends[number]) + out.array.size, out.shape)
        return f"output {number} at {[int(i) for i in index]}", place

    def _refuse_outsiders(self) -> None:
        if self.function.uses_other_leaves():
            raise OptionError(
                "the function's value has a gradient, but from none of the inputs.\n"
                "Compute with the function's arguments: they are copies of the inputs."
            )

    # ------------------------------------------------------------ element by element

    def _compared(
        self, arrays: list[np.ndarray], analytic: list[Any], slopes: list[SlopeArrays]
    ) -> GradcheckReport:
        names = self.arguments.names
        everything = [
            measured(number, names[number], x, a, s, self.atol, self.rtol)
            for number, x, a, s in zip(self.arguments.checked, arrays, analytic, slopes, strict=True)
        ]
        inputs = tuple(
            errors_of(m, verdict_on(m, everything, partial(self._jacobians, i)))
            for i, m in enumerate(everything)
        )
        return summed_up(self.order, inputs, tuple(kink for m in everything for kink in kinks_of(m)))

    def _jacobians(self, i: int) -> list[np.ndarray]:
        """d weighted output / d input, an array for each output."""
        array = self.arguments.leaves[i].array
        columns = self.differences.jacobian(array, self.eps)
        columns = columns * self.differences.weights.reshape(-1, *[1] * array.ndim)
        outs = self.function.tensors()
        ends = np.cumsum([out.array.size for out in outs])[:-1]
        return [
            part.reshape(out.shape + array.shape)
            for part, out in zip(np.split(columns, ends), outs, strict=True)
        ]


def _as_good_as_equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isclose(a, b, rtol=1e-13, atol=0.0, equal_nan=True)
