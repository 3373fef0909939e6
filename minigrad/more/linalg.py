"""Linear algebra functions with the names of torch.linalg."""

from ..ops.linalg import matmul
from ..ops.norms import vector_norm
from .contractions import multi_dot
from .decompositions import cholesky, eigh, eigvalsh, matrix_rank, qr, svd, svdvals
from .diagonals import diagonal as _diagonal
from .inverses import (
    det,
    inv,
    matrix_exp,
    matrix_power,
    pinv,
    slogdet,
    solve,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from .matrix_products import cross as _cross
from .matrix_products import vander, vecdot
from .norms import cond, matrix_norm
from .norms import linalg_norm as norm

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip


def cross(input, other, *, dim=-1):
    """Compute the cross product along an axis of length 3."""
    return _cross(input, other, dim)


def diagonal(a, *, offset=0, dim1=-2, dim2=-1):
    """Return the diagonal a[..., i, i + offset] of each matrix, as the last axis."""
    return _diagonal(a, offset, dim1, dim2)
