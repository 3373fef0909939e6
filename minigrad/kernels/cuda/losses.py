"""Cross-entropy."""

from __future__ import annotations

from ...devices import array_module
from ..half import in_single
from .activations import log_softmax


@in_single
def cross_entropy(logits, target, ignore_index, reduction, label_smoothing):
    """-sum of q log softmax(logits), q = (1 - e) onehot(target) + e / V; d logits = softmax - q, scaled."""
    (n, classes), xp = logits.shape, array_module(logits)
    valid = target != ignore_index
    known = xp.where(valid, target, 0)
    if known.size and bool(((known < 0) | (known >= classes)).any()):
        wrong = known.max() if known.max() >= classes else known.min()
        raise IndexError(
            f"class {int(wrong)} with {classes} classes; classes count from 0, and {ignore_index} is ignored"
        )
    row = xp.arange(n)
    log_p, _ = log_softmax(logits, 1)
    losses = -log_p[row, known]
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(axis=1)
    losses = xp.where(valid, losses, 0).astype(logits.dtype, copy=False)
    number = valid.sum().astype(logits.dtype)

    def gradient(g, needs):
        scale = xp.where(valid, g / number if reduction == "mean" else g, 0).astype(log_p.dtype, copy=False)
        r = xp.exp(log_p)
        r -= label_smoothing / classes
        r[row, known] -= 1 - label_smoothing
        r *= scale[:, None]
        return r, None

    if reduction == "none":
        return losses, gradient
    return losses.sum() / (number if reduction == "mean" else 1), gradient  # of no targets the mean is NaN
