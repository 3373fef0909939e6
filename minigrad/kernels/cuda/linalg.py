"""The affine map."""

from __future__ import annotations

from ...devices import HALF, float32
from .products import linear as product
from .products import matmul


def linear(x, weight, bias):
    """x Wᵀ + b: dx = g W, dW = gᵀ x, db = the sum of g over all rows."""
    rows = x.reshape(-1, x.shape[-1])
    y = product(rows, weight, bias)

    def gradient(g, needs):
        flat = g.reshape(-1, g.shape[-1])
        wide = float32 if flat.dtype in HALF else flat.dtype
        return (
            matmul(flat, weight).reshape(x.shape) if needs[0] else None,
            matmul(flat.T, rows) if needs[1] else None,
            flat.sum(axis=0, dtype=wide).astype(flat.dtype, copy=False) if needs[2] else None,
        )

    return y.reshape(x.shape[:-1] + y.shape[1:]), gradient
