"""Causal and padding masks, together.

A mask has one entry for each query and each key, and is True where the query may attend to the key. Masks of
attention broadcast to (batch, heads, queries, keys).

"Attention Is All You Need", section 3.2.3: the decoder's self-attention must "prevent leftward information
flow". So position t may attend to the positions 0 to t, itself included. When a text is generated, the keys
of `past` earlier tokens are kept, and only the last `length` tokens are queries: query 0 then stands at
position `past`.

Short texts are padded at their end with `pad_id`. No query may attend to a key that is padding. Queries that
are padding themselves are left alone: their results are thrown away, and a query without any key would
divide 0 by 0 in softmax.
"""

import numpy as np


def causal_mask(length, past=0):
    """The causal mask, booleans of shape (length, past + length)."""
    # BLANK: `mask`, from the positions of the queries and those of the keys
    queries = np.arange(past, past + length)[:, None]  # as a column: (length, 1)
    keys = np.arange(past + length)
    mask = keys <= queries
    # END
    return mask


def padding_mask(ids, pad_id):
    """The padding mask for ids (B, S), booleans of a shape that broadcasts to (B, heads, queries, S)."""
    # BLANK: `mask`, with an axis of length 1 where the mask is the same for all
    mask = (ids != pad_id)[:, None, None, :]
    # END
    return mask


def decoder_mask(ids, pad_id):
    """Both masks for the decoder's self-attention over ids (B, T): booleans of shape (B, 1, T, T)."""
    # BLANK: `mask`, from the two functions above
    mask = causal_mask(ids.shape[1]) & padding_mask(ids, pad_id)
    # END
    return mask
