"""Searches, histograms and distinct values, all without derivatives."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ..core.devices import array_module, as_array, through_cpu
from ..core.dtypes import HALF, result_type, uint8
from ..core.error_context import describe
from ..core.errors import ArgumentError, DtypeError, OptionError, RangeError, ShapeError
from ..core.op import derived
from ..core.tensor import Tensor, as_tensor
from ..ops.axes import as_floating, axis_of
from ..ops.samplers import cases, integers, real

__family__ = "reduction"
__exact_in_half__ = True
__all__ = [
    "bincount", "bucketize", "histc", "histogram", "isin", "searchsorted", "unique", "unique_consecutive",
]  # fmt: skip

_few = integers(0, 4)


# ---------------------------------------------------------------- searches


@derived(samples=cases(np.array([1.0, 3.0, 5.0]), (real, 2, 4)) | cases(np.array([1, 3]), 3, right=True))
def searchsorted(sorted_sequence, values, *, out_int32=False, right=False, side=None, sorter=None):
    """Find the index at which to insert each value into a sorted sequence.

    The index is before equal elements, or after them if `right`. In a sequence with several axes, each row is
    searched for its own row of values.
    """
    sequence = as_tensor(sorted_sequence).array
    values = as_tensor(values).array
    if side not in (None, "left", "right") or (right and side == "left"):
        raise OptionError(f"side must be 'left' or 'right', got {side!r} with right={right}.\nPass only one.")
    if sorter is not None:
        sequence = array_module(sequence).take_along_axis(sequence, as_tensor(sorter).array, -1)
    side = "right" if right or side == "right" else "left"
    if sequence.ndim > 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise ShapeError(
            f"sequences of shape {sequence.shape} do not match values of shape {values.shape}.\n"
            f"Pass a row of values for each sequence, or one sequence for all."
        )
    found = through_cpu(_search, sequence, values, side)
    return as_tensor(as_array(found).astype(np.int32 if out_int32 else np.int64))


def _search(sequence, values, side):
    """Insertion indices into the sequence, or row by row into each."""
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side)
    rows = zip(_rows(sequence), _rows(values), strict=True)
    return np.array([np.searchsorted(row, wanted, side) for row, wanted in rows]).reshape(values.shape)


def _rows(values):
    return values.reshape(int(np.prod(values.shape[:-1])), values.shape[-1])


@derived(samples=cases((real, 2, 4), np.array([-0.5, 0.5])) | cases((real, 3), np.array([0.0]), right=True))
def bucketize(x, boundaries, *, out_int32=False, right=False):
    """Return the index of the bucket between sorted `boundaries` that each element falls into.

    Bucket 0 is below the first boundary. An element equal to a boundary is below it, or above it if `right`.
    """
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


@derived(samples=cases((_few, 2, 3), (_few, 2)) | cases((_few, 4), (_few, 1), invert=True))
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Test whether each element is among the test elements (or, if `invert`, is not)."""
    elements, tests = as_tensor(elements), as_tensor(test_elements)
    dtype = result_type(elements, tests)
    arrays = elements.to(dtype).array, tests.to(dtype).array
    return as_tensor(through_cpu(partial(np.isin, assume_unique=assume_unique, invert=invert), *arrays))


# ---------------------------------------------------------------- counts


@derived(samples=cases((_few, 5)) | cases((_few, 3), np.array([5, 1, 2]), minlength=6))
def bincount(x, weights=None, minlength=0):
    """Count how often each integer from 0 on occurs, or add up its weights."""
    x = as_tensor(x).array
    if x.dtype.kind not in "iu" or x.ndim != 1:
        raise DtypeError(f"bincount needs a vector of integers, got {x.dtype}{list(x.shape)}.\nUse x.long().")
    if x.size and x.min() < 0:
        raise RangeError(f"bincount needs non-negative integers, got {x.min()}.\nRemove or shift them.")
    if weights is None:
        return as_tensor(through_cpu(np.bincount, x, None, minlength).astype(np.int64))
    weights = as_tensor(weights).array
    dtype = np.float32 if weights.dtype == np.float32 else np.float64
    return as_tensor(through_cpu(np.bincount, x, weights, minlength).astype(dtype))


