"""`gradcheck`, which compares the analytic gradient with the numeric one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from ..core.devices import on_cpu
from ..core.errors import GradientShapeError, MinigradError, OptionError
from ..core.modes import enable_grad
from ..core.tensor import Tensor
from . import verdicts
from .arguments import Arguments
from .comparing import Measured, errors_of, kinks_of, mark_ties, measure, summarize, verdict_on
from .evidence import Derivative, Evidence, Verdict, subsets
from .finite_differences import FiniteDifferences, SlopeArrays
from .function import Analytic, Function, GradientFailure, Passes
from .origin import Step, steps_of
from .report import GradcheckError, GradcheckReport, Index, label

IN_FLOAT64 = "Compute in the input's dtype: no .astype(np.float32), no float32 constants."
MOST_OUTPUTS = 400  # the most output elements for which a verdict may use the Jacobian
MOST_ENTRIES = 200_000  # the most entries of such a Jacobian


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

    `inputs` is a tensor, a list of arguments, a dict of keyword arguments, or a Module, whose parameters are
    varied while `fn()` is called without arguments. Inputs that require a gradient must be float64. `fn` gets
    copies, so the caller's tensors do not change. With `order=2`, the gradient of the gradient is checked.

    If an element differs by more than atol + rtol |numeric|, this raises a GradcheckError or, with
    `raise_exception=False`, returns a report that is false. The report's `verdict` names the likely mistake.
    At a kink, any slope between the left and the right slope passes; at a jump, the slope of the side that
    does not jump passes. The report lists kinks and jumps in `kinks`.

    >>> x = mg.tensor([0.5, 2.0], dtype="float64", requires_grad=True)
    >>> bool(mg.gradcheck(lambda x: x.log().sum(), x, order=2))
    True
    """
    check_settings(order, eps=eps, atol=atol, rtol=rtol)
    # NumPy's warnings are off: non-finite numbers are reported
    with enable_grad(), np.errstate(all="ignore"), Arguments(inputs) as arguments:
        report = _Check(fn, arguments, eps, atol, rtol, order).report(trace=True)
        if order == 2 and not report.passed and report.elements:
            first = _Check(fn, arguments, eps, atol, rtol, 1).report()
            if first.passed:
                report = replace(
                    report,
                    verdict=f"right at first order, wrong at second: {report.verdict or 'no pattern'}",
                    advice="A gradient function must compute with the rule's arguments (xp = namespace(x)): "
                    "constants and values from outside are not differentiated again.",
                )
    if raise_exception and not report.passed:
        raise GradcheckError(report)
    return report


