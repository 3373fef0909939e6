"""Changing selected elements, out of place: scatter, index_add, index_put and their variants.

All are built from two primitives: `replaced` writes values, `scattered` adds them to zeros.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..core.costs import zero_flops
from ..core.devices import array_module, is_array, on_cpu, through_cpu, to_device_of
from ..core.dtypes import is_floating, uint8
from ..core.errors import ArgumentError, DtypeError, OptionError, ShapeError, counted
from ..core.half import round_once
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import Tensor, as_tensor
from .axes import axis_of
from .creation import full, ones
from .indexing import check_mask_dtype, checked_index, checked_places, gather_index, getitem, out_of_range
from .indices import array_index, is_basic
from .samplers import cases, integers, mask, real
from .shaping import broadcast_to, view_as_shape
from .statistics import prod
from .views import broadcast_tensors, ravel

__family__ = "shape"
__exact_in_half__ = True
__all__ = [
    "fill", "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "masked_scatter", "put",
    "scatter", "scatter_add", "scatter_reduce", "select_scatter", "slice_scatter",
]  # fmt: skip

_TWICE = (np.array([0, 3, 0]), np.array([1, 0, 1]))  # one element occurs twice


# ---------------------------------------------------------------- the primitives


@differentiable(
    samples=cases((real, 3), (4, 2), _TWICE) | cases((real, 2, 2), (3, 2), (slice(1, 3),)),
    latex=r"g[\mathrm{index}]",
    flops=zero_flops,
)
def scattered(x, /, shape, index):
    """zeros(shape) with x added at `index`: the gradient of x[index]."""
    return namespace(x).scatter_add(shape, index, x), (lambda g: namespace(g).take(g, index),)


@differentiable(
    samples=cases((real, 4, 2), (real, 3), _TWICE)
    | cases((real, 3, 2), (real, 2), (slice(1, 3),))
    | cases((real, 2), 1.0, 0),
    latex=(r"g\ \text{with 0 at the index}", r"g[\mathrm{index}]"),
    flops=zero_flops,
)
def replaced(x, values, /, index):
    """A copy of x with `values` (broadcast) at `index`; of several values for one element the last is used,
    and only that one has a gradient."""
    shape = x.shape

    def of_values(g):
        g = namespace(g).take(g, index)
        stays = _last(shape, index)
        return g if stays is None else namespace(g).where(to_device_of(stays, g), g, 0.0)

    return namespace(x, values).replaced(x, values, index), (
        lambda g: namespace(g).replaced(g, 0.0, index),
        of_values,
    )


def _last(shape, index):
    """Whether each element of x[index] is the last that refers to its element of x; None if all are."""
    if is_basic(index) or (is_array(index) and index.dtype.kind == "b"):
        return None
    index = tuple(map(on_cpu, index)) if isinstance(index, tuple) else on_cpu(index)
    ranks = np.empty(shape, np.int64)
    order = np.arange(ranks[index].size).reshape(ranks[index].shape)
    ranks[index] = order
    return ranks[index] == order


def _of_dtype(x, values):
    """Convert a number to a tensor of x's dtype; a tensor must already have that dtype."""
    if isinstance(values, int | float):
        return values if x.is_floating_point() else as_tensor(values, dtype=x.dtype)
    values = as_tensor(values)
    if values.dtype != x.dtype:
        raise DtypeError(
            f"values must have dtype {x.dtype}, got {values.dtype}.\nConvert them: .to({str(x.dtype)!r})."
        )
    return values


# ---------------------------------------------------------------- along an axis


def _region(src, at):
    """The part of src that a scatter's index covers."""
    shape = np.broadcast_shapes(*[places.shape for places in at])
    if src.ndim != len(shape):
        src = view_as_shape(src, (1,) * len(shape)) if src.numel() == 1 else src
    if src.ndim != len(shape) or any(m > n for m, n in zip(shape, src.shape, strict=True)):
        raise ShapeError(
            f"src must be at least as large as the index {shape}, got shape {src.shape}.\nPass a larger src."
        )
    return src if src.shape == shape else getitem(src, tuple(slice(n) for n in shape))


def _scatter(name, x, dim, index, src):
    """Return the operands of a scatter: x with at least one axis, NumPy's index, the covered part of src."""
    x = as_tensor(x)
    number = isinstance(src, int | float)
    src = _of_dtype(x, src)
    line, at = gather_index(name, x, dim, index)
    return line, at, src if number else _region(src, at)


_SPOTS = (integers(0, 3), 2, 4)  # more indices than the axis has elements


