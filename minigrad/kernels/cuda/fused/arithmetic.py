"""Sums and products of two 16-bit arrays without copies in float32: CuPy's round once, too."""

from __future__ import annotations

from ....core import arithmetic as ops
from ....core.dtypes import HALF
from ....core.kernels import kernel as register


@register(ops.add, "cuda")
def add(x, y, alpha=1):
    if alpha != 1 or not _are_alike(x, y):
        return None
    return x + y, (ops.identity, ops.identity)


@register(ops.multiply, "cuda")
def multiply(x, y):
    if not _are_alike(x, y) or x.shape != y.shape:  # a gradient that is summed is not rounded before
        return None
    return x * y, (lambda g: g * y, lambda g: g * x)


def _are_alike(x, y):
    """Whether both are arrays of one 16-bit dtype."""
    return getattr(x, "dtype", None) in HALF and x.dtype == getattr(y, "dtype", None)
