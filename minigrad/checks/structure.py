"""Verdicts from the whole Jacobian: d output element / d input element.

A gradient is g times the Jacobian. A mistake in how elements depend on each other (a transpose, a missing
sum, an index used twice) can be seen in the entries of the Jacobian, but perhaps not in the product with g.
"""

from __future__ import annotations

import numpy as np

from .evidence import Derivative, Verdict, first_index

RANK = 1e-5  # singular values below this fraction of the largest count as zero


def verdict_of(d: Derivative) -> Verdict | None:
    """Return the verdict on one output's derivative, or None if its structure fits no known mistake."""
    if not d.numeric.size or d.same(d.analytic, d.numeric).all():
        return None
    return (
        _find_transpose(d) or _find_left_out(d) or _find_permutation(d) or _find_coupling(d) or _find_shift(d)
    )


def _find_transpose(d: Derivative) -> Verdict | None:
    """Recognize an analytic derivative that is a transpose of the numeric one."""
    outs = d.y.ndim
    whole = (*range(outs, outs + d.x.ndim), *range(outs))
    places = {
        f"the output's axis {p} and the input's axis {q}": d.numeric.swapaxes(p, outs + q)
        for p, n in enumerate(d.y.shape)
        for q, m in enumerate(d.x.shape)
        if n == m > 1
    }
    if d.x.shape == d.y.shape:
        places["the output and the input"] = d.numeric.transpose(whole)
    for what, moved in places.items():
        if d.same(d.analytic, moved).all():
            return Verdict(
                f"not transposed: g is multiplied by the derivative instead of by its transpose "
                f"({what} are exchanged)",
                "Transpose the factor: g @ y.mT for x @ y, not g @ y. The transpose of a running "
                "sum, a shift or a convolution runs the other way.",
            )
    return None


def _find_left_out(d: Derivative) -> Verdict | None:
    """Recognize an analytic derivative that lacks some entries of the numeric one."""
    same = d.same(d.analytic, d.numeric)
    zero = np.abs(d.analytic) <= d.tolerance
    lost = zero & ~same
    used = np.abs(d.numeric) > d.tolerance
    if not (same | zero).all() or not lost.any():
        return None
    axes = tuple(range(d.y.ndim))
    losing = lost.any(axes)  # the inputs that lack entries
    kept = used & same & losing
    for axis, length in enumerate(d.y.shape):
        indices = np.flatnonzero(kept.any(tuple(i for i in range(kept.ndim) if i != axis)))
        # true if each index uses each of these inputs
        repeated = used.any(tuple(i for i in axes if i != axis))[:, losing].all()
        if length > 1 and len(indices) == 1 and repeated:
            return Verdict(
                f"missing sum over a broadcast axis: only index {indices[0]} of the output's axis {axis} "
                f"(length {length}) counts",
                "Sum the gradient over that axis: every index of it uses this input.",
            )
    uses = used.sum(axes)
    counted = kept.sum(axes)
    if _is_diagonal(d, kept) or not (counted[losing] == 1).all():
        return None
    index = first_index(losing)
    return Verdict(
        f"contributions overwritten: the input at {list(index)} is used {uses[index]} times, but one counts",
        "Add up repeated indices with np.add.at or xp.scatter_add; `out[index] = g` keeps only the last.",
    )


def _is_diagonal(d: Derivative, kept: np.ndarray) -> bool:
    """Return whether the kept entries only connect inputs with the outputs at the same indices."""
    if d.x.shape != d.y.shape:
        return False
    return not any(_off_diagonal(kept, axis, d.x.ndim).any() for axis in range(d.x.ndim))


def _find_permutation(d: Derivative) -> Verdict | None:
    """Recognize rows with the right numbers for the wrong inputs."""
    rows = lambda m: np.sort(m.reshape(d.y.size, -1), axis=1)
    if d.x.size < 3 or not d.same(rows(d.analytic), rows(d.numeric)).all():
        return None
    return Verdict(
        "the right numbers in the wrong places: each output's derivative goes to another input",
        "Look for an index, a flip, a roll or a reshape that the rule does not undo.",
    )


