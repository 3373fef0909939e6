"""Choosing elements: indexing, gather, masks, one-hot vectors, embeddings.

Gradients go back to the chosen elements; an element that was chosen twice gets the sum.
"""

from __future__ import annotations

import numpy as np

from ..core.composites import composite
from ..core.costs import zero_flops
from ..core.devices import CPU, array_module, is_array
from ..core.dtypes import plain_number
from ..core.errors import DtypeError, OptionError, RangeError, ShapeError, counted
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import Tensor, as_tensor
from .axes import axis_of
from .comparisons import where
from .indices import array_index, as_index_array, is_mask
from .samplers import cases, integers, mask, real
from .shaping import view_as_shape

__family__ = "shape"
__exact_in_half__ = True
__all__ = ["gather", "masked_fill"]


# ---------------------------------------------------------------- x[...]


@differentiable(
    public_name="x[…]",
    view=True,
    samples=cases((real, 2, 3), (slice(None), 1))
    | cases((real, 2, 3), (Ellipsis, None, slice(None, None, -2)))
    | cases((real, 2, 3), (np.array([0, 1, 0]),))
    | cases((real, 2, 3), (np.array([[0], [-1]]), np.array([2, 2])))
    | cases((real, 2, 3), (np.array([[True, False, True], [False, False, True]]),)),
    latex=r"\operatorname{scatter}(g)",
    flops=zero_flops,
)
def getitem(x, /, index):
    """x[index], with NumPy's basic, advanced and boolean indexing; gradients of repeated elements add up."""
    shape = x.shape
    xp = namespace(x)
    return xp.take(x, index), (lambda g: namespace(g).scatter_add(shape, index, g),)


@derived(samples=cases((real, 2, 3), (0, [2, 0, 2])))
def index(x, index):
    """x[index] as in PyTorch: an integer beside index arrays selects a slice first, and uint8 is a mask."""
    return getitem(x, checked_index(array_index(index, x.array.shape), x))


def checked_index(index, x):
    """Check an index against the shape of x, and return it. NumPy checks indices itself, CuPy wraps them."""
    if x.device != CPU:
        _check_indices(index if type(index) is tuple else (index,), x.shape)
    return index


def _check_indices(index, shape):
    axes = [0 if i is None or i is Ellipsis else i.ndim if is_mask(i) else 1 for i in index]
    place = 0
    for i, number in zip(index, axes, strict=True):
        if i is Ellipsis:
            place += len(shape) - sum(axes)
        elif is_array(i) and not is_mask(i) and place < len(shape):
            n = shape[place]
            wrong = (i < -n) | (i >= n)
            if wrong.any():
                raise RangeError(out_of_range(i[wrong][0], place, n, -n))
        place += number


# ---------------------------------------------------------------- along an axis


def out_of_range(wrong, dim, n, first=None):
    """The message for an index that is out of range."""
    from_ = "0" if first is None else str(first)
    held = counted(n, "element")
    return f"index {wrong} is out of range for axis {dim} with {held}.\nUse {from_} to {n - 1}."


def checked_ids(name, ids, count, ignored=None):
    """Return a copy of `ids` as an array; raise an error unless all are in [0, count) or `ignored`."""
    array = _copy_index(ids)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{name} must be integers, got {array.dtype}.\nConvert them with .long().")
    wrong = (array < 0) | (array >= count)
    if ignored is not None:
        wrong &= array != ignored
    if wrong.any():
        raise RangeError(f"{name}: {array[wrong][0]} is out of range.\nPass integers from 0 to {count - 1}.")
    return array


def checked_places(name, index, x, dim, negative=False):
    """Return a copy of `index` as an array; raise an error unless all are positions along `dim`.

    If `negative` is True, positions may count from the end.
    """
    array = _copy_index(index)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{name} takes an index of integers, got {array.dtype}.\nConvert it with .long().")
    n = x.shape[dim]
    wrong = (array < (-n if negative else 0)) | (array >= n)
    if wrong.any():
        raise RangeError(out_of_range(array[wrong][0], dim, n, -n if negative else None))
    return array


def _copy_index(index):
    """A copy of an index as an array."""
    index = as_index_array(index)
    return array_module(index).array(index, order="C")


