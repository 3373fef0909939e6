"""Numerically stable sums, and sums over broadcast axes.

A small number added to a large sum is rounded away. NumPy sums pairwise along the last axis, so that the
error grows with the logarithm of the length, but naively along other axes and in running sums.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .devices import is_array
from .dtypes import HALF, float32, float64, is_floating
from .errors import GradientShapeError
from .tensor import Tensor

BLOCK = 128  # numbers summed per block, before the sums of blocks are added up


def stable_sum(x: Any, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """x.sum(axis=axes), for non-negative axes: 16-bit floats in float32, NumPy arrays block by block.

    Arrays whose memory is not contiguous are summed in float64. GPU arrays and Tensors use their own `sum`.
    """
    if not isinstance(x, np.ndarray) or x.dtype.char not in "fd":
        if x.dtype in HALF and is_array(x):
            return stable_sum(x.astype(float32), axes, keepdims).astype(x.dtype)
        if is_array(x) and not is_floating(x.dtype):  # keeps the dtype, where NumPy sums uint8 in uint64
            return x.sum(axis=axes, keepdims=keepdims, dtype=x.dtype)
        return x.sum(axis=axes, keepdims=keepdims)
    if x.size <= BLOCK or _is_fine(x, axes):
        return x.sum(axis=axes, keepdims=keepdims)
    order = sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)  # in memory order
    lying = x.transpose(order)
    if not lying.flags.c_contiguous:
        return x.sum(axis=axes, keepdims=keepdims, dtype=float64).astype(x.dtype)
    sizes = list(lying.shape)
    end = x.ndim
    while end:  # adjacent summed axes are merged into one
        start = end - 1
        if order[start] in axes:
            while start and order[start - 1] in axes:
                start -= 1
            lying = column_sums(lying.reshape(prod(sizes[:start]), prod(sizes[start:end]), prod(sizes[end:])))
            sizes[start:end] = [1] * (end - start)
        end = start
    result = lying.reshape(sizes).transpose(np.argsort(order))
    return result if keepdims else result.reshape([n for i, n in enumerate(x.shape) if i not in axes])[()]


def unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum `g`, an array or a Tensor, over the axes along which an operand of `shape` was broadcast."""
    if g.shape == shape:
        return g
    extra = g.ndim - len(shape)
    if extra < 0:
        raise GradientShapeError(tuple(g.shape), shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and g.shape[i + extra] != 1
    )
    if any(n not in (1, m) for n, m in zip(shape, g.shape[extra:], strict=True)):
        raise GradientShapeError(tuple(g.shape), shape)
    if isinstance(g, Tensor):
        return g._sum_to(tuple(shape))
    if not axes:
        return g.reshape(shape)
    return stable_sum(g, axes, keepdims=True).reshape(shape)


def _is_fine(x: np.ndarray, axes: tuple[int, ...]) -> bool:
    """Whether NumPy's sum is accurate, as it adds few numbers or adds pairwise."""
    last = tuple(range(x.ndim - len(axes), x.ndim))
    return prod([x.shape[i] for i in axes]) <= BLOCK or (axes == last and x.flags.c_contiguous)


def column_sums(x: np.ndarray) -> np.ndarray:
    """Sum a contiguous array of floats over axis -2: (..., rows, columns) -> (..., columns).

    A block is a product with a vector of ones, which is faster than NumPy's sum.
    """
    rows, columns = x.shape[-2:]
    if columns == 1:
        return x.sum(axis=-2)  # pairwise
    if x.ndim == 2 and rows <= 8 * BLOCK:
        return ones(rows, x.dtype) @ x
    if rows <= BLOCK:
        return ones(rows, x.dtype) @ x if len(x) == 1 else x.sum(axis=-2)
    whole = rows - rows % BLOCK
    blocks = x[..., :whole, :].reshape(*x.shape[:-2], -1, BLOCK, columns)
    return column_sums(ones(BLOCK, x.dtype) @ blocks) + x[..., whole:, :].sum(axis=-2)


@lru_cache(maxsize=64)
def ones(length: int, dtype: Any) -> np.ndarray:
    """A read-only vector of ones, whose product with a matrix is the sum of its rows."""
    vector = np.ones(length, dtype)
    vector.flags.writeable = False
    return vector
