"""The affine map."""

from __future__ import annotations

from ..half import in_single


@in_single
def linear(x, weight, bias):
    """x Wᵀ + b: dx = g W, dW = gᵀ x, db = the sum of g over all rows."""
    rows = x.reshape(-1, x.shape[-1])
    y = rows @ weight.T
    if bias is not None:
        y += bias

    def gradient(g, needs):
        flat = g.reshape(-1, g.shape[-1])
        return (
            (flat @ weight).reshape(x.shape) if needs[0] else None,
            flat.T @ rows if needs[1] else None,
            flat.sum(axis=0) if needs[2] else None,
        )

    return y.reshape(x.shape[:-1] + y.shape[1:]), gradient