def _off_diagonal(m: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """Return the entries whose output and input have different indices along an axis."""
    front = np.moveaxis(m, (axis, ndim + axis), (0, 1))
    return front[~np.eye(front.shape[0], dtype=bool)]


def _coupled_axes(d: Derivative, m: np.ndarray) -> list[int]:
    """Return the axes along which entries between different elements are not zero."""
    off = (np.abs(_off_diagonal(m, axis, d.x.ndim)) for axis in range(d.x.ndim))
    return [axis for axis, entries in enumerate(off) if (entries > 10 * d.tolerance).any()]


def _find_coupling(d: Derivative) -> Verdict | None:
    """Recognize elements that depend on each other along an axis only in the value, or in the gradient."""
    if d.x.shape != d.y.shape:
        return None
    value, gradient = _coupled_axes(d, d.numeric), _coupled_axes(d, d.analytic)
    missing = [k for k in value if k not in gradient]
    extra = [k for k in gradient if k not in value]
    if missing and extra:
        return Verdict(
            f"along the wrong axis: the value couples elements along {_axes(missing)}, the gradient "
            f"along {_axes(extra)}",
            "Sum in the gradient along the axis along which the value sums.",
        )
    if extra:
        return Verdict(
            f"elements mixed along {_axes(extra)}: in the gradient, but not in the value",
            f"Do not sum or shift the gradient along {_axes(extra)}: each element has its own.",
        )
    difference = _coupled_axes(d, d.analytic - d.numeric)
    if not difference and value:
        return Verdict(
            f"an element's effect on its own output is missing or wrong; its effect on the others along "
            f"{_axes(value)} is right",
            "The product rule has two terms: one for the element itself, one for the sum that contains it.",
        )
    if not difference:
        return None
    along = _axes(difference)
    blocks = _blocks(d.numeric - d.analytic, difference, d.x.ndim)
    terms = max(map(_rank, blocks))
    advice = f"Each element along {along} changes all outputs there: the derivative has a sum over {along}."
    if not missing and (k := _off_diagonal_factor(d, difference)):
        what = "has the wrong sign" if k == -1 else f"is off by a factor (analytic = {k:.6g} x numeric)"
        return Verdict(f"the sum over {along} {what}", advice)
    few = terms <= 2 and blocks.shape[1] >= terms + 2
    known = _describe_missing_sums(d, blocks, difference, terms, bool(missing)) if few else ""
    if known or (few and missing):
        count = "a sum" if terms == 1 else "two sums"
        lack = "missing" if missing else "missing or wrong"
        return Verdict(f"{lack}: {count} over {along}{known}", advice)
    if not missing:
        return None
    text = f"the value couples elements along {_axes(missing)}, the gradient does not"
    if not gradient and _has_right_diagonal(d):
        text += ": only the diagonal of the derivative is there, each element's effect on its own output"
    return Verdict(text, advice)


def _has_right_diagonal(d: Derivative) -> bool:
    shape = (d.y.size, d.x.size)
    return bool(d.same(np.diag(d.analytic.reshape(shape)), np.diag(d.numeric.reshape(shape))).all())


def describe(d: Derivative) -> str:
    """Describe along which axes a derivative that fits no known mistake is wrong; "" if there are none."""
    if d.x.shape != d.y.shape or d.same(d.analytic, d.numeric).all():
        return ""
    axes = _coupled_axes(d, d.analytic - d.numeric)
    return f"the value couples elements along {_axes(axes)}, the gradient does so differently" if axes else ""


def _off_diagonal_factor(d: Derivative, axes: list[int]) -> float:
    """Return k if the analytic entries between elements along `axes` are k times the numeric ones, or 0."""
    a, n = (
        np.concatenate([_off_diagonal(m, axis, d.x.ndim).ravel() for axis in axes])
        for m in (d.analytic, d.numeric)
    )
    k = float(a @ n / (n @ n))
    k = round(k) if abs(k - round(k)) < RANK else k
    return k if abs(k) > RANK and (np.abs(a - k * n) <= 10 * d.tolerance + d.rtol * np.abs(n)).all() else 0.0


def _describe_missing_sums(
    d: Derivative, blocks: np.ndarray, axes: list[int], terms: int, missing: bool
) -> str:
    """Describe the sums that the gradient lacks, by the directions that the missing rows span; or ""."""
    inputs, outputs = (_lines(v, axes) for v in (d.x, d.y))
    centered = inputs - inputs.mean(1, keepdims=True)
    ones = np.ones_like(inputs)
    if terms == 2:
        both = all(_spans(b, (one, c)) for b, one, c in zip(blocks, ones, centered, strict=True))
        constants = ", as if both were constants" if missing else ""
        return f": the mean's and the variance's part{constants}" if both else ""
    with np.errstate(over="ignore"):
        exponentials = np.exp(outputs)
    known = {
        "the same for each input, as if a mean or a sum were a constant": ones,
        "along the input minus its mean, as if a variance were a constant": centered,
        "along the input, as if a norm were a constant": inputs,
        "along the output, as in softmax: y (g - sum(g y))": outputs,
        "along exp(output), as in log_softmax: g - exp(y) sum(g)": exponentials,
    }
    for what, directions in known.items():
        if all(_spans(block, (line,)) for block, line in zip(blocks, directions, strict=True)):
            return f", {what}"
    return ""


def _lines(v: np.ndarray, axes: list[int]) -> np.ndarray:
    """Return an array as a matrix with a row for each index outside of `axes`."""
    rest = [k for k in range(v.ndim) if k not in axes]
    size = int(np.prod([v.shape[k] for k in axes]))
    return v.transpose(*rest, *axes).reshape(-1, size)


def _blocks(m: np.ndarray, axes: list[int], ndim: int) -> np.ndarray:
    """Return a matrix (output, input) along `axes` for each index outside of them."""
    rest = [k for k in range(ndim) if k not in axes]
    order = [*rest, *axes]
    size = int(np.prod([m.shape[k] for k in axes]))
    count = int(np.prod([m.shape[k] for k in rest]))
    square = m.transpose(*order, *[ndim + k for k in order]).reshape(count, size, count, size)
    return square[np.arange(count), :, np.arange(count), :]


def _rank(block: np.ndarray) -> int:
    values = np.linalg.svd(block, compute_uv=False)
    return int((values > RANK * values[0]).sum()) if values.size and values[0] else 0


def _spans(block: np.ndarray, directions: tuple[np.ndarray, ...]) -> bool:
    """Return whether each row of the block is a linear combination of the directions."""
    basis = np.stack(directions, 1)
    fitted = basis @ np.linalg.lstsq(basis, block.T, rcond=None)[0]
    return bool(np.abs(fitted - block.T).max() <= 1e-4 * np.abs(block).max())


def _find_shift(d: Derivative) -> Verdict | None:
    """Recognize an analytic derivative that is the numeric one shifted along an axis of the input."""
    for axis, length in enumerate(d.x.shape):
        a, n = (np.moveaxis(m, d.y.ndim + axis, 0) for m in (d.analytic, d.numeric))
        for by in range(1, min(3, length - 2) + 1):
            for signed, late, early in ((by, a[by:], n[:-by]), (-by, a[:-by], n[by:])):
                some = (np.abs(early) > d.tolerance).sum() >= 3
                if some and d.same(late, early).all():
                    return Verdict(
                        f"shifted by {signed} along axis {axis} (analytic = numeric shifted)",
                        "Look for an index, a slice or a pad that is off by one.",
                    )
    return None


def _axes(axes: list[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {' and '.join(map(str, axes))}"
