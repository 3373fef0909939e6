"""The error of a derivative as a function of the step, which shows which of the two is wrong.

A central difference has a truncation error of eps^2 f''' / 6, plus the rounding error of f divided by eps.
As eps shrinks, the error of a right derivative falls like eps^2 and then grows like 1 / eps. The error of a
wrong derivative levels off. At a kink, the error does not depend on eps.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import OptionError
from ..core.modes import enable_grad
from .arguments import Arguments
from .check import check_settings, gradcheck
from .finite_differences import FiniteDifferences
from .function import Function
from .report import Index, label

STEPS = tuple(float(f"{m}e{-k}") for k in range(1, 13) for m in (1.0, 0.3) if (m, k) != (0.3, 12))


@dataclass(frozen=True)
class Sweep:
    """The error |analytic - numeric| and the gap |right slope - left slope| of one element, for each step.

    `kind` is the conclusion: "right", "exact" (the function is at most quadratic, so all error is rounding),
    "wrong", "kink", "kink nearby", or "unclear"; `reading` explains it in a sentence. `rounding` / eps bounds
    the rounding error. A sweep is false if it is "wrong".
    """

    input: int
    name: str
    index: Index
    order: int
    analytic: float
    eps: tuple[float, ...]
    numeric: tuple[float, ...]
    errors: tuple[float, ...]
    gaps: tuple[float, ...]
    rounding: float
    kind: str
    reading: str

    def __bool__(self) -> bool:
        return self.kind != "wrong"

    def __str__(self) -> str:
        rows = [f"{e:8.0e}  {x:9.2e}" for e, x in zip(self.eps, self.errors, strict=True)]
        return "\n".join(["     eps      error", *rows, self.reading])

    def plot(self, axes: Any = None) -> Any:
        """Plot the error against eps on logarithmic axes, with the expected slopes; return the axes."""
        return _plot(self, axes)

    def save(self, path: str | Path) -> None:
        """Save the plot as a file (.png, .svg, .pdf)."""
        self.plot().figure.savefig(path, dpi=150)


def gradcheck_sweep(
    fn: Callable[..., Any],
    inputs: Any,
    element: tuple[int, Index] | None = None,
    order: int = 1,
    steps: Sequence[float] = STEPS,
) -> Sweep:
    """Vary the step of `gradcheck` at one element: (input number, index), by default the worst element.

    The input number is the position among the arguments, as in a GradcheckReport. A wrong derivative does not
    raise an error: see the result's `kind` and `reading`, or plot it with `.save("sweep.png")`.
    """
    for eps in steps:
        check_settings(order, eps=eps)
    if element is None:
        report = gradcheck(fn, inputs, order=order, raise_exception=False)
        if not report.elements:
            raise OptionError(f"{report}.\nFix that first.")
        element = report.input, report.index
    number, index = element
    with enable_grad(), np.errstate(all="ignore"), Arguments(inputs) as arguments:
        if number not in arguments.checked:
            raise OptionError(
                f"argument {number} does not require a gradient.\nChoose one of {arguments.checked}."
            )
        leaf = arguments.values[number]
        function = Function(fn, arguments, order)
        index = (index,) if isinstance(index, int) else tuple(index)
        if len(index) != leaf.ndim or not all(-n <= i < n for i, n in zip(index, leaf.shape, strict=True)):
            raise OptionError(f"index {index} is out of range for shape {leaf.shape}.\nUse another index.")
        differences = FiniteDifferences(function.values, function.weights(), function.values())
        gradient = function.gradients()[arguments.checked.index(number)]
        analytic = float(gradient[index]) if isinstance(gradient, np.ndarray) else 0.0
        steps = [eps for eps in steps if eps > np.spacing(abs(leaf[index].item()))]
        if not steps:
            raise OptionError(
                f"every step is too small for the element {leaf[index].item():g}.\nUse larger steps."
            )
        slopes = np.array([differences.slopes_at(leaf.array, index, eps)[:3] for eps in steps])
    errors = np.abs(slopes[:, 0] - analytic)
    gaps = np.abs(slopes[:, 2] - slopes[:, 1])
    kind, reading = _interpret(np.array(steps), errors, gaps, slopes, analytic, differences.rounding)
    place = f"{label(number, arguments.names[number])} at {list(index)}"
    return Sweep(
        number, arguments.names[number], index, order, analytic, tuple(steps), tuple(slopes[:, 0].tolist()),
        tuple(errors.tolist()), tuple(gaps.tolist()), differences.rounding, kind, f"{place}: {reading}",
    )  # fmt: skip


def _interpret(
    eps: np.ndarray,
    errors: np.ndarray,
    gaps: np.ndarray,
    slopes: np.ndarray,
    analytic: float,
    rounding: float,
) -> tuple[str, str]:
    """Return the `kind` and the `reading` of a Sweep."""
    noise = rounding / eps + 1e-15 * max(1.0, abs(analytic))
    tolerance = 1e-6 * max(1.0, abs(analytic))
    clear = (noise < tolerance) & np.isfinite(errors)  # steps at which rounding is negligible
    if not clear.any():
        return "unclear", "rounding hides the error at every step; scale the function's values down."
    closest = np.flatnonzero(clear)[np.argmin(eps[clear])]
    best = int(np.nanargmin(np.where(clear, errors, np.inf)))
    numeric, left, right = (float(x) for x in slopes[closest])
    broken = gaps[closest] > max(10 * tolerance, 20 * noise[closest])
    larger = clear & (eps >= 100 * eps[closest])
    if broken and (not larger.any() or gaps[closest] > gaps[larger].min() / 10):
        sides = f"the slope is {left:.6g} to the left and {right:.6g} to the right"
        what = "a jump" if larger.any() and gaps[closest] > 10 * gaps[larger].max() else "a kink"
        return "kink", f"{what}: {sides} down to eps = {eps[closest]:.0e}; the gradient is {analytic:.6g}."
    if errors[best] > tolerance and errors[closest] > 0.5 * errors[best]:
        return "wrong", (
            f"the derivative is wrong, not the step: the error levels off at {errors[closest]:.2g} "
            f"(analytic {analytic:.6g}, numeric {numeric:.6g}), far above rounding and truncation."
        )
    crossed = _crossing(eps, gaps, noise)
    if crossed is not None:
        return "kink nearby", (
            f"right, with a kink at a distance between {crossed[0]:.0e} and {crossed[1]:.0e}, which larger "
            f"steps cross; the smallest error is {errors[best]:.1e} at eps = {eps[best]:.0e}."
        )
    truncation = clear & (errors > 10 * noise)
    if not truncation.any():
        return "exact", (
            "right: all of the error is rounding, which grows like 1 / eps; there is no "
            "truncation error, which falls like eps^2 (the function is at most quadratic here)."
        )
    return "right", (
        f"right: truncation falls like eps^2 down to eps = {eps[best]:.0e}, where the error is "
        f"{errors[best]:.1e}; below that rounding grows like 1 / eps."
    )


def _crossing(eps: np.ndarray, gaps: np.ndarray, noise: np.ndarray) -> tuple[float, float] | None:
    """Return the first two steps between which the gap falls faster than eps^3; None without such steps.

    The gap of a smooth function falls like eps.
    """
    seen = gaps > 20 * noise
    for i in range(len(eps) - 1):
        falls = gaps[i + 1] < gaps[i] * (eps[i + 1] / eps[i]) ** 3
        if seen[i] and falls and eps[i + 1] < eps[i]:
            return float(eps[i + 1]), float(eps[i])
    return None


def _plot(sweep: Sweep, axes: Any = None) -> Any:
    """Plot the error against eps on logarithmic axes, with lines like eps^2 and 1 / eps for comparison."""
    from matplotlib.figure import Figure

    if axes is None:
        axes = Figure(figsize=(7, 5), layout="constrained").subplots()
    eps = np.array(sweep.eps)
    errors, gaps = (np.nan_to_num(np.array(y), nan=np.inf, posinf=np.inf) for y in (sweep.errors, sweep.gaps))
    seen = np.isfinite(errors) & (errors > 0)
    bottom = float(np.clip(errors[seen].min(initial=1e-12) / 10, 1e-17, 1e-12))
    top = 10 * max(1.0, errors[seen].max(initial=0.0))
    axes.loglog(eps[seen], errors[seen], "o-", color="tab:blue", label="|analytic - numeric|", zorder=3)
    if (errors == 0).any():
        none = np.full((errors == 0).sum(), 2 * bottom)
        axes.loglog(eps[errors == 0], none, "v", color="tab:blue", mfc="white", label="no error", zorder=3)
    axes.loglog(eps, gaps, "x", color="tab:gray", ms=5, label="|right slope - left slope|")
    if sweep.kind == "right":
        first = np.flatnonzero(seen)[0]
        truncation = errors[first] * (eps / eps[first]) ** 2
        axes.loglog(
            eps, truncation, "--", color="tab:green", lw=2.5, zorder=4, label="truncation, like eps$^2$"
        )
    if sweep.rounding:
        rounding = sweep.rounding / eps
        axes.loglog(eps, rounding, "--", color="tab:red", lw=1.2, label="rounding bound, like 1 / eps")
    axes.set(
        xlim=(2 * eps.max(), eps.min() / 2), ylim=(bottom, top), xlabel="step eps",
        ylabel="error of the derivative",
    )  # fmt: skip
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(frameon=True, framealpha=0.8, edgecolor="none", fontsize=9)
    place = label(sweep.input, sweep.name)
    axes.set_title(
        f"gradcheck of {place} at {list(sweep.index)}, order {sweep.order}: the derivative is {sweep.kind}",
        loc="left",
        fontsize=11,
    )
    axes.figure.supxlabel(textwrap.fill(sweep.reading, 100), fontsize=8.5, color="dimgray", x=0.02, ha="left")
    return axes
