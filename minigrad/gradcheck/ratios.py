"""A gradient that is off by a factor: a constant one, or one that varies with the values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
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
PRECISION = 1e-5  # relative, of a ratio by finite differences


def constant_factor(c: Comparison, evidence: Evidence, where: np.ndarray) -> Verdict | None:
    """Return a verdict if analytic = k numeric at the elements `where`.

    A single element fits any k, so k must then be a simple number or one of known origin.
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


def varying_factor(c: Comparison, evidence: Evidence) -> Verdict | None:
    """Return a verdict if numeric is analytic times (or plus g times) a simple expression of x, y, others."""
    n = c.numeric[c.wrong]
    a = c.analytic[c.wrong]
    if n.size < 3 or not (np.abs(a) > c.atol).all():
        return None
    for kind, target in (("times", n / a), ("plus", n - a)):
        if np.ptp(target) <= 1e-3 * np.abs(target).max():
            continue  # constants cannot be distinguished
        for what, values in _expressions(c, evidence):
            if kind == "plus" and evidence.weights is None:
                continue
            expected = values[c.wrong]
            if kind == "plus":
                expected = expected * evidence.weights[c.wrong]  # type: ignore[index]
            k = _constant_ratio(target, expected)
            if k:
                sign = "" if k == 1 else "-" if k == -1 else f"{_format_fraction(k)} "
                formula = f"analytic x {sign}{what}" if kind == "times" else f"analytic + g x {sign}{what}"
                missing = "a factor is missing" if kind == "times" else "a term is missing"
                return Verdict(
                    f"{missing}: numeric = {formula}{_legend(what)}{where_wrong(c)}",
                    "Write out the derivative by the chain rule and the product rule, factor by factor.",
                )
    return None


def simple_fraction(k: float, tolerance: float) -> float:
    """Return k as a fraction with a small denominator, or 0."""
    plain = float(Fraction(k).limit_denominator(12))
    return plain if abs(plain - k) <= tolerance else 0.0


def _legend(what: str) -> str:
    names = {"x": "x is this input", "y": "y is the output"}
    return "".join(f", where {said}" for name, said in names.items() if re.search(rf"\b{name}\b", what))


def _format_fraction(k: float) -> str:
    return str(Fraction(k).limit_denominator(12))


def _constant_ratio(target: np.ndarray, expected: np.ndarray) -> float:
    """Return k, a simple fraction, if target = k expected everywhere, else 0."""
    if not np.isfinite(expected).all() or not (np.abs(expected) > 1e-9).all():
        return 0.0
    ratio = target / expected
    k = simple_fraction(float(np.median(ratio)), 1e-4)
    return k if k and (np.abs(ratio - k) <= 10 * PRECISION * abs(k)).all() else 0.0


def _expressions(c: Comparison, evidence: Evidence) -> Iterator[tuple[str, np.ndarray]]:
    """Iterate over simple expressions of the values at the same index: input, output, other inputs."""
    numbers = [("x", c.x)]
    numbers += [("y", y) for y in evidence.outputs if y.shape == c.x.shape][:1]
    for name, other in evidence.others:
        if np.broadcast_shapes(other.shape, c.x.shape) == c.x.shape if _fits(other, c.x) else False:
            numbers.append((name, np.broadcast_to(other, c.x.shape)))
    for name, v in numbers:
        bare = f"({name})" if " " in name else name
        with np.errstate(all="ignore"):
            yield bare, v
            yield f"{bare}^2", v * v
            yield f"1 / {bare}", 1 / v
            yield f"1 / {bare}^2", 1 / (v * v)
            yield f"(1 - {name})", 1 - v
            yield f"(1 + {name})", 1 + v
            yield f"(1 - {bare}^2)", 1 - v * v
            yield f"(1 + {bare}^2)", 1 + v * v
            yield f"1 / (1 - {name})", 1 / (1 - v)
            yield f"1 / (1 + {name})", 1 / (1 + v)
            yield f"1 / (1 - {bare}^2)", 1 / (1 - v * v)
            yield f"1 / (1 + {bare}^2)", 1 / (1 + v * v)
            yield f"log({name})", np.log(v)
            yield f"{bare} (1 - {name})", v * (1 - v)
            yield f"exp({name})", np.exp(v)
            yield f"exp(-{name})", np.exp(-v)


def _fits(other: np.ndarray, x: np.ndarray) -> bool:
    pairs = zip(reversed(other.shape), reversed(x.shape), strict=False)
    return 0 < other.ndim <= x.ndim and all(n in (1, m) for n, m in pairs)


def _relation_to_output(k: float, evidence: Evidence) -> str:
    """Describe the factor as a simple number times the output or 1 / output, for a scalar output."""
    if len(evidence.outputs) != 1 or evidence.outputs[0].size != 1:
        return ""
    y = float(evidence.outputs[0].reshape(()))
    for what, value in {"the output": y, "1 / the output": 1 / y if y else 0.0}.items():
        times = simple_fraction(k / value, 10 * PRECISION * abs(k / value)) if value else 0.0
        if times:
            return f"; that is {'' if times == 1 else _format_fraction(times) + ' x '}{what}"
    return ""


def _origin_of(k: float, evidence: Evidence) -> str:
    """Describe where the factor may come from: the length of an axis, or a constant such as ln 2."""
    close = lambda value: value > 0 and abs(abs(k) / value - 1) < 10 * PRECISION
    lengths = evidence.lengths
    if evidence.weights is not None:  # elementwise, perhaps: a length alone would be a coincidence
        for what, n in lengths:
            if n > 2 and (close(math.sqrt(n / (n - 1))) or close(math.sqrt((n - 1) / n))):
                return f"; {n} is {what}: one standard deviation divides by it, the other by {n - 1}"
        lengths = []
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
