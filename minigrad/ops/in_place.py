"""In-place operations: `x += y`, `x[0] = y`, `x.clamp_(0)`, `x.normal_()`.

Outside a graph they write to the tensor's memory. In a graph, where the tensor or the new values require a
gradient, nothing is overwritten: the op without the underscore computes the result, and the tensor is
*rebound* to its array and node. The old values, which backward may need, stay in the old memory. Tensors that
share memory with the changed one are updated: its base is rebound to a copy of itself with the changed
elements replaced, and each view is taken again from its base by the op that made it. If a view between two
tensors no longer exists (`h[0][1] = y`), or a common base does not, the strides of their arrays say which
elements they share.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.backward import nodes_behind, set_tensor
from ..core.devices import array_module, is_writeable
from ..core.dtypes import is_floating
from ..core.errors import DtypeError, GraphError, MinigradError, RangeError, ShapeError
from ..core.frames import caller
from ..core.modes import modes, set_grad_enabled
from ..core.registry import ops
from ..core.tensor import RETAINS_GRAD, Tensor, as_tensor, holds_gradient, on_device_of, snapshot
from ..core.versions import (
    LOST,
    Change,
    VersionCounter,
    View,
    bump_version,
    existing_views,
    modifications,
    share_version,
)
from .creation import zeros
from .indices import array_index
from .scattering import replaced
from .shaping import permute_axes, view_as_shape
from .strides import axes_in_memory, first_address, is_dense, overlaps_itself, place_in_memory
from .views import in_row_order

# ---------------------------------------------------------------- in a graph


def is_recorded(x: Tensor, *values: Any) -> bool:
    """Whether changing x with `values` is recorded in a graph."""
    is_data = x.version is not None and x.version.is_data
    return modes.grad_enabled and not is_data and (x.requires_grad or holds_gradient(values))


def rebind(x: Tensor, name: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Rebind x to what `compute` returns for its old value, and update the tensors that share its memory."""
    check_no_overlap(x, name)
    base, up, down = _relatives(x, name)
    family = [base, *map(_tensor_of, down)]
    constants = any(t.node is None for t in family)
    modifications.count += constants
    old = {t: snapshot(t) for t in family}
    new = _convert_to_fit(compute(old[x]), x, name)
    for view in up:
        new = _with_elements(old[_base_of(view)], new, view)
    if down:
        new = _in_memory_as(new, old[base])

    # an edge to a constant holds the tensor itself, which becomes the result: point it at the old value
    if new.node is not None and constants:
        for node in nodes_behind([new.node]):
            node.edges = [old[e] if isinstance(e, Tensor) and e in old else e for e in node.edges]
    for t, value in old.items():
        if t.node is not None:
            set_tensor(t.node, value)
    _move_into(base, new)
    base.version = VersionCounter()
    if base.node is not None:
        base.node.version = base.version
    if constants:  # other nodes that have them as inputs can run backward, but not be replayed
        base.version.modified_at = modifications.count
        base.version.changes = [Change(modifications.count, lambda: modifications, name, caller())]
    for view in down:
        _retake_view(view)
    return x


def _relatives(x: Tensor, name: str) -> tuple[Tensor, list[View], list[View]]:
    """Return the tensors that share memory with x: the base, which is not a view; the views from x up to the
    base; and all views of the base, in order of creation."""
    views = existing_views((x.version.views if x.version else None) or ())
    made = {_tensor_of(view): view for view in views}
    for t, view in made.items():
        base = view.base()
        is_part_of_alias = view.op is None and base is not None and base.array is not t.array
        if view.op is LOST or is_part_of_alias or (base is not None and overlaps_itself(base)):
            made[t] = _by_memory(view, made)
    above = dict[Tensor, Tensor]()  # the base of each view that has one
    for t, view in made.items():
        base = view.base()
        if base is not None and _share(t, base):
            above[t] = base

    base = x
    up = list[View]()
    while base in above:
        up.append(made[base])
        base = above[base]
    tops = {t for t in (*made, *(view.base() for view in views)) if t is not None and t not in above}
    members = _sharing_memory(base, tops)
    if len(members) > 1:  # their base no longer exists: create another
        joined = _common_base(members)
        first = first_address(members)
        for t in members:
            is_alias = t in made and made[t].op is None
            op = None if is_alias else ops["strided"]
            made[t] = View(weakref.ref(t), weakref.ref(joined), op, place_in_memory(t, first, (0,)))
            above[t] = joined
        up.append(made[base])
        base = joined

    down = list[View]()
    family = {base}
    for t in [*members, *made]:
        if t in above and above[t] in family and t not in family:
            down.append(made[t])
            family.add(t)
    for t in family:
        if t.requires_grad and t.node is None:
            what = "a leaf" if t is x else "memory of a leaf"
            raise GraphError(
                f"{name} would change {what} of shape {t.shape} that requires a gradient.\n"
                f"Change it under `with mg.no_grad():`, or write a new tensor (y = x + 1)."
            )
    if any(view.op is None for view in up):
        raise GraphError(
            f"{name} cannot modify a detached tensor of shape {x.shape} in place: it shares memory with a "
            f"tensor in the graph.\nModify a copy, x.clone()."
        )
    return base, up, down


