"""What an optimizer does with many arrays: Adam's step, the norm of all gradients, and one flat array."""

from __future__ import annotations

import math

import numpy as np

BLOCK = 1 << 14  # elements
SMALLEST_SQUARE = 1e-30  # a smaller sum of squares has lost digits in float32


def adam(p, g, m, v, hyperparameters):
    """m += (1 - b1) (d - m), v = b2 v + (1 - b2) d**2, p = shrink p - rate m / (root sqrt(v) + eps).

    d = g + decay p; all are flat, and changed in place. The hyperparameters are rate, 1 - b1, b2, 1 - b2,
    root, eps, shrink, decay.
    """
    rate, c1, b2, c2, root, eps, shrink, decay = hyperparameters
    scratch = np.empty(min(BLOCK, p.size), p.dtype)
    for start in range(0, p.size, BLOCK):
        block = slice(start, start + BLOCK)
        x, d, first, second = p[block], g[block], m[block], v[block]
        t = scratch[: x.size]
        if shrink != 1:
            x *= shrink
        if decay:
            d = d + decay * x
        np.subtract(d, first, out=t)
        t *= c1
        first += t
        np.multiply(d, c2, out=t)  # d * d alone may be infinite
        t *= d
        second *= b2
        second += t
        np.sqrt(second, out=t)
        t *= root
        t += eps
        np.divide(first, t, out=t)
        t *= rate
        x -= t


def total_norm(arrays, infinite):
    """sqrt(sum x**2) over all elements of all arrays, or the largest |x|; a NaN if there is one."""
    if infinite:
        return _largest(arrays)
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for a in arrays:
            flat = a.reshape(-1)
            total += float(flat.dot(flat))
    if SMALLEST_SQUARE < total < math.inf and all(a.dtype.itemsize > 2 for a in arrays):
        return math.sqrt(total)
    largest = _largest(arrays)  # the squares are outside of the dtype's range, or have few digits
    if not 0 < largest < math.inf:
        return largest
    scaled = (np.divide(a, largest, dtype=np.float64) for a in arrays)
    return largest * math.sqrt(sum(float(np.vdot(x, x)) for x in scaled))


def _largest(arrays):
    """The largest |x|, or NaN."""
    return float(np.max([float(abs(a).max()) for a in arrays if a.size], initial=0.0))


def scale(arrays, norm, max_norm):
    """Multiply all arrays by max_norm / (norm + 1e-6) where that is below 1, or NaN."""
    factor = max_norm / (float(norm) + 1e-6)
    if factor >= 1:
        return
    with np.errstate(invalid="ignore"):  # inf * 0
        for a in arrays:  # in float32 where a is half, in which a small factor has few digits
            wide = np.result_type(a.dtype, np.float32).type
            np.multiply(a, wide(factor), out=a, casting="same_kind")


def flatten(arrays, out):
    """Copy the elements of all arrays to the flat array `out`, one array after another."""
    np.concatenate(arrays, axis=None, out=out)
