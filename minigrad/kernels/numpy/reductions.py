"""log(sum(exp(x)))."""

from __future__ import annotations

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ...core.kernels import kernel
from ...core.sums import stable_sum
from ...ops import reductions as ops


@kernel(ops.logsumexp, "numpy")
def logsumexp(x, dim, keepdim=False):
    """m + log(sum(exp(x - m))), with m the largest; dx = g softmax(x)."""
    axes = normalize_axis_tuple(dim, max(x.ndim, 1)) or range(x.ndim)
    dim = tuple(axes) if x.ndim else ()
    m = x.max(axis=dim, keepdims=True, initial=-np.inf)
    m = np.where(np.isinf(m), 0, m).astype(x.dtype, copy=False)
    e = np.exp(x - m)
    s = stable_sum(e, dim, keepdims=True)
    with np.errstate(divide="ignore"):
        y = np.log(s) + m

    def gradient(g, needs):
        g = g if keepdim else np.expand_dims(g, dim)
        return (e * (g / s),)

    return y if keepdim else y.squeeze(dim), gradient
