"""One step of Adam.

Kingma and Ba 2015, algorithm 1. Adam keeps two running means for each parameter: m of the gradient, v of its
square. At step t, counted from 1,

    m = beta1 m + (1 - beta1) g
    v = beta2 v + (1 - beta2) g^2

Both start at 0, and are too small at first; dividing by 1 - beta^t corrects that. The parameter moves by
-lr m' / (sqrt(v') + eps), where m' and v' are the corrected means. The next step needs m and v themselves.
"""

import numpy as np


def adam_step(parameter, gradient, m, v, t, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8):
    """Return the new parameter, m and v as new arrays; t is the number of this step, counted from 1."""
    # BLANK: update m and v, correct both, move the parameter
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    corrected_m = m / (1 - beta1**t)
    corrected_v = v / (1 - beta2**t)
    parameter = parameter - lr * corrected_m / (np.sqrt(corrected_v) + eps)
    # END
    return parameter, m, v
