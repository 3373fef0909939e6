"""Cross-entropy: one number a row is kept, and the scores themselves, which the graph holds anyway."""

from __future__ import annotations

import numpy as np

from .. import cpu
from .arrays import contiguous, is_float32
from .mathematics import F, exp_below, largest, loop

EXACT = (
    64  # a larger log sum exp has too few digits left for the sum; to scale a row to 1 costs its exponentials
)


def cross_entropy(logits, target, ignore_index, reduction, label_smoothing):
    if not is_float32(logits) or not logits.size:
        return cpu.cross_entropy(logits, target, ignore_index, reduction, label_smoothing)
    logits, target = contiguous(logits), np.ascontiguousarray(target, np.int64)
    n, classes = logits.shape
    wrong, number = _checked(target, classes, ignore_index)
    if wrong >= 0:
        raise IndexError(
            f"class {target[wrong]} with {classes} classes; classes count from 0, and {ignore_index} "
            f"is ignored"
        )
    losses, logarithms = np.empty(n, F), np.empty(n, F)
    _cross_entropy(logits, target, losses, logarithms, ignore_index, F(label_smoothing))
    divisor = number if reduction == "mean" and number else 1

    def gradient(g, needs):
        scale, r = np.empty(n, F), np.empty_like(logits)
        scale[...] = g
        smoothing = F(label_smoothing)
        _cross_entropy_backward(logits, target, logarithms, scale, r, ignore_index, smoothing, F(divisor))
        return r, None

    if reduction == "none":
        return losses, gradient
    return F(_sum(losses) / divisor if number or reduction == "sum" else np.nan), gradient


@loop
def _checked(target, classes, ignored):
    """The first row whose class is out of range, or -1, and how many rows count."""
    number = 0
    for i in range(target.size):
        if target[i] != ignored:
            if target[i] < 0 or target[i] >= classes:
                return i, number
            number += 1
    return -1, number


@loop
def _sum(losses):
    total = 0.0
    for i in range(losses.size):
        total += losses[i]
    return total


@loop
def _cross_entropy(x, target, losses, logarithms, ignored, smoothing):
    """log sum exp x - sum of q x, q = (1 - e) onehot(target) + e / V."""
    classes = x.shape[1]
    for i in range(x.shape[0]):
        if target[i] == ignored:
            losses[i] = logarithms[i] = F(0)
            continue
        m = largest(x[i])
        total = shifted = F(0)
        for j in range(classes):
            total += exp_below(x[i, j] - m)
        if smoothing:
            for j in range(classes):
                shifted += x[i, j] - m
        shift = np.log(total)
        logarithms[i] = m + shift
        losses[i] = shift - (F(1) - smoothing) * (x[i, target[i]] - m) - smoothing * shifted / F(classes)


@loop
def _cross_entropy_backward(x, target, logarithms, scale, r, ignored, smoothing, divisor):
    """(softmax - q) * scale / divisor."""
    classes = x.shape[1]
    for i in range(x.shape[0]):
        s = F(0) if target[i] == ignored else scale[i] / divisor
        even, scale_to_1 = smoothing / F(classes), F(1)
        if abs(logarithms[i]) > EXACT:
            total = F(0)
            for j in range(classes):
                total += exp_below(x[i, j] - logarithms[i])
            scale_to_1 = F(1) / total
        for j in range(classes):
            r[i, j] = s * (scale_to_1 * exp_below(x[i, j] - logarithms[i]) - even)
        if target[i] != ignored:
            r[i, target[i]] -= s * (F(1) - smoothing)
