"""What is wrong with a derivative, from its whole Jacobian: d output element / d input element.

A gradient is g times the Jacobian. A mistake in how elements are tied together (a transpose, a sum that is
left out, an index used twice) shows there element by element, where g's sums hide it.
"""

from __future__ import annotations

import numpy as np

from .evidence import Derivative, Verdict, first

RANK = 1e-5  # singular values below this share of the largest are noise


def verdict_of(d: Derivative) -> Verdict | None:
    """The verdict on one output's derivative, if its structure tells."""
    if not d.numeric.size or d.same(d.analytic, d.numeric).all():
        return None
    return _transposed(d) or _left_out(d) or _moved(d) or _coupled(d) or _shifted(d)


def _transposed(d: Derivative) -> Verdict | None:
    """Whether g goes through the derivative where it should go through its transpose."""
    outs = d.y.ndim
    whole = (*range(outs, outs + d.x.ndim), *range(outs))
    places = {f"the output's axis {p} and the input's axis {q}": _exchanged(d, p, q) for p, q in _alike(d)}
    if d.x.shape == d.y.shape:
        places["the output and the input"] = d.numeric.transpose(whole)
    for what, moved in places.items():
        if d.same(d.analytic, moved).all():
            return Verdict(
                f"not transposed: g goes through the derivative, where it must go through its transpose "
                f"({what} are exchanged)",
                "Transpose the factor: g @ y.mT for x @ y, not g @ y. Of a running sum, a shift or a "
                "convolution the transpose runs the other way.",
            )
    return None


def _alike(d: Derivative) -> list[tuple[int, int]]:
    return [(p, q) for p, n in enumerate(d.y.shape) for q, m in enumerate(d.x.shape) if n == m > 1]


def _exchanged(d: Derivative, p: int, q: int) -> np.ndarray:
    return d.numeric.swapaxes(p, d.y.ndim + q)


def _left_out(d: Derivative) -> Verdict | None:
    """Whether the analytic derivative is the numeric one without some of its entries."""
    same = d.same(d.analytic, d.numeric)
    zero = np.abs(d.analytic) <= d.tolerance
    lost = zero & ~same
    used = np.abs(d.numeric) > d.tolerance
    if not (same | zero).all() or not lost.any():
        return None
    axes = tuple(range(d.y.ndim))
    losing = lost.any(axes)  # the inputs that lose something
    kept = used & same & losing
    for axis, length in enumerate(d.y.shape):
        indices = np.flatnonzero(kept.any(tuple(i for i in range(kept.ndim) if i != axis)))
        repeated = used.any(tuple(i for i in axes if i != axis))[
            :, losing
        ].all()  # each index uses each input
        if length > 1 and len(indices) == 1 and repeated:
            return Verdict(
                f"missing sum over a broadcast axis: only index {indices[0]} of the output's axis {axis} "
                f"(length {length}) counts",
                "Sum the gradient over that axis: every index of it uses this input.",
            )
    uses = used.sum(axes)
    counted = kept.sum(axes)
    if _only_itself(d, kept) or not (counted[losing] == 1).all():
        return None
    index = first(losing)
    return Verdict(
        f"contributions overwritten: the input at {list(index)} is used {uses[index]} times, and one counts",
        "Add where an index repeats: np.add.at, or xp.scatter_add; `out[index] = g` keeps the last.",
    )


def _only_itself(d: Derivative, kept: np.ndarray) -> bool:
    """Whether what is kept leads from an input to the output at its own place."""
    if d.x.shape != d.y.shape:
        return False
    return not any(_off_diagonal(kept, axis, d.x.ndim).any() for axis in range(d.x.ndim))


def _moved(d: Derivative) -> Verdict | None:
    """Whether each output has the right numbers, but for other inputs than it was computed from."""
    rows = lambda m: np.sort(m.reshape(d.y.size, -1), axis=1)
    if d.x.size < 3 or not d.same(rows(d.analytic), rows(d.numeric)).all():
        return None
    return Verdict(
        "the right numbers in the wrong places: each output's derivative goes to another input",
        "Look for an index, a flip, a roll or a reshape that the rule does not undo.",
    )


