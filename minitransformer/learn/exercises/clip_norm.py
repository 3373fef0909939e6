"""Gradient clipping by the global norm.

Pascanu et al. 2013, algorithm 1. A step along a huge gradient can undo hours of training. So if the norm of
the gradient is above `max_norm`, the gradient is shortened to that norm, and keeps its direction. A smaller
one stays as it is.

"The gradient" is that of all parameters, as if their numbers were one long vector, so its norm is one number
for all arrays. (Shortening each array separately would change the direction.) The arrays may have any shapes,
and may all be 0.
"""

import math

import numpy as np


def clip_norm(gradients, max_norm):
    """Return a list of new arrays, the clipped gradients, and the norm before clipping."""
    # BLANK: `norm` and `clipped`
    norm = math.sqrt(sum(np.sum(g**2) for g in gradients))
    scale = max_norm / norm if norm > max_norm else 1.0
    clipped = [g * scale for g in gradients]
    # END
    return clipped, norm
