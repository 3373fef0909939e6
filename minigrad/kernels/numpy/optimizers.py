"""Adam's step, in blocks that stay in the cache, and the total norm of gradients."""

from __future__ import annotations

import math

import numpy as np

from ...core.kernels import kernel
from ...optim.clipping import norm_of_all
from ...optim.optimizer import adam_update

BLOCK = 1 << 14  # elements
SMALLEST_SQUARE = 1e-30  # a smaller sum of squares has lost digits in float32


@kernel(adam_update, "numpy")
def adam(p, g, m, v, hyperparameters):
    """`adam_update`, a block of elements at a time."""
    rate, c1, b2, c2, root, eps, shrink, decay = hyperparameters
    scratch = np.empty(min(BLOCK, p.size), p.dtype)
    for start in range(0, p.size, BLOCK):
        block = slice(start, start + BLOCK)
        x = p[block]
        d = g[block]
        first = m[block]
        second = v[block]
        t = scratch[: x.size]
        if shrink != 1:
            x *= shrink
        if decay:
            d = d + decay * x
        np.subtract(d, first, out=t)
        t *= c1
        first += t
        np.multiply(d, c2, out=t)  # first c2: d * d may overflow
        t *= d
        second *= b2
        second += t
        np.sqrt(second, out=t)
        t *= root
        t += eps
        np.divide(first, t, out=t)
        t *= rate
        x -= t
    return p


@kernel(norm_of_all, "numpy")
def total_norm(arrays, infinite):
    """sqrt of the sum of squares of all elements, scaled by the largest if squares overflow or underflow."""
    if infinite:
        return _largest(arrays)
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for a in arrays:
            flat = a.reshape(-1)
            total += float(flat.dot(flat))
    if SMALLEST_SQUARE < total < math.inf and all(a.dtype.itemsize > 2 for a in arrays):
        return math.sqrt(total)
    largest = _largest(arrays)  # the squares overflow, or have lost digits
    if not 0 < largest < math.inf:
        return largest
    scaled = (np.divide(a, largest, dtype=np.float64) for a in arrays)
    return largest * math.sqrt(sum(float(np.vdot(x, x)) for x in scaled))


def _largest(arrays):
    """The largest |x| in all arrays, or NaN if one is NaN."""
    return float(np.max([float(abs(a).max()) for a in arrays if a.size], initial=0.0))
