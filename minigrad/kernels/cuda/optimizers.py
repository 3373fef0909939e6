"""The optimizers' `flatten` in a step that is being captured."""

from __future__ import annotations

from ...core.devices import array_module
from ...core.kernels import kernel
from ...optim.optimizer import flatten


@kernel(flatten, "cupy")
def flatten_in_a_capture(arrays, out):
    """Copy arrays into `out` one by one: CuPy's concatenate uploads addresses, which cannot be captured."""
    if not array_module(out).cuda.get_current_stream().is_capturing():
        return None
    end = 0
    for array in arrays:
        out[end : (end := end + array.size)].reshape(array.shape)[...] = array
    return out