@derived(
    samples=cases((real, 2, 3), 1, _SPOTS, (real, 2, 4))
    | cases((real, 2, 3), 0, (integers(0, 2), 1, 3), value=2.0)
)
def scatter(x, dim, index, src=None, *, value=None, reduce=None):
    """Write src into a copy of x: y[i, index[i, j]] = src[i, j] for dim=1; src may be a number.

    `reduce` "add" or "multiply" combines with x's elements (see scatter_add and scatter_reduce).
    """
    src = value if src is None else src
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise OptionError(
                f'reduce must be None, "add" or "multiply", got {reduce!r}.\nSee scatter_reduce for others.'
            )
        src = src if isinstance(src, Tensor) else full(as_tensor(index).shape, src, x.dtype, x.device)
        return scatter_reduce(x, dim, index, src, "sum" if reduce == "add" else "prod")
    line, at, src = _scatter("scatter", x, dim, index, src)
    return view_as_shape(replaced(line, src, at), x.shape)


@derived(samples=cases((real, 2, 3), 1, _SPOTS, (real, 2, 4)), latex=("g", None, r"g[\mathrm{index}]"))
def scatter_add(x, dim, index, src):
    """Add src to a copy of x: y[i, index[i, j]] += src[i, j] for dim=1."""
    line, at, src = _scatter("scatter_add", x, dim, index, src)
    return view_as_shape(_add_at(line, src, at), x.shape)


@round_once
def _add_at(x, values, at):
    """A copy of x with `values` added at the index `at`."""
    return x + scattered(values, x.shape, at)


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@derived(
    samples=cases((real, 2, 3), 1, _SPOTS, (real, 2, 4), "sum", include_self=False)
    | cases((real, 2, 3), 1, _SPOTS, (real, 2, 4), "mean")
    | cases((real, 2, 3), 1, _SPOTS, (real, 2, 4), "prod")
    | cases((real, 2, 3), 1, _SPOTS, (real, 2, 4), "amax", include_self=False)
    | cases((real, 2, 3), 0, (integers(0, 2), 2, 3), (real, 2, 3), "amin")
)
def scatter_reduce(x, dim, index, src, reduce, *, include_self=True):
    """Reduce each element of x with the elements of src that `scatter` would write there.

    `reduce` is "sum", "prod", "mean", "amax" or "amin". If `include_self` is False, x's own element is
    ignored if there is another. Equal extremes share the gradient.
    """
    if reduce not in _REDUCTIONS:
        raise OptionError(f"reduce must be one of {', '.join(_REDUCTIONS)}, got {reduce!r}.\nChoose one.")
    line, at, src = _scatter("scatter_reduce", x, dim, index, src)
    return view_as_shape(_reduce_at(line, src, at, reduce, include_self), x.shape)


