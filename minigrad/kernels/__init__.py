"""Kernels: the fast versions of ops, a set for each kind of array.

A kernel computes an op in few passes over memory. It is an ordinary function that registers on the op's
record (`minigrad.core.kernels` says how, and for users' own ops too): it takes the arrays and settings of
the op, and returns its value and its gradients, as every rule does. Each of its gradients is an array of its
own, never shared by two inputs. It may return None for arrays that it does not take.

    numpy    NumPy, for arrays on the CPU
    numba    loops compiled by numba, where it is installed ("jit"); what it lacks comes from numpy
    cupy     CuPy and cuBLAS: only what its readable definition would compute on the CPU, or is one call of a
             library
    cuda     CUDA C, and attention also through cuDNN; what it lacks comes from cupy

Where no kernel takes its arrays, an op runs its readable definition. numba and the sources in CUDA C wait
until they are needed. `use` chooses a set.
"""

from ..core.errors import OptionError
from ..core.kernels import active, kernel, sets
from ..core.kernels import kernels_in_use as kernels
from ..core.modes import Switch
from . import numpy  # the set that is always there; the assembly of minigrad imports the others

__all__ = ["active", "kernel", "kernels", "use"]


class use(Switch):
    """Which kernels ops run on, from now on, for a `with`, or in a function.

    `use("numpy")` or `use("jit")` for arrays on the CPU; `use("cupy")` or `use("cuda")` for those on a GPU.
    With "cupy" all composite ops but `linear` and `dropout` run their readable definitions.
    """

    def __init__(self, name: str) -> None:
        known = {each.public_name: each for each in sets.values()}
        if name not in known:
            names = ", ".join(map(repr, known))
            raise OptionError(f"kernels must be one of {names}, got {name!r}.\nChoose one of them.")
        super().__init__(active, known[name].device, known[name].loaded(), at_once=True)