def check_settings(order: int, **numbers: Any) -> None:
    """Raise an OptionError for an invalid order, or a number that is not finite or is negative."""
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
    """A check of one order, which looks for faults that make it meaningless, then compares all elements."""

    def __init__(
        self, fn: Callable, arguments: Arguments, eps: float, atol: float, rtol: float, order: int
    ) -> None:
        self.arguments = arguments
        self.eps = eps
        self.atol = atol
        self.rtol = rtol
        self.order = order
        self.function = Function(fn, arguments, order)

    def report(self, trace: bool = False) -> GradcheckReport:
        """Return the result. With `trace`, a report on a wrong gradient names the operation that is wrong."""
        try:
            base = self.function.values()
        except GradientShapeError as error:  # a first-order gradient, while checking the second order
            return self._fault(verdicts.verdict_of_shapes(error))
        except GradientFailure as failure:
            return self._fault(verdicts.verdict_of_failure(failure.error))
        fault = _first(
            lambda: self._check_unchanged("the function"),
            lambda: self._check_finite(base),
            lambda: self._check_repeatable(base),
        )
        if fault is not None:
            return fault
        try:
            passes = self.function.passes()
            analytic = passes.first
            fault = _first(
                lambda: self._check_unchanged("the gradient", passes.changed),
                lambda: self._check_gradient_repeatable(passes),
                lambda: self._check_gradient_linear(analytic),
                lambda: self._check_gradient_unshared(passes),
                lambda: self._check_gradient_dtype(analytic),
            )
        except GradientFailure as failure:
            fault = self._fault(verdicts.verdict_of_failure(failure.error))
        if fault is not None:
            return fault
        self.differences = FiniteDifferences(self.function.values, self.function.weights(), base)
        arrays = [leaf.array for leaf in self.arguments.leaves]
        slopes = [self.differences.slopes(a, self.eps, self.atol, self.rtol) for a in arrays]
        if all(a is None for a in analytic) and not any(s.central.any() for s in slopes):
            self._check_no_outside_leaves()
        report = self._compare([*map(on_cpu, arrays)], analytic, slopes)
        return self._trace(report) if trace and not report.passed else report

    # ------------------------------------------------------------ faults

    def _fault(self, verdict: Verdict, number: int = 0, index: tuple[int, ...] = ()) -> GradcheckReport:
        """Return the report on a check that cannot be done."""
        number = number if number < len(self.arguments.names) else 0
        name = self.arguments.names[number]
        nan = float("nan")
        return GradcheckReport(
            0, np.inf, number, index, nan, nan, False, name, self.order, 0, np.inf, *verdict
        )

    def _check_unchanged(self, who: str, what: str = "") -> GradcheckReport | None:
        """Report an input that `who` changed or, if it is not "", that `what` was changed; or None."""
        changed = self.arguments.find_change()
        advice = "Compute into a new array: a rule and its gradients must not change arrays in place."
        if changed is not None:
            number, index = changed
            text = f"input mutated: {who} changed {self.arguments.label(number)} at {list(index)}"
            return self._fault(Verdict(text, advice), number, index)
        return self._fault(Verdict(f"changed in place: {who} changed {what}", advice)) if what else None

    def _check_finite(self, base: np.ndarray) -> GradcheckReport | None:
        place = self._first_output(~np.isfinite(base))
        if place is None:
            return None
        text = f"the function's value is not finite: {place[0]} is {base[place[1]]}"
        advice = "Check at inputs where the function is finite, well within its domain."
        return self._fault(Verdict(text, advice))

    def _check_repeatable(self, base: np.ndarray) -> GradcheckReport | None:
        again = self.function.values()
        same = again.shape == base.shape
        place = self._first_output(~_equal_up_to_rounding(again, base)) if same else ("the shape", 0)
        if place is None:
            return None
        numbers = f": {base[place[1]]:.10g}, then {again[place[1]]:.10g}" if same else ""
        text = f"not deterministic: {place[0]} differs between two evaluations{numbers}"
        advice = (
            "Each evaluation must draw the same numbers: seed in the function, pass a key, or call eval()."
        )
        return self._fault(Verdict(text, advice))

    def _first_difference(
        self, one: list[Analytic], other: list[Analytic], same: Callable[[Any, Any], np.ndarray]
    ) -> tuple[int, Index] | None:
        """Return the position, among the checked inputs, of the first that differs, and the index."""
        for position, (a, b) in enumerate(zip(one, other, strict=True)):
            if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
                differs = ~same(a, b)
                if differs.any():
                    return position, tuple(int(i) for i in np.argwhere(differs)[0])
        return None

    def _gradient_fault(self, found: tuple[int, Index], text: str, advice: str) -> GradcheckReport:
        """Return the report on an invalid gradient. In `text`, `{where}` is replaced by the element."""
        number = self.arguments.checked[found[0]]
        index = found[1]
        where = f"{self.arguments.label(number)} at {list(index)}" if index else self.arguments.label(number)
        return self._fault(Verdict(text.format(where=where), advice), number, index)

    def _check_gradient_repeatable(self, passes: Passes) -> GradcheckReport | None:
        found = self._first_difference(passes.first, self.function.gradients(), _equal_up_to_rounding)
        if found:
            return self._gradient_fault(
                found,
                "not deterministic: the gradient of {where} differs between two backward passes",
                "A gradient function must not draw random numbers: draw them in the caller, and pass them.",
            )
        found = self._first_difference(passes.first, passes.second, _equal_up_to_rounding)
        if found:
            return self._gradient_fault(
                found,
                "changed in place: a second backward pass over the graph gives {where} a different gradient",
                "The gradient function changes an array that the rule saved for it: compute into a new one.",
            )
        return None

    def _check_gradient_linear(self, analytic: list[Analytic]) -> GradcheckReport | None:
        """Check that the gradient of -2 f is -2 times the gradient of f."""
        other = self.function.gradients(-2.0)
        same = lambda a, b: np.isclose(b / -2, a, rtol=self.rtol, atol=self.atol, equal_nan=True)
        found = self._first_difference(analytic, other, same)
        if not found:
            return None
        one, two = (gradients[found[0]][found[1]] for gradients in (analytic, other))  # type: ignore[index]
        if one == two:
            return self._gradient_fault(
                found,
                f"not linear in the upstream gradient g: for {{where}} it is {one:.6g} whatever g is",
                "A gradient is g times the derivative: multiply by g.",
            )
        return self._gradient_fault(
            found,
            f"not linear in the upstream gradient g: for {{where}} it is {one:.6g}, and {two:.6g} for -2 g",
            "A gradient is g times the derivative: no g², no constant added to it, no condition on g.",
        )

    def _check_gradient_unshared(self, passes: Passes) -> GradcheckReport | None:
        for position, shared in enumerate(passes.shared):
            if shared:
                return self._gradient_fault(
                    (position, ()),
                    "the gradient of {where} shares memory with another array, and backward adds into it",
                    "Return a new array (a copy), or g or a view of it.",
                )
        return None

    def _check_gradient_dtype(self, analytic: list[Analytic]) -> GradcheckReport | None:
        """Report a gradient that is rounded to float32, although its outputs have float64 weights."""
        for position, found in enumerate(analytic):
            if isinstance(found, np.ndarray):
                some = found[np.isfinite(found) & (np.abs(found) > self.atol)]  # the rest may be noise
                if some.size > 1 and _is_float32(some):
                    return self._gradient_fault(
                        (position, ()),
                        "computed in float32: every number of the gradient of {where} is a float32 number",
                        IN_FLOAT64,
                    )
        return None

    def _first_output(self, mask: np.ndarray) -> tuple[str, int] | None:
        """Describe the first output element in a mask. Return the description and the flat index; or None."""
        if not mask.any():
            return None
        place = int(np.argmax(mask))
        outs = self.function.tensors()
        ends = np.cumsum([out.array.size for out in outs])
        number = int(np.searchsorted(ends, place, side="right"))
        out = outs[number]
        index = np.unravel_index(place - int(ends[number]) + out.array.size, out.shape)
        return f"output {number} at {[int(i) for i in index]}", place

    def _check_no_outside_leaves(self) -> None:
        if self.function.uses_other_leaves():
            raise OptionError(
                "the function's value requires a gradient, but depends on none of the inputs.\n"
                "Compute with the function's arguments: they are copies of the inputs."
            )

    # ------------------------------------------------------------ element by element

    def _compare(
        self, arrays: list[np.ndarray], analytic: list[Analytic], slopes: list[SlopeArrays]
    ) -> GradcheckReport:
        names = self.arguments.names
        everything = [
            mark_ties(
                measure(number, names[number], x, a, s, self.atol, self.rtol),
                self.differences.slopes_together(leaf.array, s, self.eps, self.atol, self.rtol),
            )
            for number, x, a, s, leaf in zip(
                self.arguments.checked, arrays, analytic, slopes, self.arguments.leaves, strict=True
            )
        ]
        wrong = any(m.compared.wrong.any() for m in everything)
        narrow = self._check_value_dtype(everything) if wrong else None
        verdicts = [
            narrow or verdict_on(m, everything, self._evidence(i, m)) for i, m in enumerate(everything)
        ]
        inputs = tuple(errors_of(m, verdict) for m, verdict in zip(everything, verdicts, strict=True))
        kinks = tuple(kink for m in everything for kink in kinks_of(m))
        return summarize(self.order, inputs, kinks)

    def _check_value_dtype(self, everything: list[Measured]) -> Verdict | None:
        """Return a verdict if the function rounds its value to float32, which hides all differences."""
        base = self.differences.base
        fine = any(not _is_float32(m.compared.x) for m in everything)
        if base.size and fine and _is_float32(base) and (base != np.round(base)).any():
            return Verdict("computed in float32: every number of the value is a float32 number", IN_FLOAT64)
        return None

    def _evidence(self, i: int, m: Measured) -> Evidence:
        """Collect the evidence for a verdict on the i-th checked input."""
        if not m.compared.wrong.any():
            return Evidence(False, [], [], [], None, lambda: (), lambda: ([], []), self.order)
        outs = [on_cpu(out.array) for out in self.function.tensors()]
        aligned = len(outs) == 1 and outs[0].shape == m.compared.x.shape
        lengths = _lengths("axis {} of the input", "the input", m.compared.x.shape)
        for out in outs if not aligned else ():
            lengths += _lengths("axis {} of the output", "the output", out.shape)
        others = self._others(m.number, m.compared.x.shape)
        weights = self.differences.weights.reshape(outs[0].shape) if aligned else None
        derivatives = cache(partial(self._derivatives, i, outs))
        used = partial(self._used, i, derivatives)
        return Evidence(m.found is None, lengths, outs, others, weights, derivatives, used, self.order)

    def _others(self, but: int, shape: tuple[int, ...]) -> list[tuple[str, np.ndarray]]:
        """Return the labels and arrays of the inputs except number `but`.

        Class indices that fit an input of `shape` are returned as one-hot rows.
        """
        found = []
        for number, x in enumerate(self.arguments.values):
            if number == but or not isinstance(x, Tensor | np.ndarray):
                continue
            array = on_cpu(x.array if isinstance(x, Tensor) else x)
            name = self.arguments.label(number)
            if array.dtype.kind == "f":
                found.append((name, array))
            elif _are_classes(array, shape):
                found.append((f"one_hot({name})", np.eye(shape[-1])[array]))
        return found

    def _derivatives(self, i: int, outs: list[np.ndarray]) -> list[Derivative]:
        """Return d output / d input of each output, for checked input i; [] if that would be slow."""
        leaf = self.arguments.leaves[i]
        x = on_cpu(leaf.array)
        count = sum(out.size for out in outs)
        if count > MOST_OUTPUTS or count * x.size > MOST_ENTRIES:
            return []
        columns = self.differences.jacobian(leaf.array, self.eps)
        parts = np.split(columns, np.cumsum([out.size for out in outs])[:-1])
        return [
            Derivative(
                on_cpu(leaf.array), y, numeric.reshape(y.shape + leaf.shape), analytic, self.atol, self.rtol
            )
            for y, numeric, analytic in zip(outs, parts, self.function.jacobian(leaf), strict=True)
        ]

    def _used(self, i: int, derivatives: Callable[[], Sequence[Derivative]]) -> tuple[list[str], list[str]]:
        """Return the labels of inputs on which only the numeric derivative depends, or only the analytic."""
        before = derivatives()
        ignored = []
        needless = []
        for number, x in enumerate(self.arguments.values) if before else ():
            if not isinstance(x, Tensor) or x.array.dtype.kind != "f" or not x.array.size:
                continue
            kept = x.array.copy()
            try:
                x.array[...] = kept * (1 + np.linspace(0.05, 0.1, kept.size).reshape(kept.shape))
                after = self._derivatives(i, [d.y for d in before])
            finally:
                x.array[...] = kept
            pairs = [*zip(before, after, strict=True)]
            numeric = max(_change(a.numeric, b.numeric) for a, b in pairs)
            analytic = max(_change(a.analytic, b.analytic) for a, b in pairs)
            if numeric > 1e-4 and analytic < 1e-12:
                ignored.append(self.arguments.label(number))
            elif numeric < 1e-6 and analytic > 1e-3:
                needless.append(self.arguments.label(number))
        return ignored, needless

    # ------------------------------------------------------------ operation by operation

    def _trace(self, report: GradcheckReport) -> GradcheckReport:
        """Return the report with a verdict that names the first operation whose gradient is wrong."""
        steps = steps_of(self.function.outputs())
        kinks = len(report.kinks)
        for step in steps:
            inside = self._check_step(step)
            if inside is None or (inside.elements and not np.isfinite(inside.numeric)):  # unclear
                return report
            kinks += len(inside.kinks)
            if not inside.passed:
                # the library's ops are tested; some follow a convention (for symmetric matrices)
                if len(steps) == 1 or step.node.op.source.__module__.startswith("minigrad."):
                    return report
                text = f"in {step.node}, {label(inside.input, '')}: {inside.verdict}"
                return replace(report, verdict=text, advice=inside.advice)
        if not steps or kinks or not np.isfinite(report.analytic):
            return report
        each = "its operation has" if len(steps) == 1 else f"each of its {len(steps)} operations has"
        why = f"{each} the right gradient, so a part of the value is not recorded"
        return replace(
            report,
            verdict=f"{report.verdict}; {why}",
            advice="Look for detach(), .data, .numpy(), .item() and no_grad() in the function, and for "
            "indices and masks that are computed from the input.",
        )

    def _check_step(self, step: Step) -> GradcheckReport | None:
        """Check a single operation. Return None if that is not possible."""
        try:
            with Arguments(step.inputs) as arguments:
                return _Check(step.function, arguments, self.eps, self.atol, self.rtol, self.order).report()
        except MinigradError:
            return None


