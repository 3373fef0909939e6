"""Rows of a table."""

from __future__ import annotations

import numpy as np

from ...devices import HALF


def embedding(weight, ids):
    """weight[ids]; a row's gradient is the sum over its uses, in the order of ids after a stable sort."""
    shape = weight.shape
    if ids.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, got {ids.dtype}")
    if ids.size:
        smallest, largest = np.minimum.reduce(ids, axis=None), np.maximum.reduce(ids, axis=None)
        if smallest < 0 or largest >= shape[0]:
            raise IndexError(
                f"id {largest if largest >= shape[0] else smallest} in a table of {shape[0]} rows"
            )

    def gradient(g, needs):
        out = np.zeros(shape, g.dtype)
        flat = ids.reshape(-1)
        if flat.size:
            order = flat.argsort(kind="stable")
            ranked = flat[order]
            is_start = np.empty(ranked.size, bool)
            is_start[0] = True
            np.not_equal(ranked[1:], ranked[:-1], out=is_start[1:])
            (starts,) = is_start.nonzero()
            rows = g.reshape(-1, shape[1])[order]
            rows = rows.astype(np.float32) if g.dtype in HALF else rows
            out[ranked[starts]] = np.add.reduceat(rows, starts, axis=0)
        return out, None

    return weight[ids], gradient
