"""The functions that a rule computes with: `xp = namespace(x)` has the same names for arrays and Tensors.

For arrays it is their library; for Tensors it is minigrad's ops under the library's names, so that a rule run
on Tensors records the graph of its derivative. `provide_for_arrays` and `provide_for_tensors` add the
few functions that a library lacks, or that have another name as an op.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .devices import NUMPY, ArrayBackend, loaded
from .registry import ops
from .tensor import Tensor, constant

_for_arrays: dict[str, Callable] = {}


class _Arrays:
    """The functions for arrays: the backend's own, those provided, and the library's."""

    def __init__(self, backend: ArrayBackend) -> None:
        self.library = backend.library
        vars(self).update(backend.own_functions())

    def __getattr__(self, name: str) -> Any:
        value = _for_arrays[name] if name in _for_arrays else getattr(self.library, name)
        setattr(self, name, value)  # no __getattr__ next time
        return value

    @staticmethod
    def stop_gradient(x: Any) -> Any:
        return x


class _Tensors:
    """minigrad's ops under the array API's names."""

    def __getattr__(self, name: str) -> Any:
        value = ops[name].call
        setattr(self, name, value)
        return value

    @staticmethod
    def copy(x: Tensor, order: str = "K") -> Tensor:
        return ops["clone"].call(x)

    @staticmethod
    def ones_like(x: Tensor) -> Tensor:
        return constant(np.ones(x.shape, x.dtype), x)

    @staticmethod
    def zeros_like(x: Tensor) -> Tensor:
        return constant(np.zeros(x.shape, x.dtype), x)

    @staticmethod
    def stop_gradient(x: Tensor) -> Tensor:
        return x.detach()


functions_of = cache(_Arrays)  # one instance for each backend
_arrays, _tensors = functions_of(NUMPY), _Tensors()


def provide_for_arrays(**functions: Callable) -> None:
    """Add functions of arrays to `namespace(x)`, for backends without their own."""
    _for_arrays.update(functions)


def provide_for_tensors(**functions: Callable) -> None:
    """Add functions of Tensors to `namespace(x)` that differ from the op of that name."""
    vars(_tensors).update(functions)


def namespace(x: Any, y: Any = None, z: Any = None) -> Any:
    """The functions for these operands: for Tensors if one is a Tensor (numbers work with both)."""
    if isinstance(x, Tensor) or isinstance(y, Tensor) or isinstance(z, Tensor):
        return _tensors
    for backend in loaded:
        if any(isinstance(operand, backend.arrays) for operand in (x, y, z)):
            return functions_of(backend)
    return _arrays


def value_in_rule(name: str, compute: Any, *args: Any) -> Any:
    """An op's value inside its own rule: `compute(*args)` for arrays, and for Tensors a call of the op, so
    that the next derivative uses its rule again."""
    tensors = any(isinstance(x, Tensor) for x in args)
    return ops[name].call(*args) if tensors else compute(*args)
