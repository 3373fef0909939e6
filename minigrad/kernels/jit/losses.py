"""Cross-entropy: one number a row is kept, and the scores themselves, which the graph holds anyway."""

from __future__ import annotations

import math

import numpy as np

from .. import cpu
from .arrays import contiguous, is_float32
from .mathematics import F, exp_below, inline, largest, loop

EXACT = (
    64  # a larger log sum exp has too few digits left for the sum; to scale a row to 1 costs its exponentials
)


def cross_entropy(logits, target, ignore_index, reduction, label_smoothing):
    if not is_float32(logits) or not logits.size:
        return cpu.cross_entropy(logits, target, ignore_index, reduction, label_smoothing)
    logits, target = contiguous(logits), np.ascontiguousarray(target, np.int64)
    n, classes = logits.shape
    counts = np.empty(2, np.int64)
    _count(target, classes, ignore_index, counts)
    refuse_wrong_classes(counts, target, classes, ignore_index)
    losses, logarithms, smoothing = np.empty(n, F), np.empty(n, F), F(label_smoothing)
    _cross_entropy(logits, target, losses, logarithms, ignore_index, smoothing)
    is_mean = reduction == "mean"

    def gradient(g, needs):
        scale, r = np.empty(n, F), np.empty_like(logits)
        scale[...] = g
        _cross_entropy_backward(
            logits, target, logarithms, scale, r, ignore_index, smoothing, counts, is_mean
        )
        return r, None

    if reduction == "none":
        return losses, gradient
    total = np.empty((), F)
    _sum(losses, counts, is_mean, total)
    return total, gradient


def refuse_wrong_classes(counts, target, classes, ignore_index):
    """Raise an IndexError if `_count` found a class that is out of range."""
    if counts[0] >= 0:
        raise IndexError(
            f"class {target[counts[0]]} with {classes} classes; classes count from 0, and {ignore_index} "
            f"is ignored"
        )


@loop
def _count(target, classes, ignored, counts):
    """Write the first row whose class is out of range, or -1, and how many rows count."""
    number = 0
    for i in range(target.size):
        if target[i] != ignored:
            if target[i] < 0 or target[i] >= classes:
                counts[0] = i
                return
            number += 1
    counts[0], counts[1] = -1, number


@loop
def _sum(losses, counts, is_mean, total):
    """The sum, or the mean over the rows that count: NaN if none does."""
    added = 0.0
    for i in range(losses.size):
        added += losses[i]
    total[()] = (added / counts[1] if counts[1] else np.nan) if is_mean else added


@loop
def _cross_entropy(x, target, losses, logarithms, ignored, smoothing):
    """log sum exp x - sum of q x, q = (1 - e) onehot(target) + e / V.

    The other classes are added up apart from the target's: where their sum is tiny, so is the loss.
    """
    classes = x.shape[1]
    for i in range(x.shape[0]):
        if target[i] == ignored:
            losses[i] = logarithms[i] = F(0)
            continue
        m, t = largest(x[i]), target[i]
        others = shifted = F(0)
        for j in range(t):
            others += exp_below(x[i, j] - m)
        for j in range(t + 1, classes):
            others += exp_below(x[i, j] - m)
        below = x[i, t] - m
        own = exp_below(below)
        if smoothing:
            for j in range(classes):
                shifted += x[i, j] - m
        shift = np.log(others + own)
        logarithms[i] = m + shift
        loss = F(math.log1p(others)) if below == F(0) else shift - below
        losses[i] = (F(1) - smoothing) * loss + smoothing * (shift - shifted / F(classes))


@inline
def _cross_entropy_slopes(x, target, logarithms, scale, r, ignored, smoothing, counts, is_mean):
    """(softmax - q) * scale, divided by the number of rows that count if the loss is their mean.

    Of the target's class softmax - 1 is -(the sum of the others'), which keeps its digits where softmax is 1.
    """
    classes, divisor = x.shape[1], F(counts[1] if is_mean and counts[1] else 1)
    for i in range(x.shape[0]):
        s, t = F(0) if target[i] == ignored else scale[i] / divisor, target[i]
        even, scale_to_1 = smoothing / F(classes), F(1)
        if abs(logarithms[i]) > EXACT:
            total = F(0)
            for j in range(classes):
                total += exp_below(x[i, j] - logarithms[i])
            scale_to_1 = F(1) / total
        others = F(0)
        for j in range(classes):
            p = scale_to_1 * exp_below(x[i, j] - logarithms[i])
            others += F(0) if j == t else p
            r[i, j] = s * (p - even)
        if t != ignored:
            r[i, t] = s * (smoothing - even - others)


@loop
def _cross_entropy_backward(x, target, logarithms, scale, r, ignored, smoothing, counts, is_mean):
    _cross_entropy_slopes(x, target, logarithms, scale, r, ignored, smoothing, counts, is_mean)


@loop
def _cross_entropy_backward_in_place(x, target, logarithms, scale, ignored, smoothing, counts, is_mean):
    _cross_entropy_slopes(x, target, logarithms, scale, x, ignored, smoothing, counts, is_mean)
