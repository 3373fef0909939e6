"""Kernels: fast implementations of ops, one set for each kind of array.

A kernel computes an op in few passes over memory. It is an ordinary function, registered on the op (see
`minigrad.core.kernels`, also for your own ops). It takes the op's arrays and settings, and returns its value
and gradients. Each gradient is a new array, never shared by two inputs. A kernel returns None for arrays that
it does not support.

    numpy    NumPy, for arrays on the CPU
    numba    loops compiled by numba, if it is installed ("jit"); falls back to numpy
    cupy     CuPy and cuBLAS: single library calls, and ops whose definition would run on the CPU
    cuda     CUDA C, and cuDNN for attention; falls back to cupy

If no kernel supports its arrays, an op runs its readable definition. numba and the CUDA C sources are loaded
on first use. `use` chooses a set.
"""

from ..core.errors import OptionError
from ..core.kernels import active, kernel, sets
from ..core.kernels import kernels_in_use as kernels
from ..core.modes import Switch
from . import numpy  # always available; the other sets are imported where minigrad is assembled

__all__ = ["active", "kernel", "kernels", "use"]


class use(Switch):
    """Choose the kernels that ops run on: as a statement, a context manager or a decorator.

    `use("numpy")` or `use("jit")` for arrays on the CPU; `use("cupy")` or `use("cuda")` for arrays on a GPU.
    With "cupy" all composite ops except `linear` and `dropout` run their readable definitions.
    """

    def __init__(self, name: str) -> None:
        known = {each.public_name: each for each in sets.values()}
        if name not in known:
            names = ", ".join(map(repr, known))
            raise OptionError(f"kernels must be one of {names}, got {name!r}.\nChoose one of them.")
        super().__init__(active, known[name].device, known[name].loaded(), at_once=True)
