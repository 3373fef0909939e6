"""The affine map."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


def linear(x, weight, bias):
    """x Wᵀ + b: dx = g W, dW = gᵀ x, db = the sum of g over all rows, as one matrix-vector product."""
    rows = x.reshape(-1, x.shape[-1])
    y = rows @ weight.T
    if bias is not None:
        y += bias if len(y) != 1 else bias[None]  # of equal shapes, which NumPy adds faster

    def gradient(g, needs):
        flat = g.reshape(-1, g.shape[-1])
        return (
            (flat @ weight).reshape(x.shape) if needs[0] else None,
            flat.T @ rows if needs[1] else None,
            ones(len(flat), flat.dtype) @ flat if needs[2] else None,
        )

    return y.reshape(x.shape[:-1] + y.shape[1:]), gradient


@lru_cache(maxsize=64)
def ones(length, dtype):
    """The vector whose product with a matrix is the sum of its rows; read only."""
    vector = np.ones(length, dtype)
    vector.flags.writeable = False
    return vector
