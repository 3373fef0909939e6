"""BERT's masked tokens: 80 %, 10 %, 10 %.

Devlin et al. 2018, section 3.1. 15 % of the tokens are chosen, and the model must predict these, from both
sides. Of the chosen ones, 80 % are replaced with the mask, 10 % with a random word, and 10 % stay: a model
that reads a word can then not be sure that it is right, so every position needs a prediction of its own.

Special tokens (start, end, padding) are never chosen. The target of a chosen token is the original token,
whatever is read in its place; all other targets are IGNORE.

The random numbers are given, so that each answer gives the same result: `draws` and `kinds` are uniform from
0 to 1, `words` are random ids. A token is chosen if its draw is below 0.15. A kind below 0.8 stands for the
mask, one from 0.8 to 0.9 for the random word, and one from 0.9 on for the token itself.
"""

import numpy as np

IGNORE = -100


def corrupt(ids, special, mask_id, draws, kinds, words):
    """Return what the model reads and its target, two new arrays. All are (B, T); `special` has booleans."""
    # BLANK: `read` and `target`
    chosen = (draws < 0.15) & ~special
    masked = chosen & (kinds < 0.8)
    replaced = chosen & (kinds >= 0.8) & (kinds < 0.9)
    read = np.where(masked, mask_id, np.where(replaced, words, ids))
    target = np.where(chosen, ids, IGNORE)
    # END
    return read, target
