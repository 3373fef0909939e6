"""Array functions that the rules of this package find in `namespace(x)`, in addition to those of `ops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.namespace import provide_for_arrays
from .array_windows import convolution, convolution_input, convolution_weight, overlap_add, sliding_windows
from .error_functions import erfcx, erfcx_derivative, erfinv, ndtri
from .gamma_functions import lgamma, polygamma


def diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """A view of the diagonals of matrices; NumPy's is read-only."""
    view = np.diagonal(x, offset, dim1, dim2)
    view.flags.writeable = x.flags.writeable
    return view


provide_for_arrays(
    convolution=convolution, convolution_input=convolution_input, convolution_weight=convolution_weight,
    diagonal=diagonal, erfcx=erfcx, erfcx_derivative=erfcx_derivative, erfinv=erfinv,
    gamma_derivative=polygamma, lgamma=lgamma, ndtri=ndtri, overlap_add=overlap_add,
    sliding_windows=sliding_windows,
)  # fmt: skip
