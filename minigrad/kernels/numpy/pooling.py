"""The index of the largest element of each window."""

from __future__ import annotations

from ...core.devices import array_module


def largest_place(x, places):
    """x (rows, size), places (k, windows) -> the index of each window's largest, (rows, windows).

    Of equal elements it is the first. NaN is larger than any number; of several NaN it is the last.
    """
    xp = array_module(x)
    places = xp.asarray(places)
    best = xp.take(x, places[0], axis=1)
    where = xp.broadcast_to(places[0], best.shape).copy()
    for place in places[1:]:
        candidate = xp.take(x, place, axis=1)
        better = candidate > best
        if x.dtype.kind == "f":
            better |= xp.isnan(candidate)
        xp.copyto(best, candidate, where=better)
        xp.copyto(where, place, where=better)
    return where
