"""Analogies: king - man + woman.

What is to woman as king is to man? If the step from man to king has the same direction as the step from woman
to the word sought, then king - man + woman is close to it. Mikolov, Yih and Zweig 2013, "Linguistic
Regularities in Continuous Space Word Representations", section 4:

1. Each word's vector is divided by its length, so that frequent words, whose vectors are long, do not count
   more.
2. y = x_a - x_b + x_c.
3. The words are compared with y by the cosine of the angle, cos(u, v) = u v / (|u| |v|).
4. None of the three words may be an answer. (Without this rule, the answer is often one of them.)

`vectors` has one row for each word: shape (V, D). A row of zeros, such as that of padding, remains zero, and
its cosine with y is 0.
"""

import numpy as np


def analogy(vectors, a, b, c, count=3):
    """The rows closest to row a - row b + row c, and their cosines: `count` of each, the closest first."""
    # BLANK: compute `rows`, integers, and `found`, their cosines
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)  # (V, 1)
    unit = vectors / np.where(lengths > 0, lengths, 1)  # (V, D)
    sought = unit[a] - unit[b] + unit[c]  # (D,)
    cosines = unit @ sought / np.linalg.norm(sought)  # (V,)
    cosines[[a, b, c]] = -np.inf
    rows = np.argsort(-cosines)[:count]
    found = cosines[rows]
    # END
    return rows, found
