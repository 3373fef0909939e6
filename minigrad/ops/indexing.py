"""Choosing elements: indexing, gather, masks, one-hot vectors, embeddings. Changing them is in scattering.py.

A gradient goes back to where the value came from; what was chosen twice gets both.
"""

from __future__ import annotations

import numpy as np

from ..devices import array_module, as_array, gpu, is_array, plain_number
from ..errors import DtypeError, OptionError, RangeError, ShapeError
from ..tensor import Tensor, array_index, as_tensor
from .axes import axis_of
from .choices import where
from .costs import nothing
from .namespace import namespace
from .op import composite, derived, differentiable
from .samplers import each, mask, real, unary, whole
from .shaping import broadcast_tensors, broadcast_to, ravel, view_as_shape

__family__ = "shape"

__all__ = [
    "argwhere", "gather", "index_select", "masked_fill", "masked_select", "narrow", "nonzero", "one_hot",
    "select", "take", "take_along_dim",
]  # fmt: skip


# ---------------------------------------------------------------- x[...]


@differentiable(
    public_name="x[…]",
    view=True,
    samples=each((real, 2, 3), (slice(None), 1))
    | each((real, 2, 3), (Ellipsis, None, slice(None, None, -2)))
    | each((real, 2, 3), (np.array([0, 1, 0]),))
    | each((real, 2, 3), (np.array([[0], [-1]]), np.array([2, 2])))
    | each((real, 2, 3), (np.array([[True, False, True], [False, False, True]]),)),
    latex=r"\operatorname{scatter}(g)",
    flops=nothing,
)
def getitem(x, /, index):
    """x[index], as NumPy's basic, advanced and boolean indexing; what is chosen twice gets both gradients."""
    shape, xp = x.shape, namespace(x)
    return xp.take(x, index), (lambda g: namespace(g).scatter_add(shape, index, g),)


@derived(samples=each((real, 2, 3), (0, [2, 0, 2])))
def index(x, index):
    """x[index], where indices may be tensors, arrays and lists."""
    return getitem(x, within(own_index(index), x))


def within(index, x):
    """The index, if its places are within the axes of x: NumPy sees to that itself, on a GPU they wrap."""
    if isinstance(x.array, gpu.arrays):
        _refuse_outside(index if type(index) is tuple else (index,), x.shape)
    return index


def _refuse_outside(index, shape):
    axes = [0 if i is None or i is Ellipsis else i.ndim if _is_mask(i) else 1 for i in index]
    place = 0
    for i, number in zip(index, axes, strict=True):
        if i is Ellipsis:
            place += len(shape) - sum(axes)
        elif is_array(i) and not _is_mask(i) and place < len(shape):
            n = shape[place]
            wrong = (i < -n) | (i >= n)
            if wrong.any():
                raise RangeError(outside(i[wrong][0], place, n, -n))
        place += number


def _is_mask(index):
    return is_array(index) and index.dtype == bool


def own_index(index):
    """An index of arrays, slices and numbers; the arrays are copies, which nobody changes later."""
    if type(index) is tuple:
        return tuple([i if type(i) in _PLAIN else own_index(i) for i in index])
    index = index if type(index) in _PLAIN else array_index(index)
    return index.copy() if is_array(index) else index


_PLAIN = {int, slice, type(None), type(Ellipsis)}


@derived(samples=each((real, 2, 3), 1, -1))
def select(x, dim, index):
    """The slice number `index` along an axis."""
    dim = axis_of(dim, x.ndim)
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise RangeError(outside(index, dim, x.shape[dim]))
    return getitem(x, (slice(None),) * dim + (int(index),))


@derived(samples=each((real, 2, 4), 1, 1, 2) | each((real, 3), 0, -2, 2))
def narrow(x, dim, start, length):
    """`length` slices along an axis, from `start` on."""
    dim = axis_of(dim, x.ndim)
    n, first = x.shape[dim], int(start)
    first += n * (first < 0)
    if not 0 <= first <= n or not 0 <= length <= n - first:
        raise RangeError(
            f"{length} elements from {start} on along axis {dim}, which has {n}.\nStay within the axis."
        )
    return getitem(x, (slice(None),) * dim + (slice(first, first + length),))


# ---------------------------------------------------------------- along an axis


def outside(wrong, dim, n, first=None):
    """What is wrong with an index that an axis does not have."""
    from_ = "0" if first is None else str(first)
    return f"index {wrong} along axis {dim}, which has {n} elements.\nThey count from {from_} to {n - 1}."


