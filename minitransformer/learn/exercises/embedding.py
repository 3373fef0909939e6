"""Embedding: a lookup, and its gradient.

The table has one row for each word of the vocabulary: shape (V, D). For ids of any shape, say (B, T), the
embedding is an array (B, T, D) that has row ids[b, t] of the table at [b, t].

Its gradient goes the other way. Given g, the gradient of the embedding, of shape (B, T, D), return the
gradient of the table, (V, D). Think of one number of the table, [v, d]: at which places of the embedding is
it used? What if the word v occurs three times in the batch? And if it does not occur?

(The lookup is the same as the one-hot rows of the ids times the table. That gives you the gradient, too.)
"""

import numpy as np


def embedding(table, ids):
    """Look up a row of `table` (V, D) for each of `ids` (...). Return the rows as (..., D)."""
    # BLANK: compute `vectors`; ids is an array of integers of any shape
    vectors = table[ids]
    # END
    return vectors


def embedding_gradient(g, ids, vocab_size):
    """The gradient of the table, (V, D), given g, the gradient of embedding(table, ids), (..., D)."""
    # BLANK: compute `gradient`
    gradient = np.zeros((vocab_size, g.shape[-1]))
    np.add.at(gradient, ids, g)
    # END
    return gradient
