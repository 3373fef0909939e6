"""Embeddings."""

from __future__ import annotations

import numpy as np

from ...core.dtypes import HALF, float32
from ...core.errors import DtypeError, ShapeError
from ...core.kernels import kernel
from ...ops import indexing


@kernel(indexing.embedding, "numpy")
def embedding(weight, ids):
    """weight[ids]; a row's gradient is the sum over its uses, ordered by a stable sort of ids."""
    shape = weight.shape
    if len(shape) != 2:
        raise ShapeError(f"weight must be a matrix, got shape {shape}.\nIt has a row for each id.")
    if ids.dtype.kind not in "iu":
        raise DtypeError(f"ids must be integers, got {ids.dtype}.\nUse ids.long().")
    if ids.size:
        smallest = np.minimum.reduce(ids, axis=None)
        largest = np.maximum.reduce(ids, axis=None)
        if smallest < 0 or largest >= shape[0]:
            indexing.raise_id_error(largest if largest >= shape[0] else smallest, shape[0])

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
            rows = g.reshape(flat.size, shape[1])[order]
            rows = rows.astype(float32) if g.dtype in HALF else rows
            out[ranked[starts]] = np.add.reduceat(rows, starts, axis=0)
        return out, None

    return weight[ids], gradient