def whole_numbers(name, ids, count, ignored=None):
    """`ids` as an array of our own, each from 0 to before `count`, or equal to `ignored`."""
    array = _own(ids)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{name} takes whole numbers, got {array.dtype}.\nConvert them with .to('int64').")
    wrong = (array < 0) | (array >= count)
    if ignored is not None:
        wrong &= array != ignored
    if wrong.any():
        raise RangeError(
            f"{name}: {array[wrong][0]} is none of the {count} there are.\nThey count from 0 to {count - 1}."
        )
    return array


def places_along(name, index, x, dim, negative=False):
    """`index` as an array of our own of places along `dim`; counted from the end too, if `negative`."""
    array = _own(index)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DtypeError(
            f"{name} takes an index of whole numbers, got {array.dtype}.\nConvert it with .to('int64')."
        )
    n = x.shape[dim]
    wrong = (array < (-n if negative else 0)) | (array >= n)
    if wrong.any():
        raise RangeError(outside(array[wrong][0], dim, n, -n if negative else None))
    return array


def _own(index):
    """An index as an array of our own."""
    index = array_index(index)
    return array_module(index).array(index, order="C")


def along(name, x, dim, index):
    """x with at least one axis, and the index that picks its element `index` along `dim` and its own place
    along every other axis."""
    if not x.ndim:
        x = view_as_shape(x, (1,))
    dim = axis_of(dim, x.ndim)
    places = places_along(name, index, x, dim)
    places = places if places.ndim else places.reshape(1)
    fits = places.ndim == x.ndim and all(
        m <= n or d == dim for d, (m, n) in enumerate(zip(places.shape, x.shape, strict=True))
    )
    if not fits and places.size:
        raise ShapeError(
            f"an index of shape {places.shape} into shape {x.shape} along axis {dim}.\n"
            f"Give them as many axes; every other axis of the index is at most as long."
        )
    if places.ndim != x.ndim:
        places = np.zeros((0,) * x.ndim, np.int64)
    grid = np.ogrid[tuple(slice(n) for n in places.shape)]
    return x, tuple(places if i == dim else grid[i] for i in range(x.ndim))


@derived(
    samples=each((real, 2, 3), 1, (whole(0, 3), 2, 4))
    | each((real, 2, 3), 0, (whole(0, 2), 1, 3))
    | each((real,), 0, 0),
    latex=r"\sum_{\text{uses}} g",
)
def gather(x, dim, index, *, sparse_grad=False):
    """y[i, j] = x[i, index[i, j]] for dim=1, and so for each axis (torch.gather)."""
    x, at = along("gather", as_tensor(x), dim, index)
    return view_as_shape(getitem(x, at), np.shape(array_index(index)))


@derived(samples=each((real, 2, 3), 1, (whole(0, 3), 4)) | each((real, 2), 0, (whole(0, 2),)))
def index_select(x, dim, index):
    """The elements of `index`, a list of places along `dim`."""
    x = as_tensor(x)
    line = x if x.ndim else view_as_shape(x, (1,))
    dim = axis_of(dim, line.ndim)
    places = places_along("index_select", index, line, dim)
    if places.ndim > 1:
        raise ShapeError(f"an index of shape {places.shape}.\nGive a list of places.")
    chosen = getitem(line, (slice(None),) * dim + (places.reshape(-1),))
    return chosen if x.ndim else view_as_shape(chosen, ())


@derived(samples=each((real, 2, 3), (whole(-6, 6), 2, 2)) | each((real,), 0))
def take(x, index):
    """The elements of x, counted row by row, at `index`: a tensor of the index's shape."""
    line = ravel(as_tensor(x))
    return getitem(line, places_along("take", index, line, 0, negative=True))


@derived(
    samples=each((real, 2, 3), (whole(0, 3), 2, 2), 1)
    | each((real, 2, 1), (whole(0, 2), 1, 3), 0)
    | each((real, 2, 3), (whole(0, 6), 4))
)
def take_along_dim(x, indices, dim=None):
    """`gather`, with the other axes broadcast; without `dim`, elements counted row by row."""
    x = as_tensor(x)
    line, d = (ravel(x), 0) if dim is None else (x, axis_of(dim, x.ndim))
    places = places_along("take_along_dim", indices, line, d, negative=True) % max(line.shape[d], 1)
    if dim is None:
        return gather(line, 0, places.reshape(-1))
    if places.ndim != x.ndim:
        raise ShapeError(f"indices of shape {places.shape} into shape {x.shape}.\nGive them as many axes.")
    with_length = lambda shape, n: (*shape[:d], n, *shape[d + 1 :])
    shape = np.broadcast_shapes(with_length(x.shape, 1), with_length(places.shape, 1))
    places = array_module(places).broadcast_to(places, with_length(shape, places.shape[d]))
    return gather(broadcast_to(x, with_length(shape, x.shape[d])), d, places)


