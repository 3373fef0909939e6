"""The kernels of a set by the names of their ops, to call them on arrays."""

import pytest

from minigrad import kernels
from minigrad.core.devices import kind_of
from minigrad.core.kernels import Routine, kernels_for
from minigrad.core.registry import ops
from minigrad.optim.clipping import norm_of_all, scale_down
from minigrad.optim.optimizer import adam_update, copy_all, flatten

ROUTINES = {
    "adam": adam_update,
    "copy_all": copy_all,
    "flatten": flatten,
    "scale": scale_down,
    "total_norm": norm_of_all,
}

needs_numba = pytest.mark.numba
BOTH = ["numpy", pytest.param("jit", marks=needs_numba)]


class Kernels:
    """`Kernels("jit").softmax(x, -1)` is what that set computes, or one that it falls back to; None if none.

    Of a routine it is what its call gives, which may be by its definition.
    """

    def __init__(self, which):
        self.which = which

    def __getattr__(self, name):
        record = ROUTINES.get(name) or ops[name]

        def run(*arrays, **settings):
            with kernels.use(self.which):
                if isinstance(record, Routine):
                    return record(*arrays)
                tried = (kernel(*arrays, **settings) for kernel in kernels_for(record, kind_of(arrays)))
                return next((found for found in tried if found is not None), None)

        return run


def registered(name):
    """The ops and routines that have a kernel in the set of this name."""
    found = {op.name for op in ops.values() if name in op.kernels}
    return found | {routine for routine, record in ROUTINES.items() if name in record.kernels}