def gather_index(name, x, dim, index):
    """Return x with at least one axis, and NumPy's index for `gather`: positions `index` along `dim`, and the
    same position along other axes."""
    if not x.ndim:
        x = view_as_shape(x, (1,))
    dim = axis_of(dim, x.ndim)
    places = checked_places(name, index, x, dim)
    places = places if places.ndim else places.reshape(1)
    fits = places.ndim == x.ndim and all(
        m <= n or d == dim for d, (m, n) in enumerate(zip(places.shape, x.shape, strict=True))
    )
    if not fits and places.size:
        raise ShapeError(
            f"{name} got an index of shape {places.shape} for shape {x.shape} along axis {dim}.\n"
            f"Pass one with the same number of axes, none of the others longer than x's."
        )
    if places.ndim != x.ndim:
        places = np.zeros((0,) * x.ndim, np.int64)
    grid = np.ogrid[tuple(slice(n) for n in places.shape)]
    return x, tuple(places if i == dim else grid[i] for i in range(x.ndim))


@derived(
    samples=cases((real, 2, 3), 1, (integers(0, 3), 2, 4))
    | cases((real, 2, 3), 0, (integers(0, 2), 1, 3))
    | cases((real,), 0, 0),
    latex=r"\sum_{\text{uses}} g",
)
def gather(x, dim, index, *, sparse_grad=False):
    """Gather elements along an axis: y[i, j] = x[i, index[i, j]] for dim=1 (torch.gather).

    >>> logits = mg.tensor([[0.1, 0.9], [0.8, 0.2]])
    >>> logits.gather(1, mg.tensor([[1], [0]]))
    tensor([[0.9000],
            [0.8000]])
    """
    x, at = gather_index("gather", as_tensor(x), dim, index)
    return view_as_shape(getitem(x, at), as_index_array(index).shape)


# ---------------------------------------------------------------- masks


def check_mask_dtype(name, mask):
    if mask.dtype != bool:
        raise DtypeError(f"{name} needs a boolean mask, got {mask.dtype}.\nUse mask != 0.")


@differentiable(
    public_name="masked_fill",
    promotes=False,
    samples=cases((real, 2, 3), (mask, 2, 3), -2.0)
    | cases((real, 2, 3), (mask, 2, 1), 0.0)
    | cases((real, 3), (mask, 2, 1), 1.0),
    latex=(r"g\,[\lnot\,\mathrm{mask}]", None),
    flops=zero_flops,
)
def filled(x, mask, /, value):
    """A copy of x with the number `value` where `mask` is True."""
    check_mask_dtype("masked_fill", mask)
    xp = namespace(x)
    try:
        y = xp.where(mask, x.dtype.type(value), x)
    except ValueError:
        raise ShapeError(
            f"a mask of shape {mask.shape} does not broadcast with shape {x.shape}.\n"
            f"From the last axis on, lengths must be equal, or one of them 1."
        ) from None
    return y, (lambda g: xp.where(mask, xp.zeros_like(g), g), None)


@derived(
    samples=cases((real, 2, 3), (mask, 2, 3), -2.0) | cases((real, 2, 3), (mask, 3), (real,)),
    latex=(r"g\,[\lnot\,\mathrm{mask}]", None, r"\sum g\,[\mathrm{mask}]"),
)
def masked_fill(x, mask, value):
    """A copy of x with `value`, a number or a 0-d tensor, where `mask` is True.

    >>> scores = mg.tensor([1.0, 2.0, 3.0])
    >>> scores.masked_fill(mg.tensor([False, False, True]), float("-inf"))
    tensor([  1.,   2., -inf])
    """
    if not isinstance(value, Tensor):
        return filled(x, mask, value=plain_number(value))
    if value.ndim:
        raise OptionError(
            f"masked_fill takes one number, got shape {value.shape}.\nUse mg.where(mask, value, x)."
        )
    if not value.requires_grad:
        return filled(x, mask, value=value.item())
    x, mask = as_tensor(x), as_tensor(mask)
    check_mask_dtype("masked_fill", mask)
    return where(mask, value.to(x.dtype), x)


# ---------------------------------------------------------------- embeddings


@composite(
    exact_in_half=True,
    promotes=False,
    samples=cases((real, 3, 2), (integers(0, 3), 2, 4))
    | cases((real, 3, 2), (integers(0, 3),))
    | cases((real, 3, 2), (integers(0, 3), 0)),
    latex=(r"\sum_{\text{uses of the row}} g", None),
    flops=zero_flops,
)
def embedding(weight, ids, /):
    """Look up rows of `weight` (V, D) by ids (...): (..., D), equal to one_hot(ids) @ weight.

    The gradient of a row is the sum over its uses.
    """
    if weight.ndim != 2:
        raise ShapeError(f"weight must be a matrix, got shape {weight.shape}.\nIt has a row for each id.")
    return getitem(weight, checked_ids("embedding", ids, weight.shape[0]))


def raise_id_error(wrong, rows):
    """Raise the error for an id out of range; also called by kernels."""
    raise RangeError(
        f"id {wrong} is out of range for an embedding with {rows} rows.\n"
        f"Ids count from 0. Use the model's tokenizer, or a larger vocab_size."
    )
