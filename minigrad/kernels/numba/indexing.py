"""Embeddings. Gradients are added in the order of the ids: additions may not be reordered."""

from __future__ import annotations

import numpy as np

from ...core.kernels import kernel
from ...ops import indexing
from ..numpy import indexing as numpy_kernels
from .arrays import contiguous, is_float32
from .mathematics import F, loop


@kernel(indexing.embedding, "numba")
def embedding(weight, ids):
    fits = is_float32(weight) and weight.ndim == 2 and weight.flags.c_contiguous
    if not fits or not ids.size or ids.dtype.kind not in "iu":
        return None
    shape = weight.shape
    flat = np.ascontiguousarray(ids, np.int64).reshape(-1)
    value = np.empty((*ids.shape, shape[1]), F)
    wrong = np.empty(1, np.int64)
    _rows(weight, flat, value.reshape(flat.size, shape[1]), wrong)
    check_ids(wrong, weight, ids)

    def gradient(g, needs):
        out = np.zeros(shape, g.dtype)
        _add_rows(contiguous(g).reshape(flat.size, shape[1]), flat, out)
        return out, None

    return value, gradient


def check_ids(wrong, weight, ids):
    """Raise a RangeError if `_rows` found an id out of range."""
    if wrong[0]:
        numpy_kernels.embedding(weight, ids)  # raises


@loop
def _rows(weight, ids, out, wrong):
    """out[i] = weight[ids[i]]; `wrong` becomes 1 if an id is out of range, else 0."""
    wrong[0] = 0
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= weight.shape[0]:
            wrong[0] = 1
            return
        for j in range(weight.shape[1]):
            out[i, j] = weight[row, j]


@loop
def _add_rows(g, ids, out):
    """out[ids[i]] += g[i], in order."""
    for i in range(ids.size):
        row = ids[i]
        for j in range(out.shape[1]):
            out[row, j] += g[i, j]
