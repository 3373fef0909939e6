"""The meaning of `x[index]`: converts PyTorch's indices to NumPy's.

They differ for integers or `...` beside index arrays. In PyTorch an integer chooses a slice before the arrays
are applied; in NumPy it counts as an array, which may move their axes to the front: x[0, :, [1, 2]] of shape
(3, 4, 5) is (4, 2) for a tensor, and (2, 4) for an array.
"""

from __future__ import annotations

from operator import index as as_int
from typing import Any

import numpy as np

from ..core.devices import CPU, array_module, device_of, is_array
from ..core.errors import DtypeError, OptionError, RangeError
from ..core.frames import warn
from ..core.tensor import from_other_library

_PLAIN = {int, type(None), type(Ellipsis)}
_BASIC = {slice, *_PLAIN}
_BOUND = {int, type(None)}


def is_basic(index: Any) -> bool:
    """Whether an index names each element at most once (no index arrays)."""
    items = index if isinstance(index, tuple) else (index,)
    return all(isinstance(i, int | np.integer | slice | type(None) | type(Ellipsis)) for i in items)


def array_index(index: Any, shape: tuple[int, ...]) -> Any:
    """The NumPy index for an array of this shape that does what `x[index]` does in PyTorch.

    Its arrays are copies. An array of uint8 is a mask, as in PyTorch.
    """
    if type(index) is list and _is_tuple(index):
        warn("x[[a, b]] of lists, slices or tensors is x[a, b], as in PyTorch: write that")
        index = tuple(index)
    if not isinstance(index, tuple):
        return index if type(index) in _PLAIN else _slice(index) if type(index) is slice else _item(index)
    if _BASIC.issuperset(map(type, index)):
        return tuple([_slice(i) if type(i) is slice else i for i in index])
    items = tuple([i if type(i) in _PLAIN else _slice(i) if type(i) is slice else _item(i) for i in index])
    kinds = set(map(type, items))
    if kinds <= _BASIC or not kinds & {int, type(Ellipsis)}:
        return items
    return _with_axes_of_pytorch(items, shape)


def as_index_array(index: Any) -> Any:
    """Convert a tensor, a list or a number to an array; empty lists become integers."""
    array = getattr(index, "array", index)
    if is_array(array):
        return array
    try:
        array = np.asarray(from_other_library(index))
    except ValueError:
        raise RangeError(f"the index {index!r} is not an array.\nPass nested lists of one shape.") from None
    return array if array.size or array.dtype.kind != "f" else array.astype(np.int64)


def _is_tuple(items: list) -> bool:
    """Whether PyTorch reads a list as a tuple (as NumPy once did)."""
    one_each = (slice, list, tuple, range, type(None), type(Ellipsis), np.ndarray)
    is_one = lambda i: isinstance(from_other_library(i), one_each) or hasattr(i, "array")
    return len(items) < 32 and any(type(i) is not int and is_one(i) for i in items)


def _slice(i: slice) -> slice:
    """Convert the bounds of a slice to integers, and check its step."""
    if i.step is None and type(i.start) in _BOUND and type(i.stop) in _BOUND:
        return i
    if not {type(i.start), type(i.stop), type(i.step)} <= _BOUND:
        try:
            i = slice(*[None if n is None else as_int(n) for n in (i.start, i.stop, i.step)])
        except TypeError:
            raise DtypeError(f"the bounds of {i} must be integers or None.\nUse int().") from None
    if i.step is not None and i.step <= 0:
        raise OptionError(
            f"a slice's step must be positive, as in PyTorch, got {i.step}.\nGo backward with x.flip(dim)."
        )
    return i


def _item(i: Any) -> Any:
    """Convert an item of an index (not a slice) to an integer, a boolean, or an array, which is a copy."""
    array = as_index_array(i)
    if array.dtype.kind not in "iub" or isinstance(i, float | str | bytes):
        raise RangeError(
            f"an index cannot be {array.dtype if array.dtype.kind != 'O' else type(i).__name__}.\n"
            f"Index with integers, slices, None, ..., arrays or lists of integers (.long()), or masks."
        )
    if array.dtype == np.uint8 and not isinstance(i, np.integer):
        warn("an index of uint8 is a mask, as in PyTorch: write x[i != 0], or x[i.long()]")
        array = array != 0
    if not array.ndim and (array.dtype == bool or device_of(array) == CPU):
        return array.item()  # an integer on a GPU stays there
    return array.copy()


def _with_axes_of_pytorch(items: tuple, shape: tuple[int, ...]) -> tuple:
    """Rewrite an index of arrays and integers or `...` so that NumPy orders the axes as PyTorch does.

    In PyTorch the axes of arrays that are adjacent (ignoring integers) stay in place; else they come first.
    If NumPy's order differs, the whole index becomes arrays, with slices replaced by the indices that they
    select.
    """
    width = lambda i: i.ndim if is_mask(i) else int(is_array(i) or type(i) in (int, slice))
    missing = len(shape) - sum(map(width, items))
    if missing < 0 or sum(i is Ellipsis for i in items) > 1:
        return items  # NumPy raises
    at = next((n for n, i in enumerate(items) if i is Ellipsis), len(items))
    items = (*items[:at], *[slice(None)] * missing, *items[at + 1 :])
    is_joint = lambda i: is_array(i) or type(i) is bool
    place = _place([is_joint(i) for i in items if type(i) is not int])
    if place == _place([is_joint(i) or type(i) is int for i in items]):
        return items
    library = array_module(next((i for i in items if is_array(i)), None))
    parts: list[tuple[Any, Any]] = []  # (the number of its slice, "array", or None for an integer; array)
    # the lengths of sliced axes, and the shapes of the arrays
    lengths = list[int]()
    blocks = []
    axis = 0
    for i in items:
        if type(i) is bool:
            blocks.append((int(i),))
        elif i is None:
            lengths.append(1)
        elif type(i) is slice:
            places = range(*i.indices(shape[axis]))
            parts.append((len(lengths), library.arange(places.start, places.stop, places.step)))
            lengths.append(len(places))
        elif type(i) is int:
            if not -shape[axis] <= i < shape[axis]:
                return items
            parts.append((None, library.asarray(i)))
        elif is_mask(i) and i.shape != shape[axis : axis + i.ndim]:
            return items
        else:
            found = i.nonzero() if is_mask(i) else (i,)
            blocks += [places.shape for places in found]
            parts += [("array", places) for places in found]
        axis += width(i)
    try:
        block = np.broadcast_shapes(*blocks)
    except ValueError:
        return items
    index = []
    for of, places in parts:
        axes_behind = 0
        if of == "array":
            axes_behind = len(lengths) - place
        elif of is not None:
            axes_behind = len(lengths) - of - 1 + len(block) * (of < place)
        index.append(places.reshape(places.shape + (1,) * axes_behind))
    index[0] = library.broadcast_to(index[0], (*lengths[:place], *block, *lengths[place:]))
    return tuple(index)


def is_mask(i: Any) -> bool:
    """Whether an item of an index is an array of booleans."""
    return is_array(i) and i.dtype == bool


def _place(advanced: list[bool]) -> int:
    """How many axes stay in front of those of the `advanced` items: none if these are not adjacent."""
    first = advanced.index(True)
    return first if all(advanced[first : first + sum(advanced)]) else 0
