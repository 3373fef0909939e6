"""Kernels for CuPy arrays: what has no readable definition, and what is one call of a library.

All other composite ops run their readable definitions here, each step of which is a kernel of CuPy's own. CuPy is not
imported: an array that comes in is CuPy's.
"""

from ..cpu.pooling import largest_place
from .cublas import linear, matmul
from .draws import dropout
from .optimizers import adam, scale, total_norm

__all__ = ["adam", "dropout", "largest_place", "linear", "matmul", "scale", "total_norm"]
