"""What an optimizer does with many arrays: Adam's step, the norm of all gradients, and scaling them."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from ...core.devices import array_module


def adam(p, g, m, v, hyperparameters):
    """m += (1 - b1) (d - m), v = b2 v + (1 - b2) d**2, p = shrink p - rate m / (root sqrt(v) + eps).

    d = g + decay p; all are flat, and changed in place. The hyperparameters are an array on the GPU: rate,
    1 - b1, b2, 1 - b2, root, eps, shrink, decay.
    """
    rate, c1, b2, c2, root, eps, shrink, decay = (hyperparameters[i] for i in range(8))
    p *= shrink
    d = g + decay * p
    m += c1 * (d - m)
    v *= b2
    v += c2 * d * d  # d * d alone may be infinite
    p -= rate * m / (root * array_module(p).sqrt(v) + eps)


def total_norm(arrays, infinite):
    """sqrt(sum x**2) over all elements of all arrays, or the largest |x|: a number on the GPU."""
    xp = array_module(arrays[0])
    if infinite:
        largest = [abs(a).max().astype(np.float64) for a in arrays if a.size]
        return reduce(xp.maximum, largest, xp.zeros((), np.float64))
    return xp.sqrt(reduce(add, [xp.square(a.astype(np.float64)).sum() for a in arrays]))


def scale(arrays, norm, largest):
    """Multiply all by largest / (norm + 1e-6) where that is below 1, or NaN. `norm` is on the GPU."""
    factor = array_module(norm).minimum(largest / (norm + 1e-6), 1.0)
    for a in arrays:  # in float32 where a is half, in which a small factor has few digits
        wide = factor.astype(np.result_type(a.dtype, np.float32))
        array_module(a).multiply(a, wide, out=a, casting="same_kind")


def flatten(arrays, out):
    """Copy the elements of all arrays to the flat array `out`, one array after another."""
    xp = array_module(out)
    if not xp.cuda.get_current_stream().is_capturing():
        xp.concatenate(arrays, axis=None, out=out)
        return
    end = 0  # CuPy's concatenate uploads the arrays' addresses, which a captured stream cannot
    for array in arrays:
        out[end : (end := end + array.size)].reshape(array.shape)[...] = array
