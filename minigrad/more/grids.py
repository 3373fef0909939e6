"""Coordinate grids, Cartesian products and combinations."""

from __future__ import annotations

import itertools

import numpy as np

from ..core.errors import OptionError, ShapeError
from ..core.op import derived
from ..core.tensor import as_tensor
from ..ops.indexing import getitem
from ..ops.samplers import cases, real
from ..ops.shaping import broadcast_to, stack, view_as_shape
from ..ops.views import ravel

__family__ = "shape"
__exact_in_half__ = True
__all__ = ["cartesian_prod", "combinations", "meshgrid"]


# ---------------------------------------------------------------- grids


@derived(samples=cases((real, 2), (real, 3)) | cases([(real, 2), (real, 3), (real,)], indexing="xy"))
def meshgrid(*tensors, indexing="ij"):
    """Return the coordinates of a grid: tensor i varies along axis i; "xy" swaps the first two axes."""
    if indexing not in ("ij", "xy"):
        raise OptionError(f'indexing must be "ij" or "xy", got {indexing!r}.\nChoose one of them.')
    listed = len(tensors) == 1 and isinstance(tensors[0], tuple | list)
    lines = [as_tensor(x) for x in (tensors[0] if listed else tensors)]
    if not lines:
        raise OptionError("meshgrid needs at least one tensor.\nPass vectors.")
    for i, x in enumerate(lines):
        if x.ndim > 1:
            raise ShapeError(f"meshgrid needs vectors, but tensor {i} has {x.ndim} axes.\nUse x.flatten().")
    lines = [ravel(x) for x in lines]
    order = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        order[:2] = 1, 0
    shape = [lines[i].numel() for i in order]
    stood = lambda i, x: view_as_shape(x, [n if order[d] == i else 1 for d, n in enumerate(shape)])
    return tuple(broadcast_to(stood(i, x), shape) for i, x in enumerate(lines))


@derived(samples=cases((real, 2), (real, 3)) | cases((real, 2)))
def cartesian_prod(*tensors):
    """Return every choice of one element from each vector, as rows."""
    if len(tensors) == 1:
        return as_tensor(tensors[0])
    return stack([ravel(grid) for grid in meshgrid(*tensors)], -1)


@derived(samples=cases((real, 4)) | cases((real, 3), 3, True) | cases((real, 2), 3))
def combinations(x, r=2, with_replacement=False):
    """Return every choice of r elements of a vector, in its order, as rows."""
    x = as_tensor(x)
    if x.ndim != 1 or r < 0:
        raise ShapeError(f"combinations needs a vector and r >= 0, got {x.shape} and {r}.\nUse x.flatten().")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(x.numel()), r)), dtype=np.int64)
    return getitem(x, places.reshape(-1, r) if r else np.zeros(0, np.int64))
