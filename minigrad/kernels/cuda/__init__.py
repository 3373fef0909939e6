"""Kernels for CuPy arrays: what has no readable definition, and what is one call of a library.

All other composite ops run their readable definitions, each step of which is one of CuPy's operations. CuPy
is not imported here: the arrays that come in bring it with them.
"""

from ..numpy.pooling import largest_place
from .cublas import linear, matmul
from .draws import dropout
from .optimizers import adam, flatten, scale, total_norm

__all__ = ["adam", "dropout", "flatten", "largest_place", "linear", "matmul", "scale", "total_norm"]
