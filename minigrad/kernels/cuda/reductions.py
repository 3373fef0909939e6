"""log(sum(exp(x)))."""

from __future__ import annotations

from numpy.lib.array_utils import normalize_axis_tuple

from ...devices import array_module
from ..half import in_single
from .activations import largest


@in_single
def logsumexp(x, dim, keepdim=False):
    """m + log(sum(exp(x - m))), with m the largest; dx = g softmax(x)."""
    xp = array_module(x)
    dim = normalize_axis_tuple(dim, max(x.ndim, 1)) or tuple(range(x.ndim))
    dim = dim if x.ndim else ()  # a number has no axes
    m = largest(x, dim) if dim else x
    m = xp.where(xp.isinf(m), 0, m).astype(x.dtype, copy=False)
    e = xp.exp(x - m)
    total = e.sum(axis=dim, keepdims=True) if dim else e
    y = xp.log(total) + m

    def gradient(g, needs):
        g = g if keepdim else xp.expand_dims(g, dim)
        return (e * (g / total),)

    return y if keepdim else y.squeeze(dim), gradient
