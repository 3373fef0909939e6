"""Additions to `namespace(x)`: what NumPy lacks or does differently from PyTorch, and ops whose name differs
from the library's function."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.devices import array_module
from ..core.dtypes import HALF, float32
from ..core.namespace import provide_for_arrays, provide_for_tensors
from .activations import logistic
from .indexing import getitem
from .indices import is_basic
from .masks import where
from .repeat_and_flip import reversed_along
from .scattering import scattered
from .shaping import joined, permute_axes, transpose
from .special_functions import erf, erfc, logaddexp, power, sigmoid


def sign(x: Any) -> Any:
    """-1, 0 or 1; 0 for NaN, as in PyTorch (NumPy returns NaN)."""
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def take(x: Any, index: Any) -> Any:
    """x[index], always as an array."""
    value = x[index]
    if isinstance(value, np.generic):  # a scalar is a copy; with `...` the result is a 0-d view
        return x[(*index, ...) if isinstance(index, tuple) else (index, ...)]
    return value


def scatter_add(shape: tuple[int, ...], index: Any, values: Any) -> Any:
    """zeros(shape) with `values` added at `index`; repeated indices add up."""
    xp = array_module(values)
    if is_basic(index):
        out = xp.zeros(shape, values.dtype)
        out[index] = values
        return out
    wide = float32 if values.dtype in HALF else values.dtype
    out = xp.zeros(shape, wide)
    xp.add.at(out, index, values.astype(wide, copy=False))
    return out.astype(values.dtype, copy=False)


def replaced(x: Any, values: Any, index: Any) -> Any:
    """A copy of x with `values` at `index`; for repeated indices, the last one wins."""
    out = array_module(x).array(x)
    out[index] = values
    return out


provide_for_arrays(
    erf=erf, erfc=erfc, logaddexp=logaddexp, power=power, replaced=replaced,
    scatter_add=scatter_add, sigmoid=sigmoid, sign=sign, take=take, where=where,
)  # fmt: skip

provide_for_tensors(
    concat=lambda xs, axis=0: joined(*xs, dim=axis),
    flip=reversed_along,
    permute_dims=permute_axes,
    scatter_add=lambda shape, index, values: scattered(values, shape, index),
    sigmoid=logistic,  # with a more accurate derivative
    swapaxes=transpose,
    take=getitem,
)