@round_once
def _reduce_at(x, src, at, reduce, include_self):
    if x.dtype == bool:  # booleans are reduced as numbers: True is 1
        if reduce == "mean":
            raise DtypeError("reduce=\"mean\" does not take booleans.\nConvert them: .to('float32').")
        return _reduce_at(x.to(uint8), src.to(uint8), at, reduce, include_self).to(bool)
    neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": _least(x.dtype), "amin": _greatest(x.dtype)}[reduce]
    if not include_self:
        x = replaced(x, neutral, at)
    if reduce == "prod":
        return _products(x, src, at)
    if reduce in ("amax", "amin"):
        return extreme(x, src, at, reduce == "amax")
    total = x + scattered(src, x.shape, at)
    if reduce == "sum":
        return total
    counts = full(x.shape, int(include_self), device=x.device)
    count = (counts + scattered(ones(src.shape, dtype="int64", device=x.device), x.shape, at)).clamp(1)
    return total / count if total.is_floating_point() else (total // count).to(x.dtype)


def _least(dtype):
    return -np.inf if is_floating(dtype) else np.iinfo(dtype).min


def _greatest(dtype):
    return np.inf if is_floating(dtype) else np.iinfo(dtype).max


@differentiable(
    samples=cases((real, 4, 2), (real, 3), _TWICE, True) | cases((real, 4, 2), (real, 3), _TWICE, False),
    latex=(r"\frac{g}{n}\,[x = y]", r"\frac{g}{n}\,[\mathrm{values} = y]"),
)
def extreme(x, values, /, index, largest):
    """Each element of x, or a larger (or smaller) value at its index; n equal ones share the gradient."""
    x, values = _plain(x), _plain(values)
    y = through_cpu(partial(_extreme, largest=largest), x, values, *_indices(index))
    mine = x == y
    theirs = values == y[index]
    xp = namespace(y)
    n = mine.astype(y.dtype) + xp.scatter_add(x.shape, index, theirs.astype(y.dtype))
    n = xp.maximum(n, 1)
    return y, (
        lambda g: namespace(g).where(mine, g / n, 0.0),
        lambda g: namespace(g).where(theirs, namespace(g).take(g / n, index), 0.0),
    )


def _indices(index):
    return index if isinstance(index, tuple) else (index,)


def _extreme(x, values, *index, largest):
    y = x.copy()
    (np.maximum if largest else np.minimum).at(y, index, values)
    return y


def _plain(x):
    return x.array if isinstance(x, Tensor) else x


def _products(x, src, at):
    """Each element of x times the elements of src at its index, computed from a table of factors."""
    shape = x.shape
    place = np.arange(x.numel()).reshape(shape)[tuple(map(on_cpu, at))].reshape(-1)
    order = np.argsort(place, kind="stable")
    ranked = place[order]
    starts = np.searchsorted(ranked, ranked)
    column = np.arange(len(ranked)) - starts + 1  # column 0 has x's own elements
    table = ones(x.numel(), int(column.max(initial=0)) + 1, dtype=x.dtype, device=x.device)
    table = replaced(table, ravel(x), (slice(None), 0))
    table = replaced(table, getitem(ravel(src), order), (ranked, column))
    return view_as_shape(prod(table, 1).to(x.dtype), shape)


def _slices(name, x, dim, index, source, negative=False):
    """Return the operands of index_add and others: x with at least one axis, NumPy's index, the source."""
    x = as_tensor(x)
    line = x if x.ndim else view_as_shape(x, (1,))
    dim = axis_of(dim, line.ndim)
    places = checked_places(name, index, line, dim, negative).reshape(-1)
    source = _of_dtype(x, source)
    if isinstance(source, Tensor) and source.ndim + (not source.ndim) == line.ndim:
        source = source if source.ndim else view_as_shape(source, (1,))
        expected = (*line.shape[:dim], len(places), *line.shape[dim + 1 :])
        if source.shape != expected:
            raise ShapeError(f"source must have shape {expected}, got {source.shape}.\nPass that shape.")
    elif isinstance(source, Tensor):
        raise ShapeError(
            f"source must have {counted(line.ndim, 'axis', 'axes')}, got shape {source.shape}.\nReshape it."
        )
    return line, (slice(None),) * dim + (places,), source


_ROWS = (integers(0, 3), 2)


@derived(samples=cases((real, 2, 3), 1, _ROWS, (real, 2, 2)) | cases((real, 3), 0, _ROWS, (real, 2), alpha=2))
def index_add(x, dim, index, source, *, alpha=1):
    """Add alpha times slice i of `source` to slice index[i] of a copy of x, along `dim`."""
    line, at, source = _slices("index_add", x, dim, index, source)
    return view_as_shape(_add_scaled_at(line, source, at, alpha), x.shape)


@round_once
def _add_scaled_at(x, source, at, alpha):
    return _add_at(x, source if alpha == 1 else (source * alpha).to(x.dtype), at)


@derived(samples=cases((real, 3, 2), 0, _ROWS, (real, 2, 2)))
def index_copy(x, dim, index, source):
    """Write the slices of `source` to the slices `index` of a copy of x, along `dim`."""
    line, at, source = _slices("index_copy", x, dim, index, source)
    return view_as_shape(replaced(line, source, at), x.shape)


@derived(samples=cases((real, 2, 3), 1, _ROWS, 2.0) | cases((real, 2, 3), 1, np.array([-1, 0]), (real,)))
def index_fill(x, dim, index, value):
    """Write `value`, a number or a 0-d tensor, to the slices `index` of a copy of x, along `dim`."""
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(f"value must be one number, got shape {value.shape}.\nFor tensors use index_copy.")
    x = as_tensor(x)
    value = value.to(x.dtype) if isinstance(value, Tensor) else _of_dtype(x, value)
    line = x if x.ndim else view_as_shape(x, (1,))
    dim = axis_of(dim, line.ndim)
    at = (slice(None),) * dim + (checked_places("index_fill", index, line, dim, True).reshape(-1),)
    return view_as_shape(replaced(line, value, at), x.shape)


@derived(
    samples=cases((real, 2, 3), 1, _ROWS, (real, 2, 2), "prod")
    | cases((real, 2, 3), 1, _ROWS, (real, 2, 2), "mean", include_self=False)
    | cases((real, 3), 0, _ROWS, (real, 2), "amax")
)
def index_reduce(x, dim, index, source, reduce, *, include_self=True):
    """Reduce slice index[i] of x with slice i of `source`, by "prod", "mean", "amax" or "amin"."""
    line, at, source = _slices("index_reduce", x, dim, index, source)
    places = at[-1].reshape(-1, *(1,) * (line.ndim - len(at)))
    return view_as_shape(
        scatter_reduce(
            line,
            len(at) - 1,
            array_module(places).broadcast_to(places, source.shape),
            source,
            reduce,
            include_self=include_self,
        ),
        x.shape,
    )


# ---------------------------------------------------------------- other indices


@derived(
    samples=cases((real, 2, 3), [np.array([0, 1, 0]), np.array([2, 0, 2])], (real, 3), accumulate=True)
    | cases((real, 2, 3), [np.array([1, -1])], (real, 3))
)
def index_put(x, indices, values, accumulate=False):
    """Write x[indices] = values in a copy of x; with `accumulate`, add instead, also for repeated indices."""
    x = as_tensor(x)
    if not isinstance(indices, tuple | list):
        raise ArgumentError(
            f"indices must be a tuple of tensors, got {type(indices).__name__}.\nPass (indices,)."
        )
    at = checked_index(array_index(tuple(indices), x.shape), x)
    values = _of_dtype(x, values)
    shape = x.array[at].shape
    if isinstance(values, Tensor):
        values = broadcast_to(values, shape)
    if not accumulate:
        return replaced(x, values, at)
    return _add_at(x, broadcast_to(as_tensor(values, dtype=x.dtype), shape), at)


@derived(samples=cases((real, 2, 3), _ROWS, (real, 2)) | cases((real, 2, 3), _ROWS, (real, 2), True))
def put(x, index, source, accumulate=False):
    """Write `source`, or with `accumulate` add it, to a copy of x, at indices of the flattened x."""
    x = as_tensor(x)
    line = ravel(x)
    places = checked_places("put", index, line, 0, negative=True)
    if places.size != source.numel():
        raise ShapeError(f"put needs {places.size} values, got {source.numel()}.\nPass one for each index.")
    values = view_as_shape(source, places.shape)
    return view_as_shape(index_put(line, (places,), values, accumulate), x.shape)


@derived(samples=cases((real, 2, 3), (mask, 2, 3), (real, 6)) | cases((real, 3), (mask, 2, 1), (real, 2, 4)))
def masked_scatter(x, mask, source):
    """Write the elements of `source`, in order, to a copy of x where `mask` is True."""
    x, mask = broadcast_tensors(x, mask)
    check_mask_dtype("masked_scatter", mask)
    source = _of_dtype(x, source)
    count = int(mask.array.sum())
    if source.numel() < count:
        raise ShapeError(f"source needs at least {count} elements, got {source.numel()}.\nPass more.")
    return replaced(x, getitem(ravel(source), slice(count)), mask.array.copy())


@derived(samples=cases((real, 2, 3), (real, 2), 1, -1))
def select_scatter(x, src, dim, index: int):
    """Return a copy of x with `src` as slice `index` along an axis."""
    dim = axis_of(dim, x.ndim)
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise ShapeError(out_of_range(index, dim, x.shape[dim]))
    return _write_region(x, src, (slice(None),) * dim + (index,))


@derived(samples=cases((real, 2, 5), (real, 2, 2), 1, 1, 5, 2) | cases((real, 3), (real, 2), end=-1))
def slice_scatter(x, src, dim=0, start=None, end=None, step=1):
    """Write x[start:end:step] = src along an axis of a copy of x."""
    return _write_region(x, src, (slice(None),) * axis_of(dim, x.ndim) + (slice(start, end, step),))


def _write_region(x, src, at):
    expected = x.array[at].shape
    if src.shape != expected:
        raise ShapeError(f"src must have shape {expected}, got {src.shape}.\nPass that shape.")
    return replaced(x, as_tensor(src).to(x.dtype), at)


@derived(samples=cases((real, 2, 3), 2.0) | cases((real, 2), (real,)))
def fill(x, value):
    """Return a tensor like x filled with `value`, a number or a 0-d tensor."""
    x = as_tensor(x)
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(f"value must be one number, got shape {value.shape}.\nPass a number.")
    value = value.to(x.dtype) if isinstance(value, Tensor) else _of_dtype(x, value)
    return replaced(x, value, Ellipsis)
