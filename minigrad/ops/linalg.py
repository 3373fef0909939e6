"""Products of matrices and vectors."""

from __future__ import annotations

from ..errors import ShapeError
from .record import composite, differentiable, made_of_ops

__all__ = [
    "bmm", "dot", "matmul", "mm", "outer",
]  # fmt: skip


@differentiable
def matmul(x, y, /):
    """The matrix product over the last two axes, batches broadcast; vectors are a row and a column.

    With C = A B: dA = G Bᵀ, dB = Aᵀ G.
    """
    _check(x.shape, y.shape)
    row, column = x.ndim == 1, y.ndim == 1
    a = x[None, :] if row else x
    b = y[:, None] if column else y
    value = a @ b
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
        r = a.swapaxes(-1, -2) @ as_matrix(g)
        return r[..., 0] if column else r

    return value, (left, right)


def _check(x, y):
    if not x or not y:
        raise ShapeError(f"matmul of shapes {x} and {y}: a number is no matrix.\nUse * for it.")
    if x[-1] != y[-min(2, len(y))]:
        raise ShapeError(
            f"matmul of shapes {x} and {y}: rows of {x[-1]} by columns of {y[-min(2, len(y))]}.\n"
            f"The first's last axis must be as long as the second's last but one; transpose one (.mT)."
        )


@composite
def linear(x, weight, bias, /):
    """x Wᵀ + b: x (..., in), weight (out, in), bias (out,) or None."""
    y = x @ weight.transpose(0, 1)
    return y if bias is None else y + bias


@made_of_ops
def outer(x, y):
    """Every product x[i] * y[j] of two vectors."""
    return x.reshape(-1, 1) * y.reshape(1, -1)


@made_of_ops
def dot(x, y):
    """The sum of x * y, of two vectors."""
    return matmul(x, y)


@made_of_ops
def bmm(x, y):
    """The matrix products of two batches, (B, n, m) and (B, m, p) -> (B, n, p)."""
    return matmul(x, y)


mm = matmul  # of two matrices