@derived(samples=cases((real, 20), bins=4) | cases((real, 2, 3), 3, -1, 1))
def histc(x, bins=100, min=0, max=0):
    """Count the elements in each of `bins` equal bins from `min` to `max` (0 and 0: the range of x)."""
    x = as_tensor(x)
    data = (x.to(uint8) if x.dtype == bool else x).array
    if min == max:
        min, max = (data.min().item(), data.max().item()) if data.size else (min, max)
        min, max = (min, max) if min != max else (min - 1, max + 1)
    if not min < max:
        raise OptionError(f"min must not exceed max, got {min} and {max}.\nPass finite numbers, min first.")
    hist, _ = through_cpu(np.histogram, _not_half(data[data == data]), bins, (min, max))  # NaN is not counted
    return as_tensor(hist.astype(data.dtype))


def _not_half(data):
    """Convert half precision to float32, in which bins are not rounded."""
    return data.astype(np.float32) if data.dtype in HALF else data


class Histogram(NamedTuple):
    """The content of each bin, and the edges of the bins."""

    hist: Tensor
    bin_edges: Tensor


@derived(
    samples=cases((real, 9), 4, range=(-2, 2))
    | cases((real, 2, 3), bins=np.array([-9.0, 0.0, 9.0]), density=True)
)
def histogram(x, bins: object, *, range=None, weight=None, density=False):
    """Count the elements, or add up their weights, in each bin. Return (hist, bin_edges).

    `bins` is a number of equal bins or their edges. With `density` the histogram integrates to 1.
    """
    if range is not None and not (isinstance(range, tuple | list) and len(range) == 2):
        raise ArgumentError(f"range must be two numbers, got {describe(range)}.\nPass (lowest, highest).")
    data = as_floating(x).array.reshape(-1)
    bins = bins if isinstance(bins, int) else as_tensor(bins).array
    weights = None if weight is None else as_floating(weight).array.reshape(-1)
    limits = (range[0], range[1]) if range else None
    count = lambda data, bins, weights: np.histogram(data, bins, limits, density, weights)
    hist, edges = through_cpu(count, _not_half(data), bins, weights)
    return Histogram(as_tensor(hist.astype(data.dtype)), as_tensor(edges.astype(data.dtype)))


# ---------------------------------------------------------------- distinct values


@derived(samples=cases((_few, 2, 3), return_counts=True) | cases((_few, 4, 1), dim=0))
def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Return the distinct values (or slices along `dim`) in increasing order.

    `return_inverse` adds the index of each element in them, `return_counts` the number of each.
    """
    x = as_tensor(x)
    axis = None if dim is None else axis_of(dim, x.ndim)
    axis = axis if x.ndim else None
    distinct = partial(np.unique, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    values, inverse, counts = through_cpu(distinct, x.array)
    shape = x.shape if axis is None else (x.shape[axis],)
    return _select_results(values, inverse.reshape(shape), counts, return_inverse, return_counts)


@derived(samples=cases((_few, 8), return_counts=True) | cases((_few, 4, 1), dim=0))
def unique_consecutive(x, return_inverse=False, return_counts=False, dim=None):
    """Remove elements (or slices along `dim`) that equal the previous one; settings as in `unique`."""
    x = as_tensor(x)
    axis = 0 if dim is None else axis_of(dim, x.ndim)
    xp = array_module(x.array)
    line = x.array.reshape(-1) if dim is None or not x.ndim else xp.moveaxis(x.array, axis, 0)
    new = xp.ones(len(line), bool)
    new[1:] = (line[1:] != line[:-1]).any(axis=tuple(range(1, line.ndim)))
    starts = xp.flatnonzero(new)
    values = xp.moveaxis(line[starts], 0, axis)
    inverse = (xp.cumsum(new) - 1).reshape(x.shape if dim is None else len(line))
    counts = xp.diff(starts, append=len(line))
    return _select_results(values, inverse, counts, return_inverse, return_counts)


def _select_results(values, inverse, counts, return_inverse, return_counts):
    results = [values, *[inverse] * return_inverse, *[counts] * return_counts]
    return tuple(map(as_tensor, results)) if len(results) > 1 else as_tensor(values)
