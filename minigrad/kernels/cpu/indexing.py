"""Rows of a table."""

from __future__ import annotations

import numpy as np

from ...devices import HALF


def embedding(weight, ids):
    """weight[ids]; a row's gradient is the sum over its uses, in the order of ids after a stable sort."""
    shape = weight.shape
    if ids.dtype.kind not in "iu":
        raise TypeError(f"ids are whole numbers, got {ids.dtype}")
    if ids.size and (ids.min() < 0 or ids.max() >= shape[0]):
        wrong = ids.max() if ids.max() >= shape[0] else ids.min()
        raise IndexError(f"id {wrong} in a table of {shape[0]} rows")

    def gradient(g, needs):
        out = np.zeros(shape, g.dtype)
        flat = ids.reshape(-1)
        if flat.size:
            order = np.argsort(flat, kind="stable")
            ranked = flat[order]
            starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
            rows = g.reshape(-1, shape[1])[order]
            rows = rows.astype(np.float32) if g.dtype in HALF else rows
            out[ranked[starts]] = np.add.reduceat(rows, starts, axis=0)
        return out, None

    return weight[ids], gradient
