"""Views and axes: reshape, permute, expand, cat, stack and split.

All views are built from four primitives: reshape, permute, expand, and `getitem` in indexing.py.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from ..core.arithmetic import broadcast_to, identity
from ..core.costs import zero_flops
from ..core.devices import to_device_of
from ..core.dtypes import result_type
from ..core.errors import OptionError, ShapeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import Tensor, as_tensor, holds_gradient
from .axes import axes_of, axis_of
from .samplers import cases, real

__family__ = "shape"
__exact_in_half__ = True
__all__ = [
    "broadcast_to", "cat", "concat", "concatenate", "expand", "flatten", "permute", "reshape", "split",
    "squeeze", "stack", "swapaxes", "swapdims", "transpose", "unsqueeze",
]  # fmt: skip

_SOME = [(real, 2, 3), (real, 2, 3)]


# ---------------------------------------------------------------- joining


@differentiable(
    public_name="cat",
    samples=cases((real, 2, 3), (real, 1, 3), (real, 2, 3))
    | cases((real, 2, 3), (real, 2, 0), dim=-1)
    | cases((real, 3)),
    latex=r"g_{\text{its part}}",
    flops=zero_flops,
)
def joined(*xs, dim=0):
    """Concatenate tensors along an existing axis."""
    if not all(x.ndim for x in xs):
        raise ShapeError("0-d tensors have no axis to join along.\nUse mg.stack, which adds an axis.")
    dim = axis_of(dim, xs[0].ndim)
    ends = list(itertools.accumulate(x.shape[dim] for x in xs))
    lead = (slice(None),) * dim
    take = lambda start, end: lambda g: g[(*lead, slice(start, end))]
    gradients = tuple([take(s, e) for s, e in zip([0, *ends], ends, strict=False)])
    try:
        return namespace(xs[0]).concat(xs, axis=dim), gradients
    except ValueError:
        _check_joinable([x.shape for x in xs], dim)
        raise


@derived(samples=cases(_SOME) | cases([(real, 2, 3), (real, 2, 1)], -1) | cases([(real, 0), (real, 2, 2)]))
def cat(tensors, dim=0):
    """Concatenate tensors along an existing axis; empty vectors are ignored.

    >>> mg.cat([mg.zeros(2), mg.ones(1)])
    tensor([0., 0., 1.])
    """
    tensors = list(map(as_tensor, tensors))
    filled = [x for x in tensors if x.array.shape != (0,)]
    if not filled or len(filled) == len(tensors):
        return joined(*tensors, dim=dim)
    return joined(*filled, dim=dim).to(result_type(*tensors))


def _check_joinable(shapes, axis):
    first = shapes[0]
    if () in shapes:
        raise ShapeError("0-d tensors have no axis to join along.\nUse mg.stack, which adds an axis.")
    for i, shape in enumerate(shapes):
        if shape != first and (
            len(shape) != len(first) or shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]
        ):
            raise ShapeError(
                f"shapes {first} and {shape} (the first and number {i}) cannot be joined along axis {axis}.\n"
                f"They must be equal in every other axis."
            )


@derived(samples=cases(_SOME) | cases(_SOME, -1) | cases([(real,), (real,)]))
def stack(tensors, dim=0):
    """Stack tensors of the same shape along a new axis.

    >>> mg.stack([mg.zeros(2), mg.ones(2)], dim=1)
    tensor([[0., 1.],
            [0., 1.]])
    """
    tensors = list(map(as_tensor, tensors))
    for x in tensors:
        if x.shape != tensors[0].shape:
            raise ShapeError(
                f"shapes {tensors[0].shape} and {x.shape} cannot be stacked.\nReshape them to equal shapes."
            )
    return joined(*[unsqueeze(x, dim) for x in tensors], dim=dim)


def nested(data, dtype, device):
    """Convert nested lists of tensors and numbers to one tensor, as `mg.tensor` does."""
    if holds_gradient(data) and not isinstance(data, Tensor):
        return stack([nested(x, dtype, device) for x in data])
    return as_tensor(data, dtype, device)


Tensor._nested = staticmethod(nested)


# ---------------------------------------------------------------- splitting


@differentiable(
    view=True,
    samples=cases((real, 5, 2), 2) | cases((real, 2, 3), [1, 2], 1) | cases((real, 2, 3), [1, 0, 1], -2),
    latex=r"\operatorname{cat}(g_1, g_2, \ldots)",
    flops=zero_flops,
)
def split(x, /, split_size, dim=0):
    """Split along an axis into pieces of one length (the last may be shorter), or of several lengths."""
    if not x.ndim:
        raise ShapeError("a 0-d tensor cannot be split.\nAdd an axis: x.reshape(1).")
    dim = dim % x.ndim if type(dim) is int and -x.ndim <= dim < x.ndim else axis_of(dim, x.ndim)
    n = x.shape[dim]
    dtype = x.dtype
    if isinstance(split_size, int):
        if split_size < 1 and (n or split_size < 0):
            raise OptionError(f"split_size must be at least 1, got {split_size}.\nPass a positive integer.")
        step = max(split_size, 1)
        split_size = [step] * (n // step) + [n % step] * (n % step > 0) or [0]
    if sum(split_size) != n or min(split_size, default=0) < 0:
        raise ShapeError(
            f"lengths {list(split_size)} add up to {sum(split_size)}, but axis {dim} has length {n}.\n"
            f"Pass lengths that add up to {n}."
        )
    pieces = []
    shapes = []
    end = 0
    for length in split_size:
        end += length
        pieces.append(x[(*[slice(None)] * dim, slice(end - length, end))])
        shapes.append(pieces[-1].shape)

    def gradient(gs, needs):
        parts = list(gs)
        known = next(filter(lambda g: g is not None, gs))
        for i, shape in enumerate(shapes):
            if gs[i] is None:  # this piece was not used
                parts[i] = to_device_of(np.zeros(shape, dtype), known)
        return (namespace(known).concat(parts, axis=dim),)

    return tuple(pieces), gradient


concat = concatenate = cat  # PyTorch's other names


def sizes_of(shape):
    """Return (2, 3) for the arguments of `x.reshape(2, 3)` and of `x.reshape((2, 3))`."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape


