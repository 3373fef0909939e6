"""The memory layout of tensors: the order of axes, gaps, and overlapping elements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..core.devices import address_of
from ..core.tensor import Tensor


def axes_in_memory(tensor: Tensor) -> tuple[int, ...]:
    """The axes of a tensor, the one with the largest step in memory first."""
    strides = tensor.array.strides
    return tuple(sorted(range(len(strides)), key=lambda d: -abs(strides[d])))


def is_dense(tensor: Tensor) -> bool:
    """Whether a tensor's elements fill its memory without gaps."""
    return tensor.array.transpose(axes_in_memory(tensor)).flags.c_contiguous


def overlaps_itself(tensor: Tensor) -> bool:
    """Whether elements of a tensor share memory with each other, as after expand or unfold."""
    array = tensor.array
    steps = sorted((abs(step), n) for step, n in zip(array.strides, array.shape, strict=True) if n > 1)
    reach = 0  # from the first to the last element along the axes with smaller steps
    for step, n in steps:
        if step <= reach or not step:
            break
        reach += step * (n - 1)
    else:
        return False
    if not steps[0][0]:
        return True
    unit = math.gcd(*[step for step, _ in steps])
    used = np.zeros(sum(step // unit * (n - 1) for step, n in steps) + 1, bool)
    as_strided(used, [n for _, n in steps], [step // unit for step, _ in steps])[...] = True
    return int(np.count_nonzero(used)) < array.size


def first_address(tensors: Iterable[Tensor]) -> int:
    """The lowest address of an element of these tensors."""
    addresses = []
    for tensor in tensors:
        array = tensor.array
        backward = sum(min(0, (n - 1) * step) for n, step in zip(array.shape, array.strides, strict=True))
        addresses.append(address_of(array) + backward)
    return min(addresses)


def place_in_memory(tensor: Tensor, first: int, order: tuple[int, ...]) -> dict[str, Any]:
    """The settings with which `strided` takes a tensor from memory that begins at the address `first`."""
    array = tensor.array
    item = tensor.array.itemsize
    stride = tuple(step // item for step in array.strides)
    return {
        "size": array.shape, "stride": stride, "offset": (address_of(array) - first) // item, "order": order
    }  # fmt: skip
