"""The matrix that moves a position.

"Attention Is All You Need", section 3.5: "for any fixed offset k, PE(pos + k) can be represented as a linear
function of PE(pos)". Find this function: a matrix M, the same for all positions, with

    PE(pos + k) = M PE(pos)      for every pos, where PE(pos) is a column of d_model numbers.

Take one pair of columns, with w = 1 / 10000^(2i / d_model): it is sin(w pos) and cos(w pos). Write
sin(w (pos + k)) and cos(w (pos + k)) by the formulas for the sine and the cosine of a sum. What multiplies
sin(w pos), and what multiplies cos(w pos)? These are four numbers: a square of 2 x 2 on the diagonal of M,
for each pair. All others are 0. k may be negative.
"""

import numpy as np


def shift_matrix(k, d_model):
    """The matrix M, (d_model, d_model), with PE(pos + k) = M @ PE(pos)."""
    matrix = np.zeros((d_model, d_model))
    # BLANK: fill the square of each pair
    for even in range(0, d_model, 2):
        angle = k / 10000 ** (even / d_model)
        sine = np.sin(angle)
        cosine = np.cos(angle)
        matrix[even : even + 2, even : even + 2] = [[cosine, sine], [-sine, cosine]]
    # END
    return matrix
