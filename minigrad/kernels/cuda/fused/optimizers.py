"""Adam's step over flat arrays; the norm of many arrays, and scaling them. None waits for the GPU."""

from __future__ import annotations

import numpy as np

from ....core.devices import array_module
from ....core.kernels import kernel as register
from ....optim.clipping import norm_of_all, scale_down
from ....optim.optimizer import adam_update
from .launching import accumulator, kernel, over_elements, supports

BLOCKS = 64  # at most, that add up one array


@register(adam_update, "cuda")
def adam(p, g, m, v, hyperparameters):
    """`g` may have 16 bits."""
    acc = accumulator(g.dtype)
    fit = all(a.dtype == acc for a in (p, m, v)) and all(a.flags.c_contiguous for a in (p, g, m, v))
    if not fit or not supports(g):
        return None
    arguments = (p, g, m, v, p.size, hyperparameters)
    kernel(g, "optimizers", "adam")(*over_elements(p.size), arguments)
    return p


@register(norm_of_all, "cuda")
def total_norm(arrays, infinite):
    """sqrt(sum x**2) over all elements of all arrays: a number on the GPU."""
    if infinite or not _takes(arrays):
        return None
    xp = array_module(arrays[0])
    numbers = [min(-(-a.size // 1024), BLOCKS) for a in arrays]
    sums, norm, end = xp.empty(sum(numbers), np.float64), xp.empty((), np.float64), 0
    for a, number in zip(arrays, numbers, strict=True):
        part = sums[end : (end := end + number)]
        kernel(a, "clipping", "sum_of_squares")((number,), (256,), (a, part, a.size))
    kernel(arrays[0], "clipping", "root_of_sum")((1,), (256,), (sums, norm, sums.size))
    return norm


@register(scale_down, "cuda")
def scale(arrays, norm, largest):
    """Multiply all by largest / (norm + 1e-6) where that is below 1, or NaN."""
    if not _takes(arrays):
        return None
    for a in arrays:
        arguments = (a, a.size, norm, np.float64(largest))
        kernel(a, "clipping", "scale")(*over_elements(a.size), arguments)
    return arrays


def _takes(arrays):
    return all(supports(a) and a.flags.c_contiguous for a in arrays)
