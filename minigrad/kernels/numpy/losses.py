"""Cross-entropy."""

from __future__ import annotations

import numpy as np

from ...core.kernels import kernel
from ...core.sums import ones
from ...ops import losses as ops


@kernel(ops.cross_entropy, "numpy")
def cross_entropy(logits, target, ignore_index, reduction, label_smoothing, dtype=None):
    """With q = (1 - e) onehot(target) + e / classes, e = label_smoothing: -sum of q log softmax(logits).

    d logits = softmax(logits) - q, scaled. `dtype` is given for 16-bit logits, which kernels get in float32.
    """
    n, classes = logits.shape
    valid = target != ignore_index
    number = int(np.count_nonzero(valid))
    known = target if number == n else np.where(valid, target, 0)
    if n:
        smallest = np.minimum.reduce(known)
        largest = np.maximum.reduce(known)
        if smallest < 0 or largest >= classes:
            ops.raise_class_error(largest if largest >= classes else smallest, classes, ignore_index)
    row = np.arange(n)
    p = logits - np.maximum.reduce(logits, axis=1, keepdims=True)
    below = p[row, known]  # the target's score minus the largest
    smooth = p @ np.full(classes, label_smoothing / classes, p.dtype) if label_smoothing else 0
    np.exp(p, out=p)
    p[row, known] = 0
    others = p @ ones(classes, p.dtype)
    total = others + np.exp(below)
    losses = np.log1p(others + np.expm1(below)) - below  # exact also for tiny losses
    if label_smoothing:
        losses = (1 - label_smoothing) * losses + label_smoothing * np.log(total) - smooth
    if number != n:
        losses = np.where(valid, losses, 0)
    losses = losses.astype(logits.dtype, copy=False)
    inverse = 1 / total

    def gradient(g, needs):
        scale = g / number if reduction == "mean" and number else g
        if number != n:
            scale = np.where(valid, scale, 0)
        scale = np.asarray(scale, p.dtype)
        r = p * (inverse * scale)[:, None]
        r[row, known] = scale * (label_smoothing - others * inverse)  # softmax - 1 + e
        if label_smoothing:
            r -= (scale * (label_smoothing / classes)).reshape(-1, 1)
        if number != n:
            r[~valid] = 0  # even if an ignored row contains NaN
        return r, None

    if reduction == "none":
        return losses, gradient
    value = losses.sum()
    if reduction == "mean":
        value = value / number if number else value * np.nan
    return np.asarray(value), gradient
