"""The result of a gradient check, and the error that is raised for a wrong gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.errors import MinigradError

Index = tuple[int, ...]


class GradcheckError(MinigradError, AssertionError):
    """Raised if finite differences contradict a gradient. `report` has the details."""

    def __init__(self, report: GradcheckReport) -> None:
        super().__init__(f"{report}.\n{report.advice}")
        self.report = report


@dataclass(frozen=True, eq=False)
class Kink:
    """An element at which the function has no derivative, since the left and the right slope differ."""

    input: int
    name: str
    index: Index
    left: float
    right: float
    analytic: float
    jump: bool  # whether the function jumps, so that a slope is unbounded
    passed: bool  # whether the analytic value is a subgradient or, at a jump, the slope of the other side

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        what = "a jump" if self.jump else "a kink"
        return (
            f"{what} at {label(self.input, self.name)} {list(self.index)}: there is no derivative, the slope "
            f"is {self.left:.6g} to the left and {self.right:.6g} to the right; "
            f"the gradient is {self.analytic:.6g}"
        )


@dataclass(frozen=True, eq=False)
class InputErrors:
    """The result for one input: its worst element, and the verdict on its gradient."""

    input: int
    name: str
    shape: tuple[int, ...]
    elements: int
    failing: int
    worst_error: float
    relative_error: float
    index: Index
    analytic: float
    numeric: float
    verdict: str = ""
    advice: str = ""

    def __bool__(self) -> bool:
        return not self.failing


@dataclass(frozen=True, repr=False, eq=False)
class GradcheckReport:
    """The result of a gradient check: the worst element and, if it failed, a verdict. True if `passed`.

    `worst_error` is the largest |analytic - numeric| - rtol |numeric|, at most `atol` if `passed`;
    `relative_error` is the largest |analytic - numeric| / max(1, |numeric|). At a kink, the numeric value is
    the slope between the left and the right slope that is nearest to the analytic value; at a jump, it is the
    slope of the side that does not jump.
    """

    elements: int
    worst_error: float
    input: int
    index: Index
    analytic: float
    numeric: float
    passed: bool
    name: str = ""
    order: int = 1
    failing: int = 0
    relative_error: float = 0.0
    verdict: str = ""
    advice: str = ""
    inputs: tuple[InputErrors, ...] = ()
    kinks: tuple[Kink, ...] = ()

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        what = "gradient" if self.order == 1 else "gradient of the gradient"
        kinks = f", {len(self.kinks)} of them at kinks" if self.kinks else ""
        verdict = f"; verdict: {self.verdict}" if self.verdict else ""
        if not self.elements:
            return f"the {what} {'has no elements to check' if self.passed else 'cannot be checked'}{verdict}"
        place = f"{label(self.input, self.name)} at {list(self.index)}"
        numbers = f"analytic {self.analytic:.10g}, numeric {self.numeric:.10g}"
        if self.passed:
            return (
                f"the {what} agrees with finite differences in {self.elements} elements{kinks}; "
                f"the worst is {place}: {numbers}"
            )
        return (
            f"the {what} contradicts finite differences in {self.failing} of {self.elements} elements{kinks};"
            f" the worst is {place}: {numbers}{verdict}"
        )

    __repr__ = __str__

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table

        table = Table("input", "shape", "wrong", "worst at", "analytic", "numeric", "verdict", box=None)
        for one in self.inputs:
            numbers = (f"{one.analytic:.6g}", f"{one.numeric:.6g}")
            wrong = f"{one.failing} of {one.elements}"
            table.add_row(
                label(one.input, one.name, "").strip(),
                str(list(one.shape)), wrong, str(list(one.index)), *numbers, one.verdict or "agrees",
                style="" if not one.failing else "red",
            )  # fmt: skip
        return Group(str(self), table, *(str(kink) for kink in self.kinks))


def label(number: int, name: str, kind: str = "input ") -> str:
    """Format the name of an input: `input 1`, or `input 1 (weight)`."""
    return f"{kind}{number} ({name})" if name else f"{kind}{number}"