def _off_diagonal(m: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """The entries whose output and input differ in their place along an axis."""
    front = np.moveaxis(m, (axis, ndim + axis), (0, 1))
    return front[~np.eye(front.shape[0], dtype=bool)]


def _coupled(d: Derivative) -> Verdict | None:
    """Whether elements depend on each other along an axis, and the gradient does not know it all."""
    if d.x.shape != d.y.shape:
        return None
    axes_of = lambda m: [
        k for k in range(d.x.ndim) if (np.abs(_off_diagonal(m, k, d.x.ndim)) > 10 * d.tolerance).any()
    ]
    value, gradient = axes_of(d.numeric), axes_of(d.analytic)
    missing = [k for k in value if k not in gradient]
    extra = [k for k in gradient if k not in value]
    if missing and extra:
        return Verdict(
            f"along the wrong axis: the value ties elements together along {_axes(missing)}, the gradient "
            f"along {_axes(extra)}",
            "Sum in the gradient along the axis along which the value sums.",
        )
    if extra:
        return Verdict(
            f"elements mixed along {_axes(extra)}: there the value treats each alone, the gradient sums",
            f"Do not sum the gradient over {_axes(extra)}: each element has its own.",
        )
    difference = axes_of(d.analytic - d.numeric)
    if not difference:
        return _own_part(value)
    along = _axes(difference)
    blocks = _blocks(d.numeric - d.analytic, difference, d.x.ndim)
    terms = max(map(_rank, blocks))
    advice = f"Each element along {along} changes all outputs there: the derivative has a sum over {along}."
    if not missing and (k := _share(d, difference)):
        what = "has the wrong sign" if k == -1 else f"is off by a factor (analytic has {k:.6g} of it)"
        return Verdict(f"the sum over {along} {what}", advice)
    few = terms <= 2 and blocks.shape[1] >= terms + 2
    known = _missing_terms(d, blocks, difference, terms) if few else ""
    if known or (few and missing):
        count = "a sum" if terms == 1 else "two sums"
        lack = "missing" if missing else "missing or wrong"
        return Verdict(f"{lack}: {count} over {along}{known}", advice)
    how = "not at all" if missing else "in another way"
    return Verdict(f"the value ties elements together along {along}, the gradient {how}", advice)


def _own_part(value: list[int]) -> Verdict | None:
    """The analytic derivative is right off the diagonal; `value` are the axes that are tied together."""
    if not value:
        return None
    return Verdict(
        f"an element's part in its own output is missing or wrong; its part in the others along "
        f"{_axes(value)} is right",
        "The product rule has two terms: one for the element itself, one for the sum that it is in.",
    )


def _share(d: Derivative, axes: list[int]) -> float:
    """k, if what the elements along `axes` get from each other is k times what they should, else 0."""
    a, n = (
        np.concatenate([_off_diagonal(m, axis, d.x.ndim).ravel() for axis in axes])
        for m in (d.analytic, d.numeric)
    )
    k = float(a @ n / (n @ n))
    k = round(k) if abs(k - round(k)) < RANK else k
    return k if abs(k) > RANK and (np.abs(a - k * n) <= 10 * d.tolerance + d.rtol * np.abs(n)).all() else 0.0


def _missing_terms(d: Derivative, blocks: np.ndarray, axes: list[int], terms: int) -> str:
    """Which known sums the gradient lacks: the directions, along the inputs, of the missing part."""
    inputs, outputs = (_lines(v, axes) for v in (d.x, d.y))
    centered = inputs - inputs.mean(1, keepdims=True)
    ones = np.ones_like(inputs)
    if terms == 2:
        both = all(_spans(b, (one, c)) for b, one, c in zip(blocks, ones, centered, strict=True))
        return ": the mean's and the variance's part, as where both are taken as constants" if both else ""
    with np.errstate(over="ignore"):
        exponentials = np.exp(outputs)
    known = {
        "the same for each input, as where a mean or a sum is taken as a constant": ones,
        "along the input less its mean, as where a variance is taken as a constant": centered,
        "along the input, as where a norm is taken as a constant": inputs,
        "along the output, as in softmax: y (g - sum(g y))": outputs,
        "along exp(output), as in log_softmax: g - exp(y) sum(g)": exponentials,
    }
    for what, directions in known.items():
        if all(_spans(block, (line,)) for block, line in zip(blocks, directions, strict=True)):
            return f", {what}"
    return ""


def _lines(v: np.ndarray, axes: list[int]) -> np.ndarray:
    """An array as a matrix, a row for each place outside of `axes`."""
    rest = [k for k in range(v.ndim) if k not in axes]
    size = int(np.prod([v.shape[k] for k in axes]))
    return v.transpose(*rest, *axes).reshape(-1, size)


def _blocks(m: np.ndarray, axes: list[int], ndim: int) -> np.ndarray:
    """A matrix (output, input) along `axes` for each place outside of them."""
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
    """Whether each row of the block (what one output asks of the inputs) is made of the directions."""
    basis = np.stack(directions, 1)
    fitted = basis @ np.linalg.lstsq(basis, block.T, rcond=None)[0]
    return bool(np.abs(fitted - block.T).max() <= 1e-4 * np.abs(block).max())


def _shifted(d: Derivative) -> Verdict | None:
    """Whether the analytic derivative is the numeric one, some places further along an input's axis."""
    for axis, length in enumerate(d.x.shape):
        a, n = (np.moveaxis(m, d.y.ndim + axis, 0) for m in (d.analytic, d.numeric))
        for by in range(1, min(3, length - 2) + 1):
            for signed, late, early in ((by, a[by:], n[:-by]), (-by, a[:-by], n[by:])):
                some = (np.abs(early) > d.tolerance).sum() >= 3
                if some and d.same(late, early).all():
                    return Verdict(
                        f"shifted by {signed} along axis {axis} (analytic = numeric, {signed} further)",
                        "Look for an index, a slice or a pad that is one off.",
                    )
    return None


def _axes(axes: list[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {' and '.join(map(str, axes))}"
