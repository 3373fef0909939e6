"""The matrix product, and the linear layer."""

from __future__ import annotations

import math

from ..core.composites import composite
from ..core.costs import Flops
from ..core.errors import DtypeError, ShapeError, counted
from ..core.op import differentiable
from .arithmetic import TOO_LARGE
from .samplers import cases, real

__family__ = "matrix"
__all__ = ["matmul"]

matmul_flops = Flops(
    "2 × elements of the result × length of a row",
    lambda inputs, result, settings: 2 * math.prod(result) * inputs[0][-1],
)


@differentiable(
    autocast="lower",
    sign="@",
    exact_in_half="gpu",  # it accumulates in float32
    advice=TOO_LARGE,
    samples=cases((real, 2, 3), (real, 3, 4))
    | cases((real, 3), (real, 3))
    | cases((real, 3), (real, 2, 3, 2))
    | cases((real, 2, 2, 3), (real, 3))
    | cases((real, 2, 2, 3), (real, 3, 2))
    | cases((real, 2, 1, 2, 3), (real, 4, 3, 2))
    | cases((real, 2, 0), (real, 0, 3)),
    latex=(r"g\,y^\top", r"x^\top g"),
    flops=matmul_flops,
)
def matmul(x, y, /):
    """Multiply matrices over the last two axes; batches broadcast, vectors are taken as a row or a column.

    With C = A B: dA = G Bᵀ, dB = Aᵀ G.

    >>> a, b = mg.ones(2, 3), mg.ones(3, 4)
    >>> (a @ b).shape
    (2, 4)
    """
    if x.dtype == bool or y.dtype == bool:  # NumPy would compute their logical or
        raise DtypeError("matmul does not take booleans.\nConvert them: .to('int64') counts, .to('float32').")
    row = x.ndim == 1
    column = y.ndim == 1
    a = x[None, :] if row else x
    b = y[:, None] if column else y
    try:
        value = a @ b
    except ValueError:
        raise _shape_error(x.shape, y.shape) from None
    if row:
        value = value[..., 0, :]
    if column:
        value = value[..., 0]

    def as_matrix(g):
        g = g[..., None] if column else g
        return g[..., None, :] if row else g

    def left(g):
        r = as_matrix(g) @ b.swapaxes(-1, -2)
        return r[..., 0, :] if row else r

    def right(g):
        g = as_matrix(g)
        if a.ndim > 2 and b.ndim == 2:  # all rows of the batch at once, rather than a sum over the batch
            rows = math.prod(a.shape[:-1])
            r = a.reshape(rows, a.shape[-1]).swapaxes(0, 1) @ g.reshape(rows, g.shape[-1])
        else:
            r = a.swapaxes(-1, -2) @ g
        return r[..., 0] if column else r

    return value, (left, right)


def matmul_arrays(a, b):
    """Return a @ b for arrays, using the kernels of the `matmul` op: a 16-bit result is rounded only once."""
    return matmul.op.run((a, b), {})[0]


def _shape_error(x, y):
    """The error that explains why tensors of these shapes cannot be multiplied."""
    if not x or not y:
        return ShapeError(f"matmul of shapes {x} and {y}: a number is not a matrix.\nUse * for it.")
    row = x[-1]
    column = y[-min(2, len(y))]
    if row != column:
        return ShapeError(
            f"matmul of shapes {x} and {y}: axis -1 of the first has {counted(row, 'element')}, "
            f"axis -{min(2, len(y))} of the second {column}.\n"
            f"They must have the same length; transpose one (.mT)."
        )
    for axis, (n, m) in enumerate(zip(x[-3::-1], y[-3::-1], strict=False), 3):
        if n != m and 1 not in (n, m):
            return ShapeError(
                f"matmul of shapes {x} and {y}: batch axis -{axis} has {n} in the first, {m} in the second.\n"
                f"Batch axes must be equal, or 1 in one of them."
            )
    return ShapeError(f"matmul of shapes {x} and {y}.\nPass matrices, vectors, or batches of matrices.")


@composite(
    autocast="lower",
    advice=TOO_LARGE,
    samples=cases((real, 2, 3), (real, 4, 3), (real, 4))
    | cases((real, 2, 2, 3), (real, 4, 3), None)
    | cases((real, 3), (real, 2, 3), (real, 2)),
    latex=("g W", r"g^\top x", r"\sum_{\text{rows}} g"),
    flops=matmul_flops,
)
def linear(x, weight, bias, /):
    """x Wᵀ + b: x (..., in), weight (out, in), bias (out,) or None.

    A gradient g (..., out) gives g W for x, gᵀ x for W and the sum of g over all rows for b.
    """
    y = x @ weight.transpose(0, 1)
    return y if bias is None else y + bias