# ---------------------------------------------------------------- masks


def refuse_unless_mask(name, mask):
    if mask.dtype != bool:
        raise DtypeError(f"{name} takes a boolean mask, got {mask.dtype}.\nCompare to get one: mask != 0.")


@differentiable(
    public_name="masked_fill",
    promotes=False,
    samples=each((real, 2, 3), (mask, 2, 3), -2.0)
    | each((real, 2, 3), (mask, 2, 1), 0.0)
    | each((real, 3), (mask, 2, 1), 1.0),
    latex=(r"g\,[\lnot\,\mathrm{mask}]", None),
    flops=nothing,
)
def filled(x, mask, /, value):
    """x with the number `value` where `mask` is True."""
    refuse_unless_mask("masked_fill", mask)
    xp = namespace(x)
    try:
        y = xp.where(mask, x.dtype.type(value), x)
    except ValueError:
        raise ShapeError(
            f"a mask of shape {mask.shape} over shape {x.shape}.\n"
            f"Counted from the last, axes must be equal, or one of them 1."
        ) from None
    return y, (lambda g: xp.gate(xp.logical_not(mask), g), None)


@derived(
    samples=each((real, 2, 3), (mask, 2, 3), -2.0) | each((real, 2, 3), (mask, 3), (real,)),
    latex=(r"g\,[\lnot\,\mathrm{mask}]", None, r"\sum g\,[\mathrm{mask}]"),
)
def masked_fill(x, mask, value):
    """x with `value`, a number or a tensor without axes, where `mask` is True."""
    if not isinstance(value, Tensor):
        return filled(x, mask, value=plain_number(value))
    if value.ndim:
        raise OptionError(
            f"masked_fill takes one number, got shape {value.shape}.\nUse mg.where(mask, value, x)."
        )
    if not value.requires_grad:
        return filled(x, mask, value=value.item())
    x, mask = as_tensor(x), as_tensor(mask)
    refuse_unless_mask("masked_fill", mask)
    return where(mask, value.to(x.dtype), x)


@derived(samples=each((real, 2, 3), (mask, 2, 3)) | each((real, 3), (mask, 2, 1)))
def masked_select(x, mask):
    """The elements of x where `mask` (both broadcast) is True, as a vector."""
    x, mask = broadcast_tensors(x, mask)
    refuse_unless_mask("masked_select", mask)
    return getitem(x, mask.array.copy())


@derived(samples=unary(mask))
def nonzero(x, *, as_tuple=False):
    """The indices of the elements that are not 0: int64 (count, axes), or a vector for each axis."""
    array = as_tensor(x).array
    if as_tuple:
        return tuple(Tensor(places) for places in (array if array.ndim else array.reshape(1)).nonzero())
    return Tensor(array_module(array).argwhere(array))


@derived(samples=unary(mask))
def argwhere(x):
    """The indices of the elements that are not 0: int64 (count, axes)."""
    return nonzero(x)


# ---------------------------------------------------------------- tables


@derived(samples=each((whole(0, 4), 2, 3), 4) | each((whole(0, 4), 3)))
def one_hot(index, num_classes=-1):
    """A row of zeros with a 1 at `index`, for each: int64 (..., num_classes), by default the largest + 1."""
    places = as_array(array_index(index))
    if num_classes == -1:
        if not places.size:
            raise OptionError("no classes can be counted in an empty index.\nGive num_classes.")
        num_classes = int(places.max()) + 1
    places = whole_numbers("one_hot", places, num_classes)
    return Tensor((places[..., None] == array_module(places).arange(num_classes)).astype(np.int64))


@composite(
    promotes=False,
    samples=each((real, 3, 2), (whole(0, 3), 2, 4))
    | each((real, 3, 2), (whole(0, 3),))
    | each((real, 3, 2), (whole(0, 3), 0)),
    latex=(r"\sum_{\text{uses of the row}} g", None),
    flops=nothing,
)
def embedding(weight, ids, /):
    """Row `ids` of `weight` (V, D) for each id: (..., D). Equal to one_hot(ids) @ weight."""
    return getitem(weight, whole_numbers("embedding", ids, weight.shape[0]))
