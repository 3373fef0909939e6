"""Adam's step."""

from __future__ import annotations

from ...devices import array_module


def adam(p, g, m, v, rate, b1, b2, root, eps, shrink, decay, *, now=None):
    """m += (1 - b1) (d - m), v = b2 v + (1 - b2) d**2, p = shrink p - rate m / (root sqrt(v) + eps).

    d = g + decay p; all are flat, and changed in place. `now` holds the numbers on the GPU, for a recording:
    rate, 1 - b1, b2, 1 - b2, root, eps, shrink, decay.
    """
    c1, c2 = 1 - b1, 1 - b2
    if now is not None:
        rate, c1, b2, c2, root, eps, shrink, decay = (now[i] for i in range(8))
    if now is not None or shrink != 1:
        p *= shrink
    d = g + decay * p if now is not None or decay else g
    m += c1 * (d - m)
    v *= b2
    v += c2 * (d * d)
    p -= rate * m / (root * array_module(p).sqrt(v) + eps)
