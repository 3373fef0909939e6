"""A Sweep as a picture."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from .report import label

if TYPE_CHECKING:
    from .sweep import Sweep


def plot_sweep(sweep: Sweep, axes: Any = None) -> Any:
    """Error against eps on logarithmic axes, with lines of slope eps^2 and 1 / eps to hold it against."""
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
        axes.loglog(
            eps[errors == 0], none, "v", color="tab:blue", mfc="white", label="no error at all", zorder=3
        )
    axes.loglog(eps, gaps, "x", color="tab:gray", ms=5, label="|right slope - left slope|")
    if sweep.kind == "right":
        first = np.flatnonzero(seen)[0]
        truncation = errors[first] * (eps / eps[first]) ** 2
        axes.loglog(
            eps, truncation, "--", color="tab:green", lw=2.5, zorder=4, label="truncation, like eps$^2$"
        )
    if sweep.rounding:
        rounding = sweep.rounding / eps
        axes.loglog(eps, rounding, "--", color="tab:red", lw=1.2, label="rounding, at most, like 1 / eps")
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