def _first(*faults: Callable[[], GradcheckReport | None]) -> GradcheckReport | None:
    """Return the first report that is not None; `or` would skip it, because a report on a fault is false."""
    return next((found for fault in faults if (found := fault()) is not None), None)


def _are_classes(array: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Return whether an array has an index into the last axis of `shape` for each row."""
    if array.dtype.kind not in "iu" or array.shape != shape[:-1] or not array.size:
        return False
    return array.min() >= 0 and array.max() < shape[-1]


def _change(before: np.ndarray, after: np.ndarray) -> float:
    """Return the largest change of an element, relative to the largest number."""
    return float(np.abs(after - before).max(initial=0.0) / (np.abs(before).max(initial=0.0) or 1.0))


def _lengths(axis: str, whole: str, shape: tuple[int, ...]) -> list[tuple[str, int]]:
    """Return the names and lengths of single axes, of several axes together, and of the whole array."""
    named = [(f"the length of {axis.format(i)}", n) for i, n in enumerate(shape)]
    for axes in subsets(len(shape)):
        if len(axes) == len(shape) > 1:
            named.append((f"the number of elements of {whole}", int(np.prod(shape))))
        elif len(axes) > 1:
            some = " and ".join(map(str, axes))
            named.append(
                (f"the length of {axis.format(some)} together", int(np.prod([shape[i] for i in axes])))
            )
    return named


def _is_float32(x: np.ndarray) -> bool:
    """Return whether every number is representable in float32."""
    with np.errstate(over="ignore"):
        return bool((x.astype(np.float32) == x).all())


def _equal_up_to_rounding(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isclose(a, b, rtol=1e-13, atol=0.0, equal_nan=True)
