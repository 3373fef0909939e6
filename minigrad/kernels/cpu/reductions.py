"""log(sum(exp(x)))."""

from __future__ import annotations

import numpy as np


def logsumexp(x, dim, keepdim=False):
    """m + log(sum(exp(x - m))), with m the largest; dx = g softmax(x)."""
    dim = dim if x.ndim else ()  # a number has no axes
    m = x.max(axis=dim, keepdims=True, initial=-np.inf)
    m = np.where(np.isinf(m), 0, m).astype(x.dtype, copy=False)
    e = np.exp(x - m)
    total = e.sum(axis=dim, keepdims=True)
    with np.errstate(divide="ignore"):
        y = np.log(total) + m

    def gradient(g, needs):
        g = g if keepdim else np.expand_dims(g, dim)
        return (e * (g / total),)

    return y if keepdim else y.squeeze(dim), gradient
