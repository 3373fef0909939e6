"""Checks of the gradients of a trace's leaves by finite differences, in float64.

The first step size suits most functions. If its slope is not the gradient, smaller and larger steps tell a
wrong gradient from a kink and from the rounding error of f, which is divided by the step.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..checks.finite_differences import CLOSER, FiniteDifferences, Slopes
from ..core.backward import Node
from ..core.devices import on_cpu
from ..core.dtypes import finfo
from ..core.errors import OptionError
from ..core.tensor import Tensor
from .data import Check
from .tape import Arrays, Tape, apply, look_up

STEP = 1e-6
LARGER = (1e2, 1e3, 1e4, 1e5)  # factors of STEP, for an f that is large compared with its slope
ABSOLUTE = 1e-6  # the absolute tolerance between a gradient and a slope
RELATIVE = {"float16": 2e-2}  # the relative tolerance; 2e-3 for other dtypes
CHEAP = 20_000  # the most operations to recompute, unless check=True
CHEAP_FLOPS = 2e8  # the most floating-point operations, unless check=True
EACH = 64  # leaves of at most this many elements are checked at all of them


def run(
    tape: Tape,
    gradients: dict[Tensor, np.ndarray],
    seeds: list[tuple[Any, np.ndarray]],
    flops: int,
    check: bool | None,
) -> dict[Tensor, tuple[Check, ...]]:
    """Check the elements of each leaf with a gradient; in a large leaf, only the one of largest gradient.

    `check` is True to check at any cost, None to check if it is cheap, False not to check. Leaves that a
    checkpoint uses are left out, since a checkpoint runs the user's function on other tensors.
    """
    if check is False or not gradients:
        return {}
    after = {leaf: tape.downstream(leaf) for leaf, g in gradients.items() if g.size}
    after = {leaf: nodes for leaf, nodes in after.items() if all(hasattr(n.op, "rule") for n in nodes)}
    most = EACH
    work = sum(2 * len(nodes) * _how_many(gradients[leaf], most) for leaf, nodes in after.items())
    if work > CHEAP:
        most = 1
        work = sum(2 * len(nodes) for nodes in after.values())
    if not check and (work > CHEAP or flops * work / max(len(tape.nodes), 1) > CHEAP_FLOPS):
        return {}
    base: dict[Any, Arrays] = dict(tape.run(double=True))
    gradients = {leaf: on_cpu(g) for leaf, g in gradients.items()}
    found = {}
    for leaf, nodes in after.items():
        g = gradients[leaf]
        x = base[leaf][0]
        with np.errstate(all="ignore"):
            differences = _differences(nodes, base, seeds)
            found[leaf] = tuple(_check(g, differences, x, index) for index in _elements(g, most))
    return found


def _how_many(g: np.ndarray, most: int) -> int:
    return g.size if g.size <= most else 1


def _elements(g: np.ndarray, most: int) -> list[tuple[int, ...]]:
    """Return the indices to check: that of the largest gradient, then all others if there are few."""
    magnitude = np.abs(np.nan_to_num(g)).reshape(-1)
    largest = int(magnitude.argmax())
    others = [i for i in range(g.size) if i != largest] if g.size <= most else []
    return [tuple(int(n) for n in np.unravel_index(i, g.shape)) for i in (largest, *others)]


def _differences(
    nodes: list[Node], base: dict[Any, Arrays], seeds: list[tuple[Any, np.ndarray]]
) -> FiniteDifferences:
    """Return the finite differences of outputs times seeds. `nodes` are the nodes that depend on the leaf."""

    def values() -> np.ndarray:
        arrays = ChainMap({}, base)
        for node in nodes:
            arrays[node] = apply(node, arrays, double=True)
        return outputs(arrays)

    def outputs(arrays: Mapping[Any, Arrays]) -> np.ndarray:
        flat = [np.ravel(on_cpu(look_up(arrays, edge))) for edge, _ in seeds]
        return np.concatenate(flat, dtype=np.float64)

    weights = np.concatenate([np.ravel(on_cpu(g)) for _, g in seeds], dtype=np.float64)
    return FiniteDifferences(values, weights, outputs(base))


def _slopes(differences: FiniteDifferences, x: np.ndarray, index: tuple[int, ...], h: float) -> Slopes:
    try:
        return differences.slopes_at(x, index, h)
    except OptionError:  # the step is too small for the element
        return Slopes(math.nan, math.nan, math.nan, math.nan)


def _check(
    gradient: np.ndarray, differences: FiniteDifferences, x: np.ndarray, index: tuple[int, ...]
) -> Check:
    """Compare the gradient of one element with finite differences of several step sizes."""
    analytic, value = float(gradient[index]), float(x[index])
    slopes = partial(_slopes, differences, x, index)
    relative = RELATIVE.get(str(gradient.dtype), 2e-3)
    largest = float(np.abs(np.nan_to_num(gradient, posinf=0, neginf=0)).max())
    absolute = ABSOLUTE + 4 * float(finfo(gradient.dtype).eps) * largest  # the gradient's own rounding

    def result(verdict: str, s: Slopes, numeric: float | None = None) -> Check:
        slope = s.central if numeric is None else numeric
        return Check(index, analytic, slope, s.error, verdict, s.left, s.right)

    def close(slope: float, error: float = 0.0) -> bool:
        return abs(analytic - slope) <= absolute + relative * abs(slope) + error

    h = STEP * max(1.0, abs(value))
    first = slopes(h)
    if not math.isfinite(sum(first)) and value:  # the edge of the domain may be near
        h = STEP * abs(value)
        first = slopes(h)
    if close(first.central):
        return result("agree", first)
    if not math.isfinite(sum(first)):
        return result("none", first)
    closer, closest = (slopes(h / CLOSER**power) for power in (1, 2))
    if not math.isfinite(analytic):
        return result("differ", first)
    gaps = [s.gap for s in (first, closer, closest)]
    rough = absolute + relative * abs(first.central) + closest.error
    jumps = 4 * gaps[0] < gaps[1] and 4 * gaps[1] < gaps[2]
    if min(gaps) > rough and (jumps or min(gaps) > max(gaps) / 4):
        return _check_at_kink(result, close, closer, jumps)
    for s in (closer, closest):
        if close(s.central) and s.error < abs(s.central) / 10:
            return result("agree", s)
    best = _steadiest_slopes([closest, closer, first, *(slopes(h * larger) for larger in LARGER)])
    if close(best.central, best.error):
        unsure = best.error > absolute + max(abs(analytic), abs(best.central)) / 2
        return result("unsure" if unsure else "agree", best)
    return result("differ", best)


def _check_at_kink(result: Callable[..., Check], close: Callable[..., bool], s: Slopes, jumps: bool) -> Check:
    """Accept any slope between those of both sides at a kink (a subgradient), the smaller one at a jump."""
    if jumps:
        gentler = min(s.left, s.right, key=abs)
        return result("jump" if close(gentler, s.error) else "differ", s, gentler)
    low, high = sorted((s.left, s.right))
    inside = low <= result("kink", s).analytic <= high
    return result("kink" if inside or close(low, s.error) or close(high, s.error) else "differ", s)


def _steadiest_slopes(found: list[Slopes]) -> Slopes:
    """Return the slopes that change least between step sizes. The change is added to their error."""
    best = found[2]._replace(error=math.inf)
    for before, s, after in zip(found, found[1:], found[2:], strict=False):
        spread = max(abs(s.central - before.central), abs(s.central - after.central))
        if s.error + spread < best.error:
            best = s._replace(error=s.error + spread)
    return best
