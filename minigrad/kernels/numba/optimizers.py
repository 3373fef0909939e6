"""Adam's step in one pass over memory. Elements are independent, so no addition is reordered."""

from __future__ import annotations

import numpy as np

from ...core.kernels import kernel
from ...optim.optimizer import adam_update
from .arrays import is_float32
from .mathematics import F, loop


@kernel(adam_update, "numba")
def adam(p, g, m, v, hyperparameters):
    if not is_float32(p, g, m, v):
        return None
    _adam(p, g, m, v, *map(F, hyperparameters))
    return p


@loop
def _adam(p, g, m, v, rate, c1, b2, c2, root, eps, shrink, decay):
    """Update p, m and v in place by one step of Adam.

    First p = shrink p. Then, with d = g + decay p, m += c1 (d - m), v = b2 v + c2 d**2 and
    p -= rate m / (root sqrt(v) + eps).
    """
    for i in range(p.size):
        x = p[i] * shrink
        d = g[i] + decay * x
        m[i] += c1 * (d - m[i])
        v[i] = b2 * v[i] + c2 * d * d
        p[i] = x - rate * m[i] / (root * np.sqrt(v[i]) + eps)
