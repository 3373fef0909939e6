"""Scaled dot-product attention.

"Attention Is All You Need", section 3.2.1, equation 1:

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

q has shape (..., T, d_k), k (..., S, d_k), v (..., S, d_v), the result (..., T, d_v): for each of T queries a
mean of the S values, weighted by how well the query matches each key. Write it for tensors with any leading
axes. `mask`, if given, has shape (T, S) and is True where a query may attend to a key; elsewhere the weight
must be exactly 0.
"""

import math

import minigrad as mg
from minigrad.nn import functional as F


def attention(q, k, v, mask=None):
    """The result and the weights, of shapes (..., T, d_v) and (..., T, S)."""
    # BLANK: compute `weights` and `out`; `.mT` transposes the last two axes, `masked_fill` replaces numbers
    d_k = q.shape[-1]
    scores = q @ k.mT / math.sqrt(d_k)  # (..., T, S)
    if mask is not None:
        scores = scores.masked_fill(~mg.tensor(mask), -math.inf)
    weights = F.softmax(scores, -1)  # each row sums to 1
    out = weights @ v
    # END
    return out, weights
