"""Multi-head attention: split, attend, concatenate.

"Attention Is All You Need", section 3.2.2: attention runs `heads` times, each time on d_k = D / heads of the
D numbers of each token. Head 1 has columns 0 to d_k - 1 of every token, head 2 the next d_k, and so on. What
the heads find is put side by side again, in the same order.

No loop is needed: with the heads as an axis at the front, one call of `attention` serves all of them.

    split:   (..., T, D) -> (..., heads, T, d_k)
    merge:   (..., heads, T, d_k) -> (..., T, D)

A reshape does not move numbers: it cuts the same row of numbers into other pieces. Which axes may it split
and join, and what must be exchanged before or after? (The four projections of the paper are left out here.)
"""

import numpy as np


def attention(q, k, v):
    """softmax(q k^T / sqrt(d_k)) v along the last two axes, for any axes at the front."""
    scores = q @ k.mT / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def split_heads(x, heads):
    """Split (..., T, D) into heads: (..., heads, T, D / heads)."""
    # BLANK: compute `split`; `np.swapaxes(x, -2, -3)` exchanges two axes
    *batch, length, width = x.shape
    tokens_first = x.reshape(*batch, length, heads, width // heads)  # (..., T, heads, d_k)
    split = np.swapaxes(tokens_first, -2, -3)  # (..., heads, T, d_k)
    # END
    return split


def merge_heads(x):
    """Concatenate heads (..., heads, T, d_k) to (..., T, heads * d_k), the inverse of `split_heads`."""
    # BLANK: compute `merged`
    *batch, heads, length, d_k = x.shape
    tokens_first = np.swapaxes(x, -2, -3)  # (..., T, heads, d_k)
    merged = tokens_first.reshape(*batch, length, heads * d_k)
    # END
    return merged


def multi_head(q, k, v, heads):
    """Attention in `heads` heads: q (..., T, D), k and v (..., S, D), result (..., T, D)."""
    # BLANK: compute `out` with the three functions
    of_heads = attention(split_heads(q, heads), split_heads(k, heads), split_heads(v, heads))
    out = merge_heads(of_heads)
    # END
    return out
