"""Gradient clipping by the global norm.

Pascanu et al. 2013, algorithm 1. A step along a huge gradient can undo hours of training. So if the norm of
the gradient is above `max_norm`, the gradient is shortened to that norm, and keeps its direction. A smaller
one stays as it is.

"The gradient" is that of all parameters, as if their numbers stood in one long vector: its norm is one number
for all arrays. (Shortening each array by itself would change the direction.) The arrays have any shapes; all
may be 0, too.
"""

import math

import numpy as np


def clip_norm(gradients, max_norm):
    """A list of new arrays, the clipped gradients, and the norm that they had before."""
    # BLANK: `norm` and `clipped`
    norm = math.sqrt(sum(np.sum(g**2) for g in gradients))
    scale = max_norm / norm if norm > max_norm else 1.0
    clipped = [g * scale for g in gradients]
    # END
    return clipped, norm
