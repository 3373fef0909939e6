"""Nucleus sampling's filter, top p.

Holtzman et al. 2020, section 3.1. Before a token is drawn, unlikely tokens are removed. Only the nucleus
remains: the *fewest* tokens, beginning with the likeliest, whose probabilities sum to p or more. A confident
model leaves one token to choose from, an unsure one leaves many.

For each row of logits: how likely is each token? Then from the likeliest down: is p reached *before* this
token? If so, it is not needed. The logits that stay do not change, the others become -inf. The order of the
tokens does not change either: column j is token j.
"""

import numpy as np


def top_p(logits, p):
    """Return new logits (rows, V), which are -inf outside of each row's nucleus; 0 < p <= 1."""
    # BLANK: `filtered`; `np.take_along_axis` and `np.put_along_axis` read and write at an order by row
    order = np.argsort(-logits, -1)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = np.take_along_axis(e / e.sum(-1, keepdims=True), order, -1)
    before = probabilities.cumsum(-1) - probabilities  # the probability of the likelier tokens
    dropped = np.empty(logits.shape, dtype=bool)
    np.put_along_axis(dropped, order, before >= p, -1)  # from the sorted order to the tokens' own
    filtered = np.where(dropped, -np.inf, logits)
    # END
    return filtered
