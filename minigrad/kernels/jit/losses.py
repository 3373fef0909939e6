"""Cross-entropy: one number a row is kept, and the scores themselves, which the graph holds anyway."""

from __future__ import annotations

import numpy as np

from .. import cpu
from .mathematics import F, exp_below, largest, loop
from .single import contiguous, is_single


def cross_entropy(logits, target, ignore_index, reduction, label_smoothing):
    if not is_single(logits) or not logits.size:
        return cpu.cross_entropy(logits, target, ignore_index, reduction, label_smoothing)
    logits, target = contiguous(logits), np.ascontiguousarray(target, np.int64)
    n = len(target)
    losses, logarithms = np.empty(n, F), np.empty(n, F)
    wrong = _cross_entropy(logits, target, ignore_index, F(label_smoothing), losses, logarithms)
    if wrong >= 0:
        raise IndexError(
            f"class {target[wrong]} with {logits.shape[1]} classes; classes count from 0, and {ignore_index} "
            f"is ignored"
        )
    number = F(np.count_nonzero(target != ignore_index))

    def gradient(g, needs):
        scale = g / number if reduction == "mean" and number else g
        scale = scale.astype(F) if scale.ndim else np.full(n, scale, F)
        r = np.empty_like(logits)
        _cross_entropy_backward(logits, target, ignore_index, F(label_smoothing), logarithms, scale, r)
        return r, None

    if reduction == "none":
        return losses, gradient
    value = losses.sum()
    if reduction == "mean":
        value = value / number if number else value * F(np.nan)
    return value, gradient


@loop
def _cross_entropy(x, target, ignored, smoothing, losses, logarithms):
    """log sum exp x - sum of q x, q = (1 - e) onehot(target) + e / V; gives the first wrong row, or -1."""
    classes = x.shape[1]
    for i in range(x.shape[0]):
        if target[i] == ignored:
            losses[i] = logarithms[i] = F(0)
            continue
        if target[i] < 0 or target[i] >= classes:
            return i
        m = largest(x[i])
        total = along = F(0)
        for j in range(classes):
            total += exp_below(x[i, j] - m)
        if smoothing:
            for j in range(classes):
                along += x[i, j] - m
        shift = np.log(total)
        logarithms[i] = m + shift
        losses[i] = shift - (F(1) - smoothing) * (x[i, target[i]] - m) - smoothing * along / F(classes)
    return -1


@loop
def _cross_entropy_backward(x, target, ignored, smoothing, logarithms, scale, r):
    """(softmax - q) * scale."""
    classes = x.shape[1]
    for i in range(x.shape[0]):
        s = F(0) if target[i] == ignored else scale[i]
        even = smoothing / F(classes)
        for j in range(classes):
            r[i, j] = s * (exp_below(x[i, j] - logarithms[i]) - even)
        if target[i] != ignored:
            r[i, target[i]] -= s * (F(1) - smoothing)
