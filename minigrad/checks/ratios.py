"""The verdict on a gradient that is off by a constant factor, and the likely origin of the factor."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from .evidence import Comparison, Evidence, Verdict, where_wrong

CONSTANTS = {
    "ln 2, as for base 2": math.log(2),
    "ln 10, as for base 10": math.log(10),
    "pi": math.pi,
    "pi / 180, degrees to radians": math.pi / 180,
    "sqrt(2)": math.sqrt(2),
    "sqrt(pi)": math.sqrt(math.pi),
    "sqrt(2 pi)": math.sqrt(2 * math.pi),
    "2 / sqrt(pi), the factor of erf": 2 / math.sqrt(math.pi),
}
PRECISION = 1e-5  # the relative precision of a ratio by finite differences


def constant_factor(c: Comparison, evidence: Evidence, where: np.ndarray) -> Verdict | None:
    """Return a verdict if analytic = k numeric at the elements `where`, otherwise None.

    A single element fits any k, so k must then be a simple number or have a known origin.
    """
    a = c.analytic[where]
    n = c.numeric[where]
    k = float(a @ n / (n @ n)) if n.any() else 0.0
    if not k or not c.matches(k * c.numeric, where):
        return None
    plain = simple_fraction(k, 10 * PRECISION * abs(k))
    known = _origin_of(k, evidence) or _relation_to_output(k, evidence)
    # a single element fits any k, and a small error looks like a k near 1
    few = (np.abs(n) > c.atol).sum() < 2
    near = abs(k - 1) < 0.02
    if (few or near) and not ((plain and plain != 1) or known):
        return None
    k = plain or k
    if k == -1:
        return Verdict(
            f"sign flipped (analytic = -numeric){where_wrong(c)}", "Look for a minus sign in the rule."
        )
    return Verdict(
        f"off by a constant factor (analytic = {k:.6g} x numeric){known}{where_wrong(c)}",
        "Look for a factor that the rule leaves out or has twice: 2, 1/2, the length of an axis.",
    )


def simple_fraction(k: float, tolerance: float) -> float:
    """Return k as a fraction with a small denominator, or 0."""
    plain = float(Fraction(k).limit_denominator(12))
    return plain if abs(plain - k) <= tolerance else 0.0


def _relation_to_output(k: float, evidence: Evidence) -> str:
    """Describe the factor as a simple number times a scalar output, or times 1 / output; or ""."""
    if len(evidence.outputs) != 1 or evidence.outputs[0].size != 1:
        return ""
    y = float(evidence.outputs[0].reshape(()))
    for what, value in {"the output": y, "1 / the output": 1 / y if y else 0.0}.items():
        times = simple_fraction(k / value, 10 * PRECISION * abs(k / value)) if value else 0.0
        if times:
            factor = "" if times == 1 else f"{Fraction(times).limit_denominator(12)} x "
            return f"; that is {factor}{what}"
    return ""


def _is_elementwise(evidence: Evidence) -> bool:
    """Return whether each output depends only on the input at its index, or the derivatives are unknown."""
    used = [
        d.numeric.reshape(d.y.size, d.x.size) * ~np.eye(d.y.size, d.x.size, dtype=bool)
        for d in evidence.derivatives()
    ]
    return not any((np.abs(m) > 1e-6).any() for m in used)


def _origin_of(k: float, evidence: Evidence) -> str:
    """Describe where the factor may come from: the length of an axis, or a constant such as ln 2."""
    close = lambda value: value > 0 and abs(abs(k) / value - 1) < 10 * PRECISION
    lengths = evidence.lengths
    if evidence.weights is not None:  # the function may be elementwise, so a length may be a coincidence
        for what, n in lengths:
            if n > 2 and (close(math.sqrt(n / (n - 1))) or close(math.sqrt((n - 1) / n))):
                return f"; {n} is {what}: one standard deviation divides by it, the other by {n - 1}"
        lengths = [] if _is_elementwise(evidence) else lengths
    for what, n in lengths:
        if n > 2 and (close(n) or close(1 / n)):
            return f"; {n} is {what}, as between a mean and a sum"
    for what, n in lengths:
        if n > 2 and (close(n / (n - 1)) or close((n - 1) / n)):
            return f"; {n} is {what}: one divides by it, the other by {n - 1}"
        if n > 2 and math.isqrt(n) ** 2 != n and (close(math.sqrt(n)) or close(1 / math.sqrt(n))):
            return f"; {n} is {what}: its square root is the factor, as in attention's scale"
    for what, value in CONSTANTS.items():
        if close(value) or close(1 / value):
            return f"; {value:.6g} is {what}"
    return ""