# ---------------------------------------------------------------- another shape


@differentiable(
    public_name="reshape",
    view=True,
    samples=cases((real, 2, 3), (3, 2))
    | cases((real, 2, 3), (-1,))
    | cases((real,), (1, 1))
    | cases((real, 0, 2), (3, 0)),
    latex=r"\operatorname{reshape}(g)",
    flops=zero_flops,
)
def view_as_shape(x, /, shape):
    """Reshape x to another shape with the same number of elements, in row-major order."""
    before = x.shape
    try:
        value = x.reshape(shape)
        if value.shape != shape and min(shape, default=0) < -1:  # to NumPy every negative size is -1
            raise ValueError
        return value, (lambda g: g.reshape(before),)
    except ValueError:
        raise ShapeError(
            f"{math.prod(before)} elements of shape {before} do not fill the shape {tuple(shape)}.\n"
            f"Its sizes must multiply to {math.prod(before)}; one of them may be -1."
        ) from None


@derived(samples=cases((real, 2, 3), 3, 2) | cases((real, 2, 3), (3, -1)) | cases((real, 1), ()))
def reshape(x, *shape):
    """Reshape x to another shape with the same number of elements; one of the sizes may be -1.

    >>> mg.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return view_as_shape(x, sizes_of(shape))


@derived(samples=cases((real, 2, 1, 3, 1)) | cases((real, 2, 1, 1), 1) | cases((real, 1, 2, 1), (0, -1)))
def squeeze(x, dim=None):
    """Remove axes of length 1: all of them, or those in `dim`."""
    if type(dim) is int and -x.ndim <= dim < x.ndim:
        dim %= x.ndim
        return view_as_shape(x, x.shape[:dim] + x.shape[dim + 1 :] if x.shape[dim] == 1 else x.shape)
    axes = axes_of(dim, x.ndim) if dim != () else ()
    return view_as_shape(x, tuple([n for i, n in enumerate(x.shape) if n != 1 or i not in axes]))


@derived(samples=cases((real, 2, 3), 0) | cases((real, 2, 3), -1) | cases((real,), 0))
def unsqueeze(x, dim):
    """Insert an axis of length 1 at `dim`."""
    x = as_tensor(x)
    place = axis_of(dim, x.ndim + 1)
    return view_as_shape(x, (*x.shape[:place], 1, *x.shape[place:]))


@derived(
    samples=cases((real, 2, 3, 2)) | cases((real, 2, 3, 2), 1) | cases((real, 2, 3, 2), 0, 1) | cases((real,))
)
def flatten(x, start_dim=0, end_dim=-1):
    """Flatten the axes from `start_dim` to `end_dim` into one."""
    shape = x.shape
    first = axis_of(start_dim, len(shape))
    last = axis_of(end_dim, len(shape))
    if first > last:
        raise ShapeError(f"start_dim {start_dim} comes after end_dim {end_dim} in shape {shape}.\nSwap them.")
    return view_as_shape(x, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


# ---------------------------------------------------------------- another order of axes


@differentiable(
    public_name="permute",
    view=True,
    samples=cases((real, 2, 1, 3), (2, 0, 1)) | cases((real, 2, 1, 3), (-1, 1, 0)) | cases((real,), ()),
    latex=r"\operatorname{permute}^{-1}(g)",
    flops=zero_flops,
)
def permute_axes(x, /, dims):
    """Reorder the axes: axis i of the result is axis dims[i] of x."""
    permuted = namespace(x).permute_dims
    n = x.ndim
    try:
        value = permuted(x, dims)
    except (ValueError, IndexError):
        raise ShapeError(
            f"dims {tuple(dims)} is not a permutation of the {n} axes of {x.shape}.\nName each axis once."
        ) from None

    def gradient(g):
        back = [0] * n
        for i, d in enumerate(dims):
            back[d] = i
        return permuted(g, back)

    return value, (gradient,)


@derived(samples=cases((real, 2, 1, 3), 2, 0, 1) | cases((real, 2, 3), (-1, 0)))
def permute(x, *dims):
    """Reorder the axes: axis i of the result is axis dims[i] of x."""
    return permute_axes(x, sizes_of(dims))


@differentiable(
    view=True,
    samples=cases((real, 2, 3), 0, 1) | cases((real, 2, 1, 3), 0, -1) | cases((real,), 0, -1),
    latex=r"g^\top",
    flops=zero_flops,
)
def transpose(x, /, dim0, dim1):
    """Swap two axes."""
    n = x.ndim
    dim0, dim1 = axis_of(dim0, n), axis_of(dim1, n)
    if not n:
        return x, (identity,)
    return x.swapaxes(dim0, dim1), (lambda g: g.swapaxes(dim0, dim1),)


# ---------------------------------------------------------------- expanding


@derived(samples=cases((real, 2, 1), 4, -1, 3) | cases((real, 1, 3), (2, -1)))
def expand(x, *size):
    """Expand axes of length 1 to a larger size, without a copy; -1 keeps the size of an axis."""
    sizes = sizes_of(size)
    if -1 not in sizes:
        return broadcast_to(x, sizes)
    new = len(sizes) - x.ndim
    before = x.shape
    return broadcast_to(
        x, tuple([before[i - new] if n == -1 and i >= new else n for i, n in enumerate(sizes)])
    )


# ---------------------------------------------------------------- PyTorch's other names

swapaxes = transpose
swapdims = transpose
