"""Attention's gradients.

"Attention Is All You Need", equation 1, as four steps with their shapes:

    scores  = q k^T             (T, S)   a dot product for each query and key
    scaled  = scores s          (T, S)   s = 1 / sqrt(d_k)
    weights = softmax(scaled)   (T, S)   along the keys, the last axis
    out     = weights v         (T, d_v)

Given g, the gradient of out, (T, d_v), go back through them. Two steps are matrix products: for y = a b, the
gradient of a is g b^T, and the gradient of b is a^T g. For y = softmax(x), lesson 5 derives
y (g - sum(g y)), with the sum along its axis. And a factor s of a step is also a factor of its gradient.
Write the shape beside each line.

All arrays may have leading axes, such as a batch: `.mT` exchanges the last two axes.
"""

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention_gradients(q, k, v, g):
    """The gradients of q (..., T, d_k), k (..., S, d_k) and v (..., S, d_v), given g (..., T, d_v)."""
    scale = 1 / np.sqrt(q.shape[-1])
    weights = softmax(q @ k.mT * scale)  # (..., T, S)
    # BLANK: compute `gradient_of_q`, `gradient_of_k` and `gradient_of_v`
    gradient_of_v = weights.mT @ g  # (..., S, T) (..., T, d_v) -> (..., S, d_v)
    of_weights = g @ v.mT  # (..., T, d_v) (..., d_v, S) -> (..., T, S)
    weighted_sum = (of_weights * weights).sum(-1, keepdims=True)  # (..., T, 1)
    of_scores = weights * (of_weights - weighted_sum) * scale  # (..., T, S)
    gradient_of_q = of_scores @ k  # (..., T, S) (..., S, d_k) -> (..., T, d_k)
    gradient_of_k = of_scores.mT @ q  # (..., S, T) (..., T, d_k) -> (..., S, d_k)
    # END
    return gradient_of_q, gradient_of_k, gradient_of_v
