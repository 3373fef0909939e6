"""Layer norm's gradient.

With the mean and the variance of each row of n numbers (the variance divides by n),

    h = (x - mean) / sd,   sd = sqrt(variance + eps),   y = weight h + bias

The gradients of weight and bias are g h and g; minigrad sums them over the rows. For x: each x_j changes h_j,
but also the mean and the variance, and so all other h_i. With u = g weight, differentiate h_i by x_j. Three
terms remain, all divided by sd. (Ba, Kiros and Hinton 2016, equation 4.)
"""

import numpy as np

from minigrad.ops import differentiable


@differentiable
def layer_norm(x, weight, bias, /, eps=1e-5):
    """Rows of mean 0 and variance 1, times weight, plus bias; x (N, n), weight and bias (n,)."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    sd = np.sqrt(variance + eps)
    h = (x - mean) / sd

    # BLANK: `gradient_of_x`, a function of g, with weight, h and sd from above
    def gradient_of_x(g):
        u = g * weight
        mean_of_u = u.mean(-1, keepdims=True)
        mean_of_uh = (u * h).mean(-1, keepdims=True)
        return (u - mean_of_u - h * mean_of_uh) / sd

    # END
    return h * weight + bias, (gradient_of_x, lambda g: g * h, lambda g: g)
