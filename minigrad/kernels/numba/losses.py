"""Cross-entropy. For backward, two numbers per row are kept, and the scores, which the graph keeps anyway.

`dtype` is given for 16-bit logits, which kernels get in float32.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.kernels import kernel
from ...ops import losses as ops
from .arrays import contiguous, is_float32
from .mathematics import F, accumulate, exp_below, largest, loop


@kernel(ops.cross_entropy, "numba")
def cross_entropy(logits, target, ignore_index, reduction, label_smoothing, dtype=None):
    if not is_float32(logits) or not logits.size:
        return None
    logits = contiguous(logits)
    target = np.ascontiguousarray(target, np.int64)
    n, classes = logits.shape
    found = np.empty(2, np.int64)
    _check_and_count(target, classes, ignore_index, found)
    if found[0] >= 0:
        ops.raise_class_error(target[found[0]], classes, ignore_index)
    losses = np.empty(n, F)
    shifts = np.empty((n, 2), F)
    smoothing = F(label_smoothing)
    _cross_entropy(logits, target, losses, shifts, ignore_index, smoothing)
    is_mean = reduction == "mean"

    def gradient(g, needs):
        scale = np.empty(n, F)
        r = np.empty_like(logits)
        scale[...] = g
        _cross_entropy_backward(logits, target, shifts, scale, r, ignore_index, smoothing, found, is_mean)
        return r, None

    if reduction == "none":
        return losses, gradient
    total = np.empty((), F)
    _sum(losses, found, is_mean, total)
    return total, gradient


@loop
def _check_and_count(target, classes, ignored, found):
    """Set found[0] to the first row whose class is out of range, or to -1.

    If -1, set found[1] to the number of rows that are not ignored.
    """
    number = 0
    for i in range(target.size):
        if target[i] != ignored:
            if target[i] < 0 or target[i] >= classes:
                found[0] = i
                return
            number += 1
    found[0] = -1
    found[1] = number


@loop
def _sum(losses, found, is_mean, total):
    """The sum of the losses, or their mean over the rows not ignored; NaN if all are ignored."""
    added = 0.0
    for i in range(losses.size):
        added = accumulate(added, losses[i])
    total[()] = (added / found[1] if found[1] else np.nan) if is_mean else added


@loop
def _cross_entropy(x, target, losses, shifts, ignored, smoothing):
    """With q = (1 - smoothing) onehot(target) + smoothing / classes: log sum exp x - sum of q x.

    The other classes are summed separately from the target's, which keeps the digits of tiny losses. Each
    row's largest score m and log(sum(exp(x - m))) are stored separately, since their sum may lose digits.
    """
    classes = x.shape[1]
    even = smoothing / F(classes)
    for i in range(x.shape[0]):
        if target[i] == ignored:
            losses[i] = shifts[i, 0] = shifts[i, 1] = F(0)
            continue
        m = largest(x[i])
        t = target[i]
        others = shifted = F(0)
        for j in range(t):
            others = accumulate(others, exp_below(x[i, j] - m))
        for j in range(t + 1, classes):
            others = accumulate(others, exp_below(x[i, j] - m))
        below = x[i, t] - m
        own = exp_below(below)
        if smoothing:
            for j in range(classes):
                shifted = accumulate(shifted, even * (x[i, j] - m))
        shift = np.log(others + own)
        shifts[i, 0] = m
        shifts[i, 1] = shift
        loss = F(math.log1p(others)) if below == F(0) else shift - below
        losses[i] = (F(1) - smoothing) * loss + smoothing * shift - shifted


@loop
def _cross_entropy_backward(x, target, shifts, scale, r, ignored, smoothing, found, is_mean):
    """(softmax(x) - q) * scale, with q as in `_cross_entropy`; for a mean, divided by the rows not ignored.

    For the target's class, softmax - 1 is computed as -(sum over the other classes), which is exact near 0.
    """
    classes = x.shape[1]
    divisor = F(found[1] if is_mean and found[1] else 1)
    for i in range(x.shape[0]):
        t = target[i]
        if t == ignored:
            for j in range(classes):
                r[i, j] = F(0)
            continue
        s = scale[i] / divisor
        m = shifts[i, 0]
        shift = shifts[i, 1]
        others = F(0) * shift  # NaN if a score is, also with no other class
        even = s * smoothing / F(classes) if smoothing else F(0)
        for j in range(classes):
            p = exp_below(x[i, j] - m - shift)
            others = accumulate(others, F(0) if j == t else p)
            r[i, j] = s * p - even
        r[i, t] = s * (smoothing - others) - even
