"""Embeddings."""

from __future__ import annotations

import numpy as np

from ....core.devices import array_module
from ....core.kernels import kernel as register
from ....ops import indexing as ops
from .launching import contiguous, kernel, over_elements, over_rows, supports


@register(ops.embedding, "cuda")
def embedding(weight, ids):
    """weight[ids]; an id out of range gives NaN."""
    if ids.dtype.kind not in "iu" or not ids.size or not supports(weight):
        return None
    xp = array_module(weight)
    weight = contiguous(weight)
    ids = contiguous(ids.astype(np.int64, copy=False))
    rows, size = weight.shape
    number = ids.size
    y = xp.empty((*ids.shape, size), weight.dtype)
    arguments = (weight, ids, y, number, rows, size)
    kernel(weight, "indexing", "embedding")(*over_rows(number, size), arguments)

    def gradient(g, needs):
        g = contiguous(g)
        out = xp.empty((rows, size), weight.dtype)
        first_use = xp.empty(rows, np.int32)
        last_use = xp.empty(rows, np.int32)
        run = lambda name, shape, arguments: kernel(weight, "indexing", name)(*shape, arguments)
        run("embedding_clear", over_elements(rows * size), (out, first_use, last_use, rows, size))
        run("embedding_uses", over_elements(number), (ids, first_use, last_use, number, rows))
        tiles = -(-size // 128)
        arguments = (g, ids, first_use, last_use, out, number, rows, size)
        run("embedding_backward", ((number, tiles), (32, 16)), arguments)
        return out, None

    return y, gradient
