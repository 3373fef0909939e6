"""Verdicts: the likely mistake in a gradient, found by comparing analytic and numeric values.

Each function below recognizes one common mistake: it tests whether that mistake would turn the numeric
gradient into the analytic one. `structure` does so for whole Jacobians, `ratios` for constant factors, and
`formulas` searches for simple expressions of the input, the output and the other inputs. If no mistake fits,
the verdict describes the wrong elements.
"""

from __future__ import annotations

import itertools

import numpy as np

from ..core.errors import GradientShapeError, MinigradError
from . import formulas, ratios, structure
from .evidence import Comparison, Evidence, Verdict, first_index, region, subsets, where_wrong

LOOK = (
    "Write the value as steps (a = ..., b = f(a), ...), and the derivative of each beside it. Then check a "
    "rule of the first step alone, and add the others one by one; or write the steps with minigrad's ops, "
    "and compare x.grad with the rule's."
)
COUPLED = (
    "Write one element's derivative with indices: d y[i] / d x[j], for i = j and for i != j. "
    "The gradient of x[j] is the sum over i of g[i] times it."
)
BACK = "Move the gradient's axes back before returning it."


def verdict_of(c: Comparison, evidence: Evidence) -> Verdict:
    """Return the verdict on an input that has wrong elements."""
    if not np.isfinite(c.analytic[c.wrong]).all():
        return _nonfinite_verdict(c)
    found = (
        _find_missing(c, evidence)
        or _find_constant_factor(c, evidence)
        or _find_transpose(c)
        or _find_extra_sum(c, evidence)
    )
    if found:
        return found
    derivatives = evidence.derivatives()
    for derivative in derivatives:
        if found := formulas.verdict_of(derivative, evidence, where_wrong(c)):
            return found
        if found := structure.verdict_of(derivative):
            return found
    found = (
        _find_missing_mask(c, evidence)
        or (None if derivatives else formulas.verdict_of_gradient(c, evidence))
        or _find_constant_term(c, evidence)
        or _find_permutation(c)
        or _find_small_error(c)
    )
    if found or (found := _find_unused(c, evidence)):
        return found
    coupled = next((text for d in derivatives if (text := structure.describe(d))), "")
    if coupled:
        return Verdict(coupled, COUPLED)
    return Verdict(f"no known pattern: {_describe_wrong(c)}{where_wrong(c)}", LOOK)


def verdict_of_shapes(error: GradientShapeError) -> Verdict:
    """Return the verdict on a gradient that does not have its input's shape."""
    shape, expected = error.shape, error.expected
    shapes = f"the gradient has shape {list(shape)}, the input {list(expected)}"
    if len(shape) == len(expected) and sorted(shape) == sorted(expected):
        return Verdict(f"transposed, or not reshaped back: {shapes}", BACK)
    for short, long, what in ((expected, shape, "summed"), (shape, expected, "expanded")):
        for axes in subsets(len(long)):
            left = tuple(n for i, n in enumerate(long) if i not in axes)
            ones = tuple(1 if i in axes else n for i, n in enumerate(long))
            if short not in (left, ones):
                continue
            lengths = " and ".join(f"axis {i} (length {long[i]})" for i in axes)
            if what == "summed":
                return Verdict(
                    f"missing sum over a broadcast axis: {lengths} of the gradient; {shapes}",
                    "Sum the gradient over the axes along which the rule repeats this input.",
                )
            return Verdict(
                f"not expanded over a reduced axis: {lengths} of the input; {shapes}",
                "Expand the gradient over the axes that the rule reduces: broadcast_to(g, x.shape).",
            )
    if np.prod(shape) == np.prod(expected):
        return Verdict(
            f"not reshaped back: {shapes}", "Return the gradient in the input's shape: g.reshape(x.shape)."
        )
    return Verdict(f"wrong shape: {shapes}", "Return a gradient of the input's shape.")


