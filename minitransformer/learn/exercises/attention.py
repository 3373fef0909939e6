"""Scaled dot-product attention.

"Attention Is All You Need", section 3.2.1, equation 1:

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

q has shape (..., T, d_k), k (..., S, d_k), v (..., S, d_v), the result (..., T, d_v): for each of T queries a
mean of the S values, weighted by how well the query matches each key. Write it for tensors with any leading
axes. `mask`, if given, has shape (T, S) and is True where a query may attend to a key; elsewhere the weight
must be exactly 0. A query that may attend to no key has weights and a result of 0.
"""

import math

import minigrad as mg
from minigrad.nn import functional as F


def attention(q, k, v, mask=None):
    """Return the result (..., T, d_v) and the weights (..., T, S)."""
    # BLANK: compute `weights` and `out`; `.mT` transposes the last two axes, `masked_fill` replaces numbers
    d_k = q.shape[-1]
    hidden = mg.tensor(False) if mask is None else ~mg.tensor(mask)
    scores = (q @ k.mT / math.sqrt(d_k)).masked_fill(hidden, -math.inf)  # (..., T, S)
    weights = F.softmax(scores, -1).masked_fill(hidden, 0.0)  # a row of -inf has become NaN
    out = weights @ v
    # END
    return out, weights