def _tensor_of(view: View) -> Tensor:
    tensor = view.view()
    assert tensor is not None
    return tensor


def _base_of(view: View) -> Tensor:
    base = view.base()
    assert base is not None
    return base


def _share(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors share an element. A tensor and its reshape may not, as a reshape may copy."""
    return type(x.array) is type(y.array) and array_module(x.array).shares_memory(x.array, y.array)


def _sharing_memory(x: Tensor, tensors: set[Tensor]) -> list[Tensor]:
    """x and the tensors that share memory with it, directly or through others."""
    found = [x]
    others = tensors - {x}
    for t in found:
        near = [other for other in others if _share(t, other)]
        found += near
        others.difference_update(near)
    return found


# ---------------------------------------------------------------- by places in memory


def _by_memory(view: View, made: dict[Tensor, View]) -> View:
    """A view of a view, described by its strides in the memory of a dense base."""
    t = _tensor_of(view)
    base = view.base()
    op = view.op
    while base is not None and not is_dense(base):
        higher = made.get(base)
        base, op = (None, op) if higher is None else (higher.base(), None if higher.op is None else op)
    if base is None or not _share(t, base):
        return View(view.view, lambda: None, op)
    place = place_in_memory(t, first_address([base]), axes_in_memory(base))
    return View(view.view, weakref.ref(base), None if op is None else ops["strided"], place)


def _common_base(tensors: list[Tensor]) -> Tensor:
    """Create a tensor of all the memory that these tensors have.

    It is made from their elements; where they overlap, from those of a tensor that requires a gradient.
    """
    first = first_address(tensors)
    tensors = sorted(tensors, key=lambda t: t.requires_grad)
    places = [place_in_memory(t, first, (0,)) for t in tensors]
    ends = [
        p["offset"] + sum(max(0, (n - 1) * step) for n, step in zip(p["size"], p["stride"], strict=True))
        for p in places
    ]
    joined = zeros(max(ends) + 1, dtype=tensors[0].dtype, device=tensors[0].device)
    for t, place in zip(tensors, places, strict=True):
        index = ops["strided"].rule(np.arange(joined.numel()), **place)[0]
        joined = replaced(joined, view_as_shape(t, (-1,)), index.reshape(-1))
    return joined


def _in_memory_as(new: Tensor, old: Tensor) -> Tensor:
    """Return `new` with the memory order of `old`, so that its views can be taken as views again."""
    order = axes_in_memory(old)
    if new.array.transpose(order).flags.c_contiguous:
        return new
    back = [order.index(d) for d in range(len(order))]
    return permute_axes(in_row_order(permute_axes(new, order)), back)


def _convert_to_fit(new: Tensor, x: Tensor, name: str) -> Tensor:
    """Return `new` in the dtype of x and with its own memory, or raise if it does not fit."""
    check_fits(new, x, name)
    if new.dtype != x.dtype:
        return new.to(x.dtype)
    return new if new.version is None else ops["clone"].call(new)  # it may be a view


def _with_elements(base: Tensor, new: Tensor, view: View) -> Tensor:
    """`base` with the elements of the view replaced by `new`."""
    if view.op is ops["getitem"]:
        return replaced(base, new, view.settings["index"])
    places = np.arange(base.numel()).reshape(base.shape)
    places = view.op.rule(places, **view.settings)[0]
    places = places if view.result is None else places[view.result]
    flat = replaced(view_as_shape(base, (-1,)), view_as_shape(new, (-1,)), places.reshape(-1))
    return view_as_shape(flat, base.shape)


def _move_into(x: Tensor, new: Tensor) -> None:
    """Give x the array and node of `new`, and make that node refer to x."""
    retains = x.node.hooks.pop(RETAINS_GRAD, None) if x.node is not None and x.node.hooks else None
    x.array, x.node, x.version = new.array, new.node, new.version
    x._requires_grad = new.requires_grad
    if x.node is not None:
        set_tensor(x.node, x)
        x.node.hooks = {RETAINS_GRAD: retains} if retains else x.node.hooks


def _retake_view(view: View) -> None:
    """Take a view again from its base, which has been rebound."""
    base = _base_of(view)
    x = _tensor_of(view)
    own = x.version
    if view.op is None:
        x.array = ops["strided"].rule(base.array, **view.settings)[0] if view.settings else base.array
    else:
        again = view.op.call(base, **view.settings)
        _move_into(x, again if view.result is None else again[view.result])
    share_version(base, x, view.op, view.settings, view.result)
    if own is not None and own.is_data:  # the base's counter does not see its changes
        x.version = own


def reshape_itself(x: Tensor, name: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Rebind x to the view of its own memory that `compute` returns; other tensors are unchanged."""
    if is_recorded(x) and x.node is None:
        raise GraphError(
            f"{name} would change the shape of a leaf that requires a gradient.\n"
            f"Write y = x.{name[:-1]}(...), or change it under `with mg.no_grad():`."
        )
    old = snapshot(x)
    requires_grad = x.requires_grad
    with set_grad_enabled(x.node is not None):  # a result's gradient has to be reshaped back
        new = compute(old)
    if x.node is not None:
        set_tensor(x.node, old)
    _move_into(x, new)
    x._requires_grad = requires_grad
    if x.version is not None and x.version.views:
        x.version.views = [
            view._replace(op=view.op and LOST) if x is view.view() or x is view.base() else view
            for view in existing_views(x.version.views)
            if view.view() is not new
        ]
    return x


# ---------------------------------------------------------------- in memory


def overwrite(x: Tensor, name: str, write: Callable[[], Any]) -> Tensor:
    """Change the memory of x by calling `write`, and explain errors that NumPy or CuPy raise."""
    check_no_overlap(x, name)
    if not is_writeable(x.array):
        raise ShapeError(f"{name} on a tensor whose memory is read-only.\nChange a copy of it: x.clone().")
    try:
        write()
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        kind: type[MinigradError] = RangeError if isinstance(error, IndexError) else ShapeError
        is_index = "Indices count from 0, or from the end from -1." if kind is RangeError else ""
        raise (DtypeError if isinstance(error, TypeError | OverflowError) else kind)(
            f"{name} on a tensor of shape {x.shape} and dtype {x.dtype}: {str(error).rstrip(' .')}.\n"
            f"{is_index or 'Pass a value that fits.'}"
        ) from None
    bump_version(x, name)
    return x


def copy_values(x: Tensor, value: Any, name: str) -> Tensor:
    """Write `value`, broadcast, into the memory of x."""
    value = apart(on_device_of(value, x.array), x.array, ...)
    return overwrite(x, name, lambda: array_module(x.array).copyto(x.array, value, casting="unsafe"))


def apart(value: Any, array: Any, index: Any) -> Any:
    """`value`, copied if `array[index] = value` would read elements that it has already overwritten.

    NumPy copies a value that overlaps, but not (as of 2.4) between vectors of different strides, such as
    x[::2] = x[:5]. CuPy always copies overlapping values.
    """
    source = value.array if isinstance(value, Tensor) else value
    if not isinstance(array, np.ndarray) or not isinstance(source, np.ndarray) or source.ndim != 1:
        return value
    if not np.may_share_memory(source, array) or array[index].strides == source.strides:
        return value
    return ops["clone"].call(value) if isinstance(value, Tensor) else source.copy()


def check_no_overlap(x: Tensor, name: str) -> None:
    if x.array.size and overlaps_itself(x):
        raise ShapeError(
            f"{name} on a tensor of shape {x.shape} whose elements share memory (expand, unfold).\n"
            f"Change a copy of it: x.clone()."
        )


def check_fits(new: Tensor, x: Tensor, name: str) -> None:
    """Raise an error if x, with its shape and dtype, cannot hold the result `new`."""
    if new.shape != x.shape:
        raise ShapeError(
            f"{name} of a tensor of shape {x.shape} would give shape {new.shape}.\n"
            f"An in-place operation keeps the shape; use {name.rstrip('_')}, which returns a new tensor."
        )
    if (is_floating(new.dtype) and not is_floating(x.dtype)) or (x.dtype == bool and new.dtype != bool):
        raise DtypeError(
            f"{name} of a tensor of dtype {x.dtype} would give {new.dtype}.\n"
            f"An in-place operation keeps the dtype; use {name.rstrip('_')}, or convert the tensor first."
        )


# ---------------------------------------------------------------- x[index] = value


def assign(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value."""
    write(x, "item assignment", array_index(index, x.array.shape), value)


def write(x: Tensor, name: str, index: Any, value: Any) -> Tensor:
    if value is None or (isinstance(value, list | tuple) and any(v is None for v in value)):
        # NumPy would write NaN
        raise DtypeError(f"{name} got None.\nPass a number, an array or a tensor.")
    if holds_gradient(value) and isinstance(value, list | tuple):
        value = as_tensor(value)
    if isinstance(value, Tensor) and value.requires_grad and not is_floating(x.dtype):
        raise DtypeError(
            f"{name} cannot write {value.dtype} numbers that require a gradient to dtype {x.dtype}.\n"
            f"Convert the tensor first (x.float()), or detach the numbers."
        )
    if not is_recorded(x, value):
        value = on_device_of(apart(value, x.array, index), x.array)
        return overwrite(x, name, lambda: x.array.__setitem__(index, value))
    if isinstance(value, Tensor):
        value = value.to(x.dtype, x.device)
        while value.ndim and value.shape[0] == 1 and value.ndim > x.array[index].ndim:
            value = view_as_shape(value, value.shape[1:])
    return rebind(x, name, lambda old: replaced(old, value, index))