def verdict_of_failure(error: MinigradError) -> Verdict:
    """Return the verdict on a gradient function that raised an error."""
    what, _, advice = str(error).partition("\n")
    what = what.rstrip(".")
    if "matmul" in what:
        advice = (
            "Write the shapes beside each factor: g has the shape of x @ y, and the gradients are "
            "g @ y.mT and x.mT @ g (`.mT` transposes the last two axes)."
        )
        what += "; perhaps a factor of the matrix product must be transposed"
    return Verdict(f"no gradient: {what}", advice)


def are_swapped(c: Comparison, other: Comparison) -> bool:
    """Return whether two inputs have each other's gradients."""
    if c.x.shape != other.x.shape or not c.x.size:
        return False
    return c.matches(other.numeric) and other.matches(c.numeric)


def exchange_in(evidence: Evidence) -> str:
    """Describe the exchanged formulas if one quantity is used where another belongs; otherwise, ""."""
    found = (formulas.exchange_in(d, evidence) for d in evidence.derivatives())
    return next((f"; the derivative {verdict.text}" for verdict in found if verdict), "")


# ---------------------------------------------------------------- one function for each mistake


def _nonfinite_verdict(c: Comparison) -> Verdict:
    worst = first_index(c.wrong & ~np.isfinite(c.analytic))
    return Verdict(
        f"the gradient is {c.analytic[worst]} at {list(worst)}{where_wrong(c)}",
        "Look for 0 / 0, inf - inf or 0 * inf in the rule, also in the branch that `where` does not select.",
    )


def _find_missing(c: Comparison, evidence: Evidence) -> Verdict | None:
    if not c.matches(np.zeros_like(c.numeric), c.wrong):
        return None
    kind = "None" if evidence.missing else "zero"
    return Verdict(
        f"gradient missing ({kind} where the slope is not){where_wrong(c)}",
        "Return a gradient for this input from the rule, and do not detach (.data, .numpy()).",
    )


def _find_constant_factor(c: Comparison, evidence: Evidence) -> Verdict | None:
    found = ratios.constant_factor(c, evidence, c.wrong)
    if found and "sign flipped" not in found.text:
        return found._replace(text=f"{found.text}{formulas.explain_factor(c, evidence)}")
    return found


def _find_constant_term(c: Comparison, evidence: Evidence) -> Verdict | None:
    """Recognize a constant that some elements lack, such as that of a one-hot target."""
    if sum(y.size for y in evidence.outputs) != 1 or c.wrong.sum() < 2 or c.wrong.all():
        return None
    lacks = (c.numeric - c.analytic)[c.wrong]
    if np.ptp(lacks) > 1e-4 * np.abs(lacks).max():
        return None
    for axis in range(c.x.ndim):
        others = tuple(i for i in range(c.x.ndim) if i != axis)
        if others and (c.wrong.sum(others) == 1).all():
            return Verdict(
                f"a constant term is missing ({lacks[0]:.6g}) in 1 element for each index of axis {axis}",
                "Subtract the one-hot targets in the gradient of a cross-entropy: softmax(x) - one_hot.",
            )
    return None


def _find_transpose(c: Comparison) -> Verdict | None:
    for axes in itertools.permutations(range(c.x.ndim)) if c.x.ndim < 6 else ():
        moved = c.numeric.transpose(axes)
        if moved.shape == c.x.shape and c.matches(moved):
            how = "" if c.x.ndim == 2 else f" with axes {list(axes)}"
            return Verdict(f"transposed (analytic = numeric transposed{how})", BACK)
    return None


