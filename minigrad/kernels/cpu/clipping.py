"""The norm of many arrays together, and all of them made smaller."""

from __future__ import annotations

import math


def total_norm(arrays, infinite):
    """sqrt(sum x**2) over all elements of all arrays, or the largest |x|."""
    if infinite:
        return max((float(abs(a).max()) for a in arrays if a.size), default=0.0)
    total = 0.0
    for a in arrays:
        flat = a.reshape(-1)
        total += float(flat.dot(flat))
    return math.sqrt(total)
