"""Where the largest element of each window stands."""

from __future__ import annotations

import numpy as np


def largest_place(x, places):
    """x (rows, size), places (k, windows) -> the place of each window's largest, (rows, windows).

    Of ties the first; NaN is larger than any number, and of several the last counts.
    """
    best = np.take(x, places[0], axis=1)
    where = np.broadcast_to(places[0], best.shape).copy()
    for place in places[1:]:
        candidate = np.take(x, place, axis=1)
        better = candidate > best
        if x.dtype.kind == "f":
            better |= np.isnan(candidate)
        np.copyto(best, candidate, where=better)
        np.copyto(where, place, where=better)
    return where