def _find_extra_sum(c: Comparison, evidence: Evidence) -> Verdict | None:
    reduced = bool(evidence.outputs) and max(y.size for y in evidence.outputs) < c.x.size
    for axis, length in enumerate(c.x.shape):
        total = c.numeric.sum(axis, keepdims=True) + np.zeros_like(c.numeric)
        for value, what in ((total, "summed"), (total / max(length, 1), "averaged")):
            if length > 1 and c.matches(value) and reduced:
                return Verdict(
                    f"the same for each element along axis {axis}, but each has its own (analytic = numeric "
                    f"{what} over it)",
                    "Each element of an axis that is reduced gets g times its own derivative: softmax "
                    "for logsumexp, a mask for max.",
                )
            if length > 1 and c.matches(value):
                return Verdict(
                    f"{what} over axis {axis}, which is not broadcast (analytic = numeric {what} over it)",
                    f"Do not sum the gradient over axis {axis}: each element has its own.",
                )
    return None


def _find_missing_mask(c: Comparison, evidence: Evidence) -> Verdict | None:
    """Recognize a nonzero gradient where the slope is zero.

    Elsewhere, the gradient may be right, off by a constant factor, or zero.
    """
    flat = c.wrong & c.flat
    rest = c.wrong & ~c.flat
    if not flat.any():
        return None
    advice = "Apply the mask, the bounds or the selection of the value to the gradient too."
    some = f"a gradient where the slope is zero, in {int(flat.sum())} of {c.x.size} elements"
    if not rest.any():
        if c.flat.all():
            return Verdict(f"{some}: the value does not depend on this input", advice)
        return Verdict(f"{some}: the gradient lacks a mask{region(c, flat)}", advice)
    if c.matches(np.zeros_like(c.numeric), rest):
        return Verdict(
            f"the gradient is nonzero at {int(flat.sum())} elements where the slope is zero, and zero at "
            f"{int(rest.sum())} where it is not: its mask differs from the value's",
            "Draw or compute the mask once, and use the same one for both.",
        )
    found = ratios.constant_factor(c, evidence, rest)
    if not found:
        return None
    return Verdict(f"{some}: the gradient lacks a mask; elsewhere {found.text}", advice)


def _find_unused(c: Comparison, evidence: Evidence) -> Verdict | None:
    """Recognize an input on which only one of the gradient and the derivative depends."""
    ignored, needless = evidence.used()
    if ignored:
        return Verdict(
            f"the gradient does not depend on {' and '.join(ignored)}, but the derivative does"
            f"{where_wrong(c)}",
            "A part of the value is taken for linear, or its backward is skipped: differentiate each step, "
            "also softmax, exp, a division or a square.",
        )
    if needless:
        return Verdict(
            f"the gradient depends on {' and '.join(needless)}, but the derivative does not{where_wrong(c)}",
            "Look for a factor that does not belong there: what enters the value linearly drops out.",
        )
    return None


def _find_permutation(c: Comparison) -> Verdict | None:
    a, n = np.sort(c.analytic, axis=None), np.sort(c.numeric, axis=None)
    if c.x.size < 3 or (np.abs(a - n) > c.atol + c.rtol * np.abs(n)).any():
        return None
    return Verdict(
        f"the right numbers in the wrong places{where_wrong(c)}",
        "Look for an index, a flip, a roll or a reshape that the rule does not undo.",
    )


def _find_small_error(c: Comparison) -> Verdict | None:
    off = np.abs(c.analytic - c.numeric)[c.wrong] / np.maximum(np.abs(c.numeric[c.wrong]), c.atol)
    if off.max() > 0.05:
        return None
    return Verdict(
        f"nearly right: off by at most {100 * off.max():.2g}%{where_wrong(c)}",
        "Look for a small term of the value, such as an eps, that the gradient lacks.",
    )


def _describe_wrong(c: Comparison) -> str:
    """Describe the wrong elements by the ratio of their gradients."""
    a = c.analytic[c.wrong & ~c.flat]
    n = c.numeric[c.wrong & ~c.flat]
    if not a.size:
        return "a gradient where the slope is zero"
    ratio = a / n
    return f"analytic / numeric is {ratio.min():.4g} to {ratio.max():.4g}"
