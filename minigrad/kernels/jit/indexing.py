"""Rows of a table."""

from __future__ import annotations

import numpy as np

from .. import cpu
from .mathematics import loop
from .single import contiguous, is_single


def embedding(weight, ids):
    value, gradient = cpu.embedding(weight, ids)
    if not is_single(weight) or not ids.size:
        return value, gradient
    shape, flat = weight.shape, np.ascontiguousarray(ids, np.int64).reshape(-1)

    def added(g, needs):
        out = np.zeros(shape, g.dtype)
        _add_rows(contiguous(g).reshape(-1, shape[1]), flat, out)
        return out, None

    return value, added


@loop
def _add_rows(g, ids, out):
    """A row's gradient is the sum over its uses, in their order."""
    for i in range(ids.size):
        row = ids[i]
        for j in range(out.shape[1]):
            out[row, j] += g[i, j]
