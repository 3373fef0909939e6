"""One step of beam search.

Sutskever et al. 2014, section 3.2. A beam is the beginning of a text; its score is the sum of the
log-probabilities of its tokens. In a step each beam is continued with each token, which gives beams · V
candidates, and the k best of *all* of them are the next beams. A beam may have several children, or none.

A finished beam must compete with the others, but cannot grow: its only candidate is another `end_id`, with
log-probability 0, so its score does not change.

The best entries of a table (beams, V) are easily found in the flat array: entry (b, t) has which index there?
And how do b and t follow from the index?
"""

import numpy as np


def beam_step(scores, log_probabilities, finished, end_id, k):
    """Return the k best candidates, best first: their scores, their beams (parents) and their tokens.

    The arguments are the beams' scores (beams,), the log_probabilities (beams, V) of their next tokens, and
    booleans finished (beams,). The results are three arrays (k,). There is 1 beam in the first step, and k
    beams later.
    """
    # BLANK: `new_scores`, `parents` and `tokens`
    V = log_probabilities.shape[1]
    only_end = np.where(np.arange(V) == end_id, 0.0, -np.inf)
    steps = np.where(finished[:, None], only_end, log_probabilities)
    totals = (scores[:, None] + steps).ravel()  # (beams * V,)
    best = np.argsort(-totals)[:k]
    new_scores = totals[best]
    parents = best // V
    tokens = best % V
    # END
    return new_scores, parents, tokens
