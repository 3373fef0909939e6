"""Adam's step."""

from __future__ import annotations

from ...devices import array_module


def adam(p, g, m, v, rate, b1, b2, root, eps, shrink, decay):
    """m += (1 - b1) (d - m), v = b2 v + (1 - b2) d**2, p = shrink p - rate m / (root sqrt(v) + eps).

    d = g + decay p; all are flat, and changed in place.
    """
    if shrink != 1:
        p *= shrink
    d = g + decay * p if decay else g
    m += (1 - b1) * (d - m)
    v *= b2
    v += (1 - b2) * (d * d)
    p -= rate * m / (root * array_module(p).sqrt(v) + eps)
