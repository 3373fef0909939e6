"""What a rule computes with: `xp = namespace(x)` has the same names for arrays and for Tensors.

For arrays it is NumPy, or on a GPU CuPy, plus the few functions that these lack; for Tensors it is minigrad's
own ops under the array API's names, so that a rule run on Tensors records a graph of its own derivative.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from . import gamma_functions as _gamma
from . import masks as _masks
from . import special_functions as _special
from . import windows as _windows
from .devices import HALF, float32, gpu, is_floating
from .op import ops
from .tensor import Tensor, constant


class _Arrays:
    """An array library, with what it lacks."""

    sigmoid = staticmethod(_special.sigmoid)
    erfcx_derivative = staticmethod(_special.erfcx_derivative)
    lgamma = staticmethod(_gamma.lgamma)
    gamma_derivative = staticmethod(_gamma.polygamma)
    sliding_windows = staticmethod(_windows.sliding_windows)
    overlap_add = staticmethod(_windows.overlap_add)
    convolution = staticmethod(_windows.convolution)
    convolution_input = staticmethod(_windows.convolution_input)
    convolution_weight = staticmethod(_windows.convolution_weight)

    def __init__(self, library: Any) -> None:
        self.library = library

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.library, name)
        setattr(self, name, value)  # found directly from now on
        return value

    @staticmethod
    def stop_gradient(x: Any) -> Any:
        return x

    @staticmethod
    def sign(x: Any) -> Any:
        """-1, 0 or 1; of NaN 0, as PyTorch's (NumPy's is NaN)."""
        return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)

    def scatter_add(self, shape: tuple[int, ...], index: Any, values: Any) -> Any:
        """zeros(shape) with `values` added at `index`; repeated indices add up."""
        if is_basic(index):
            out = self.library.zeros(shape, values.dtype)
            out[index] = values
            return out
        wide = float32 if values.dtype in HALF else values.dtype
        out = self.library.zeros(shape, wide)
        self.library.add.at(out, index, values.astype(wide, copy=False))
        return out.astype(values.dtype, copy=False)

    def replaced(self, x: Any, values: Any, index: Any) -> Any:
        """A copy of x with `values` at `index`; where indices repeat, the last wins."""
        out = self.library.array(x)
        out[index] = values
        return out

    @staticmethod
    def take(x: Any, index: Any) -> Any:
        value = x[index]
        if isinstance(value, np.generic):  # a copy; with `...` it is a view without axes
            return x[(*index, ...) if isinstance(index, tuple) else (index, ...)]
        return value

    def diagonal(self, x: Any, offset: int, dim1: int, dim2: int) -> Any:
        view = np.diagonal(x, offset, dim1, dim2)
        view.flags.writeable = x.flags.writeable
        return view

    @staticmethod
    def gate(mask: Any, g: Any) -> Any:
        """g where `mask` is True, 0 elsewhere, also where g is infinite: `where`, without its branches.

        The mask becomes words of ones and zeros as wide as g's numbers, and the two are combined bit by bit.
        """
        word = np.dtype(f"i{g.dtype.itemsize}")
        bits = (-mask.view(np.int8)).astype(word)
        if bits.shape == g.shape:  # in place: no third array
            bits &= g.view(word)
            return bits.view(g.dtype)
        return (bits & g.view(word)).view(g.dtype)


class _Numpy(_Arrays):
    where = staticmethod(_masks.where)
    erf = staticmethod(_special.erf)
    erfc = staticmethod(_special.erfc)
    erfcx = staticmethod(_special.erfcx)
    erfinv = staticmethod(_special.erfinv)
    ndtri = staticmethod(_special.ndtri)
    logaddexp, power = staticmethod(_special.logaddexp), staticmethod(_special.power)


class _Cupy(_Arrays):
    """CuPy, whose own functions of these names run on the GPU."""

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        special = import_module("minigrad.kernels.cuda.special")
        self.erf, self.erfc, self.erfcx = special.erf, special.erfc, special.erfcx
        self.erfinv, self.ndtri = special.erfinv, special.ndtri

    def scatter_add(self, shape: tuple[int, ...], index: Any, values: Any) -> Any:
        """zeros(shape) with `values` added at `index`; atomics know fewer dtypes than we."""
        if is_basic(index) or values.dtype in _ATOMIC:
            return super().scatter_add(shape, index, values)
        wide = np.float32 if is_floating(values.dtype) else np.uint64  # which wraps around as integers do
        return super().scatter_add(shape, index, values.astype(wide)).astype(values.dtype)

    def replaced(self, x: Any, values: Any, index: Any) -> Any:
        """On a GPU the order of writes is undefined: the last value for a place is found first."""
        out = self.library.array(x, order="C")
        if is_basic(index):
            out[index] = values
            return out
        places = self.library.arange(out.size).reshape(out.shape)[index].reshape(-1)
        values = self.library.broadcast_to(values, out[index].shape).reshape(-1)
        order = self.library.argsort(places, kind="stable")
        ranked = places[order]
        last = self.library.concatenate([ranked[1:] != ranked[:-1], self.library.ones(1, bool)])[
            : ranked.size
        ]
        chosen = order[last]
        flat = out.reshape(-1)
        flat[places[chosen]] = values[chosen]
        return out

    def diagonal(self, x: Any, offset: int, dim1: int, dim2: int) -> Any:
        return self.library.diagonal(x, offset, dim1, dim2)


_ATOMIC = {np.dtype(t) for t in ("int32", "uint32", "uint64", "float32", "float64")}


@lru_cache(maxsize=1)
def _cupy(library: Any) -> _Cupy:
    return _Cupy(library)


def is_basic(index: Any) -> bool:
    """Whether an index names each element at most once (no index arrays)."""
    items = index if isinstance(index, tuple) else (index,)
    return all(isinstance(i, int | np.integer | slice | type(None) | type(Ellipsis)) for i in items)


_TENSOR_NAMES = {
    "flip": "reversed_along",
    "permute_dims": "permute_axes",
    "sigmoid": "logistic",  # whose own derivative keeps its digits
    "swapaxes": "transpose",
    "take": "getitem",
}


class _Tensors:
    """minigrad's ops under the array API's names."""

    def __getattr__(self, name: str) -> Any:
        value = ops[_TENSOR_NAMES.get(name, name)].call
        setattr(self, name, value)
        return value

    @staticmethod
    def ones_like(x: Tensor) -> Tensor:
        return constant(np.ones(x.shape, x.dtype), x)

    @staticmethod
    def zeros_like(x: Tensor) -> Tensor:
        return constant(np.zeros(x.shape, x.dtype), x)

    @staticmethod
    def copy(x: Tensor, order: str = "K") -> Tensor:
        return ops["clone"].call(x)

    @staticmethod
    def stop_gradient(x: Tensor) -> Tensor:
        return x.detach()

    @staticmethod
    def scatter_add(shape: tuple[int, ...], index: Any, values: Tensor) -> Tensor:
        return ops["scattered"].call(values, shape, index)

    @staticmethod
    def gate(mask: Tensor, g: Tensor) -> Tensor:
        return ops["where"].call(mask, g, 0.0)

    @staticmethod
    def concat(xs: Any, axis: int = 0) -> Tensor:
        return ops["joined"].call(*xs, dim=axis)


_arrays, _tensors = _Numpy(np), _Tensors()


def namespace(x: Any, y: Any = None, z: Any = None) -> Any:
    """The functions for such operands: Tensors if one of them is a Tensor (numbers go with either)."""
    tensors = isinstance(x, Tensor) or isinstance(y, Tensor) or isinstance(z, Tensor)
    if tensors:
        return _tensors
    if gpu.arrays and any(isinstance(a, gpu.arrays) for a in (x, y, z)):
        return _cupy(gpu.library)
    return _arrays


def value_in_rule(name: str, compute: Any, *args: Any) -> Any:
    """An op's value inside its own rule: `compute(*args)` for arrays; for Tensors the op itself, so that its
    rule is used again for the next order."""
    tensors = any(isinstance(x, Tensor) for x in args)
    return ops[name].call(*args) if tensors else compute(*args)
