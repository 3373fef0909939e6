"""Linear algebra under the names of torch.linalg."""

from .ops.contractions import multi_dot
from .ops.linalg import cross as _cross
from .ops.linalg import matmul, vander, vecdot
from .ops.norms import vector_norm

__all__ = ["cross", "matmul", "multi_dot", "vander", "vecdot", "vector_norm"]


def cross(input, other, *, dim=-1):
    """The cross product along an axis of 3 elements."""
    return _cross(input, other, dim)
