"""Adam's step, over flat arrays."""

from __future__ import annotations

import numpy as np

from ... import cuda
from .launching import accumulator, kernel, over_elements, struct, supports

NUMBERS = "rate", "c1", "b2", "c2", "root", "eps", "shrink", "decay"


def adam(p, g, m, v, rate, b1, b2, root, eps, shrink, decay, *, now=None):
    """`g` may have 16 bits; `now` holds `NUMBERS`, on the GPU."""
    acc = accumulator(g.dtype)
    fit = all(a.dtype == acc for a in (p, m, v)) and all(a.flags.c_contiguous for a in (p, g, m, v))
    if not fit or not supports(g):
        return cuda.adam(p, g, m, v, rate, b1, b2, root, eps, shrink, decay, now=now)
    step = np.array([(rate, 1 - b1, b2, 1 - b2, root, eps, shrink, decay)], struct(acc, *NUMBERS))
    arguments = (p, g, m, v, p.size, step, now)
    return kernel(g, "optimizers", "adam")(*over_elements(p.size), arguments)
