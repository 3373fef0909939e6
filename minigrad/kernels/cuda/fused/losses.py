"""Cross-entropy."""

from __future__ import annotations

import numpy as np

from ....core.devices import array_module
from ....core.kernels import kernel as register
from ....ops import losses as ops
from .launching import SCALARS, accumulator, contiguous, kernel, over_rows, supports


@register(ops.cross_entropy, "cuda")
def cross_entropy(logits, target, ignore_index, reduction, label_smoothing, dtype=None):
    """Cross-entropy, in float32 of 16-bit logits without a copy of them; a class out of range gives NaN."""
    if not supports(logits):
        return None
    dtype = np.dtype(dtype or logits.dtype)
    xp = array_module(logits)
    acc = accumulator(logits.dtype)
    x = contiguous(logits)
    target = contiguous(target.astype("int64", copy=False))
    rows, classes = x.shape
    losses = xp.empty(rows, acc)
    shifts = xp.empty(2 * rows, acc)
    number = None
    settings = rows, classes, ignore_index, acc.type(label_smoothing)
    result = {} if dtype == x.dtype else {"RESULT": SCALARS[dtype.name]}
    run = lambda name: kernel(x, "losses", name, **result)
    run("cross_entropy")(*over_rows(rows, classes), (x, target, losses, shifts, *settings))
    if reduction == "none":
        value = losses.astype(dtype, copy=False)
    else:
        value, number = xp.empty((), dtype), xp.empty((), acc)
        arguments = (losses, target, value, number, rows, ignore_index, int(reduction == "mean"))
        run("cross_entropy_total")((1,), (1024,), arguments)

    def gradient(g, needs):
        d_x = xp.empty_like(x)
        g = contiguous(g)
        arguments = (x, target, shifts, g, int(g.ndim), number, d_x, *settings)
        run("cross_entropy_backward")(*over_rows(rows, classes), arguments)
        return d_x, None

    return value, gradient
