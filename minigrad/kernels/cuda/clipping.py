"""The norm of many arrays together, and all of them made smaller; the host waits for neither."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from ...devices import array_module


def total_norm(arrays, infinite):
    """sqrt(sum x**2) over all elements of all arrays, or the largest |x|: a number on the GPU."""
    xp = array_module(arrays[0])
    if infinite:
        largest = [abs(a).max().astype(np.float64) for a in arrays if a.size]
        return reduce(xp.maximum, largest, xp.zeros((), np.float64))
    return xp.sqrt(reduce(add, [xp.square(a.astype(np.float64)).sum() for a in arrays]))


def scale(arrays, norm, largest):
    """Multiply all by largest / (norm + 1e-6) where that is below 1: it is a number on the GPU, as `norm`."""
    factor = array_module(norm).fmin(largest / (norm + 1e-6), 1.0)  # a NaN changes nothing
    for a in arrays:
        a *= factor.astype(a.dtype)
