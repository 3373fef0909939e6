"""What flows back through broadcasting.

In x + b, with x of shape (2, 3, 4) and b of shape (3, 1), NumPy repeats b: b[i, 0] is used in x[0, i, 0], in
x[1, i, 3], and in six other places. A number that is used n times gets n gradients, added up.

Given g, the gradient of the large result, and the shape of the small array, return the gradient of the small
array. It has that shape. Shapes are aligned on the right: (4,) fits (2, 3, 4) as (1, 1, 4) does. So there are
two kinds of axes to sum: those that the small array does not have, and those where it has length 1. Write it
for any number of axes, none included.
"""

import numpy as np


def unbroadcast(g, shape):
    """The sum of the array g over the axes along which an array of this shape was repeated."""
    # BLANK: compute `total`, of this shape; `sum` takes a tuple of axes
    missing = g.ndim - len(shape)
    summed = g.sum(axis=tuple(range(missing)))
    ones = tuple(i for i, n in enumerate(shape) if n == 1)
    total = np.asarray(summed).sum(axis=ones, keepdims=True)
    # END
    return total
