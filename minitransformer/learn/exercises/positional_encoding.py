"""Positional encoding.

"Attention Is All You Need", section 3.5:

    PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
    PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

Row pos of the table is the encoding of position pos, counted from 0. The columns come in pairs, which
i = 0, 1, ..., d_model / 2 - 1 counts: columns 2i and 2i + 1 are one pair, and both have the same angle.

Write it with arrays, without a loop over positions: a column of positions, (length, 1), and a row of
d_model / 2 numbers broadcast to all angles. d_model is even.
"""

import numpy as np


def positional_encoding(length, d_model):
    """The table of encodings: shape (length, d_model)."""
    # BLANK: compute `table`
    even = np.arange(0, d_model, 2)  # 2i: (d_model / 2,)
    positions = np.arange(length)[:, None]  # (length, 1)
    angles = positions / 10000 ** (even / d_model)  # (length, d_model / 2)
    table = np.empty((length, d_model))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles)
    # END
    return table
