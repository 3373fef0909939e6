"""Changes in place: `x += y`, `x[0] = y`, `x.clamp_(0)`, `x.normal_()`.

Outside a graph they write the memory of the tensor. In a graph, where the tensor or what is written requires a
gradient, nothing is written: the result is computed by the op without the underscore, and the tensor *becomes*
the result, its array and its node. What backward needs of the old value is in the old memory, which stays as
it was. Tensors that share memory with the changed one follow: a base becomes itself with the changed elements
replaced, and its views are taken from it again.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import creation
from ...autograd.backward import nodes_behind
from ...autograd.hooks import LAST
from ...devices import array_module, is_floating, is_writeable
from ...errors import DtypeError, GraphError, MinigradError, OptionError, RangeError, ShapeError
from ...indices import array_index
from ...modes import modes
from ...nodes import Output
from ...tensor import Tensor, on_device_of
from ...trees import leaves
from ...versions import Change, VersionCounter, View, bump_version, caller, modifications
from ..arguments import accept_aliases, ops
from ..shaping import view_as_shape
from .scattering import replaced

# ---------------------------------------------------------------- in a graph


def is_recorded(x: Tensor, *values: Any) -> bool:
    """Whether changing x by `values` is part of a graph."""
    if not modes.grad_enabled:
        return False
    return x.requires_grad or any(isinstance(v, Tensor) and v.requires_grad for v in leaves(values))


def become(x: Tensor, name: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Let x become `compute(its old value)`, and all that share its memory follow."""
    refuse_overlap(x, name)
    up, down = _relatives(x, name)
    base = _base_of(up[-1]) if up else x
    family = [base, *(_tensor_of(view) for view in down)]
    constants = any(t.node is None for t in family)
    modifications.count += constants
    old = {t: _old_value(t) for t in family}
    new = _fitting(compute(old[x]), x, name)
    for view in up:
        new = _with_elements(old[_base_of(view)], new, view)

    if new.node is not None and constants:  # nodes refer to constants themselves, and so would to the result
        for node in nodes_behind([new.node]):
            node.edges = [old[e] if isinstance(e, Tensor) and e in old else e for e in node.edges]
    for t, value in old.items():
        _let_node_refer_to(value, t.node)
    _take_place(base, new)
    base.version = VersionCounter()
    if base.node is not None:
        base.node.version = base.version
    if constants:  # nodes elsewhere that refer to them can be walked through, but not be run again
        base.version.modified_at = modifications.count
        base.version.changes = [Change(modifications.count, lambda: modifications, name, caller())]
    for view in down:
        _follow(view)
    return x


def _relatives(x: Tensor, name: str) -> tuple[list[View], list[View]]:
    """The views from x up to a base that is not one, and all views of that base, in the order of making."""
    views = [View(*entry) for entry in (x.version.views if x.version else None) or ()]
    views = [view for view in views if view.view() is not None]
    made = {_tensor_of(view): view for view in views}
    up, base = list[View](), x
    while base in made and made[base].base() is not None and _share(base, _base_of(made[base])):
        up.append(made[base])
        base = _base_of(made[base])
    down, family = list[View](), {base}
    for view in views:
        if view.base() in family and _share(_base_of(view), _tensor_of(view)):
            down.append(view)
            family.add(_tensor_of(view))
    for t in family:
        if t.requires_grad and t.node is None:
            what = "a leaf" if t is x else "memory of a leaf"
            raise GraphError(
                f"{name} would change {what} of shape {t.shape} that requires a gradient.\n"
                f"Change it under `with mg.no_grad():`, or write a new tensor (y = x + 1)."
            )
    others = [t for view in views for t in (view.view(), view.base()) if t is not None and t not in family]
    if any(view.op is None for view in up) or any(_share(x, t) for t in others):
        raise GraphError(
            f"{name} in a graph would change a tensor of shape {x.shape} whose memory another tensor shares "
            f"that could not follow: one of the two was detached, or views lie between them that no longer "
            f"exist.\nChange a copy of it, x.clone()."
        )
    return up, down


def _tensor_of(view: View) -> Tensor:
    tensor = view.view()
    assert tensor is not None
    return tensor


def _base_of(view: View) -> Tensor:
    base = view.base()
    assert base is not None
    return base


def _share(x: Tensor, y: Tensor) -> bool:
    """Whether some number is an element of both: a reshape, for one, may have made a copy."""
    return type(x.array) is type(y.array) and array_module(x.array).shares_memory(x.array, y.array)


def _old_value(x: Tensor) -> Tensor:
    """What x is now, as another tensor."""
    value = Tensor(x.array)
    value.node, value.version = x.node, x.version
    value._requires_grad = x.requires_grad
    return value


def _fitting(new: Tensor, x: Tensor, name: str) -> Tensor:
    """`new` in the dtype of x, with memory of its own; refused if it does not fit."""
    refuse_misfit(new, x, name)
    if new.dtype != x.dtype:
        return new.to(x.dtype)
    return new if new.version is None else ops["clone"].call(new)  # it may be a view


def _with_elements(base: Tensor, new: Tensor, view: View) -> Tensor:
    """`base` with `new` where it had the elements of the view."""
    if view.op is ops["getitem"]:
        return replaced(base, new, view.settings["index"])
    places = np.arange(base.numel()).reshape(base.shape)
    places = view.op.rule(places, **view.settings)[0]
    places = places if view.index is None else places[view.index]
    flat = replaced(view_as_shape(base, (-1,)), view_as_shape(new, (-1,)), places.reshape(-1))
    return view_as_shape(flat, base.shape)


def _let_node_refer_to(x: Tensor, node: Any) -> None:
    """Let the node that made a tensor refer to it as x."""
    if type(node) is Output:
        node.node.output[node.index] = weakref.ref(x)
    elif node is not None:
        node.output = weakref.ref(x)


def _take_place(x: Tensor, new: Tensor) -> None:
    """Let x be `new`, as its node sees it, too."""
    retains = x.node.hooks.pop(LAST, None) if x.node is not None and x.node.hooks else None
    x.array, x.node, x.version = new.array, new.node, new.version
    x._requires_grad = new.requires_grad
    _let_node_refer_to(x, x.node)
    if retains and x.node is not None:
        x.node.hooks = {LAST: retains}


def _follow(view: View) -> None:
    """Take the view from its base again."""
    base, x = _base_of(view), _tensor_of(view)
    if view.op is None:
        x.array = base.array
        return
    again = view.op.call(base, **view.settings)
    _take_place(x, again if view.index is None else again[view.index])
    assert base.version is not None and base.version.views is not None
    base.version.views[-1] = view._replace(view=weakref.ref(x))


# ---------------------------------------------------------------- in memory


def overwrite(x: Tensor, name: str, write: Callable[[], Any]) -> Tensor:
    """Change the memory of x by `write`, which NumPy or CuPy may refuse."""
    refuse_overlap(x, name)
    if not is_writeable(x.array):
        raise ShapeError(f"{name} on a tensor whose memory is read-only.\nChange a copy of it: x.clone().")
    try:
        write()
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        kind: type[MinigradError] = RangeError if isinstance(error, IndexError) else ShapeError
        raise (DtypeError if isinstance(error, TypeError | OverflowError) else kind)(
            f"{name} on a tensor of shape {x.shape} and dtype {x.dtype}: {str(error).rstrip('.')}.\n"
            f"Give a value that fits."
        ) from None
    bump_version(x, name)
    return x


def copy_values(x: Tensor, value: Any, name: str) -> Tensor:
    """Write `value`, broadcast, into the memory of x."""
    value = on_device_of(value, x.array)
    return overwrite(x, name, lambda: array_module(x.array).copyto(x.array, value, casting="same_kind"))


def refuse_overlap(x: Tensor, name: str) -> None:
    if any(step == 0 and n > 1 for step, n in zip(x.array.strides, x.shape, strict=True)):
        raise ShapeError(
            f"{name} on a tensor of shape {x.shape} whose elements share memory (expand).\n"
            f"Change a copy of it: x.clone()."
        )


def refuse_misfit(new: Tensor, x: Tensor, name: str) -> None:
    """Refuse a result that a change in place cannot leave in x."""
    if new.shape != x.shape:
        raise ShapeError(
            f"{name} of a tensor of shape {x.shape} would give shape {new.shape}.\n"
            f"In place the shape stays; use {name.rstrip('_')}, which returns a new tensor."
        )
    if (is_floating(new.dtype) and not is_floating(x.dtype)) or (x.dtype == bool and new.dtype != bool):
        raise DtypeError(
            f"{name} of a tensor of dtype {x.dtype} would give {new.dtype}.\n"
            f"In place the dtype stays; use {name.rstrip('_')}, or convert the tensor first."
        )


# ---------------------------------------------------------------- the methods

FROM_FUNCTIONS = (  # the names with an underscore are methods in place of these functions
    "abs", "absolute", "acos", "acosh", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "arccos", "arccosh",
    "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan", "atan2", "atanh", "baddbmm",
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil",
    "celu", "clamp", "clamp_max", "clamp_min", "clip", "conj_physical", "copysign", "cos", "cosh", "cumprod", "cumsum",
    "deg2rad", "digamma", "divide", "elu", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix",
    "float_power", "floor", "floor_divide", "fmod", "frac", "gcd", "ge", "greater", "greater_equal", "gt",
    "heaviside", "hypot", "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "lcm", "ldexp",
    "le", "leaky_relu", "lerp", "less", "less_equal", "lgamma", "log", "log10", "log1p", "log2", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logit", "lt", "masked_fill", "masked_scatter", "multiply",
    "mvlgamma", "nan_to_num", "ne", "neg", "negative", "not_equal", "polygamma", "pow", "put", "rad2deg",
    "reciprocal", "relu", "remainder", "renorm", "round", "rsqrt", "scatter", "scatter_add", "scatter_reduce",
    "selu", "sgn", "sigmoid", "sign", "sin", "sinc", "sinh", "sqrt", "square", "subtract", "tan", "tanh",
    "threshold", "tril", "triu", "true_divide", "trunc", "xlogy",
)  # fmt: skip
RESHAPING = ("squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze")


def methods_in_place(functions: Mapping[str, Callable]) -> dict[str, Callable]:
    """The methods that change a tensor by one of the `functions`, by name."""
    methods = {f"{name}_": _in_place(f"{name}_", functions[name]) for name in FROM_FUNCTIONS if name in functions}
    return methods | {f"{name}_": _reshaped(f"{name}_", functions[name]) for name in RESHAPING if name in functions}


def _in_place(name: str, function: Callable) -> Callable:
    @functools.wraps(function)
    def change(x: Tensor, *args: Any, **settings: Any) -> Tensor:
        if is_recorded(x, args, settings):
            return become(x, name, lambda old: function(old, *args, **settings))
        value = function(x, *args, **settings)
        refuse_misfit(value, x, name)
        return copy_values(x, value.array, name)

    change.__name__ = change.__qualname__ = name
    change.__doc__ = f"{name[:-1]}, in place."
    return change


def _arithmetic(name: str, function: Callable, ufunc: str) -> Callable:
    """x op= y, for numbers and tensors of the same dtype without an array in between."""
    by_function = _in_place(name, function)

    def change(x: Tensor, other: Any, **settings: Any) -> Tensor:
        if settings or other is None or is_recorded(x, other):
            return by_function(x, other, **settings)
        y = on_device_of(other, x.array)
        return overwrite(x, name, lambda: getattr(array_module(x.array), ufunc)(x.array, y, out=x.array))

    change.__name__ = change.__qualname__ = name
    change.__doc__ = f"{name[:-1]}, in place."
    return change


def _reshaped(name: str, function: Callable) -> Callable:
    """The tensor itself in another shape of the same memory; other tensors that share it keep theirs."""

    @functools.wraps(function)
    def change(x: Tensor, *args: Any, **settings: Any) -> Tensor:
        if is_recorded(x) and x.node is None:
            raise GraphError(
                f"{name} would change the shape of a leaf that requires a gradient.\n"
                f"Write y = x.{name[:-1]}(...), or change it under `with mg.no_grad():`."
            )
        old, requires_grad = _old_value(x), x.requires_grad
        new = function(old, *args, **settings)
        _let_node_refer_to(old, x.node)
        _take_place(x, new)
        x._requires_grad = requires_grad
        if x.version is not None and x.version.views:  # from now on they share its memory, and cannot follow it
            views = [View(*entry) for entry in x.version.views]
            sharing = {t for view in views for t in (view.view(), view.base()) if t is not None} - {x, old, new}
            x.version.views = [View(weakref.ref(t), lambda: None, None, {}, None) for t in sharing]
        return x

    change.__name__ = change.__qualname__ = name
    change.__doc__ = f"{name[:-1]}, in place."
    return change


def fill_(x: Tensor, value: Any) -> Tensor:
    """`value`, in every place."""
    if is_recorded(x, value):
        return become(x, "fill_", lambda old: replaced(old, value, ...))
    return overwrite(x, "fill_", lambda: x.array.fill(value.item() if isinstance(value, Tensor) else value))


def zero_(x: Tensor) -> Tensor:
    """0 in every place."""
    return fill_(x, 0)


def copy_(x: Tensor, source: Any, non_blocking: bool = False) -> Tensor:
    """The numbers of `source`, broadcast, in the dtype and on the device of x."""
    return _assign(x, "copy_", ..., source)


def assign(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value."""
    _assign(x, "item assignment", array_index(index, x.array.shape), value)


def _assign(x: Tensor, name: str, index: Any, value: Any) -> Tensor:
    if value is None:  # NumPy would write NaN
        raise DtypeError(f"{name} of None.\nGive a number, an array or a tensor.")
    if isinstance(value, Tensor) and value.requires_grad and not is_floating(x.dtype):
        raise DtypeError(
            f"{name} of {value.dtype} numbers that require a gradient into a tensor of dtype {x.dtype}.\n"
            f"Convert the tensor first (x.float()), or detach the numbers."
        )
    if not is_recorded(x, value):
        value = on_device_of(value, x.array)
        return overwrite(x, name, lambda: x.array.__setitem__(index, value))
    if isinstance(value, Tensor):
        value = value.to(x.dtype, x.device)
        while value.ndim and value.shape[0] == 1 and value.ndim > x.array[index].ndim:
            value = view_as_shape(value, value.shape[1:])
    return become(x, name, lambda old: replaced(old, value, index))


def _drawn(name: str, draw: Callable[..., Tensor]) -> Callable:
    """The method that fills a tensor with what `draw(shape, ...)` draws in float32, or in float64 for such."""

    @functools.wraps(draw)
    def change(x: Tensor, *args: Any, **settings: Any) -> Tensor:
        return copy_(x, draw(x, *args, **settings).to(x.dtype))

    change.__name__ = change.__qualname__ = name
    return accept_aliases(change)


def _numbers(x: Tensor, stream: str, generator: Generator, draw: Callable[..., np.ndarray]) -> Tensor:
    """x with what `draw(NumPy generator, shape)` draws."""
    if not is_floating(x.dtype):
        raise DtypeError(f"{stream} draws floating numbers, this tensor is {x.dtype}.\nUse x.float(), or random_.")
    return copy_(x, creation.numbers_drawn(stream, draw, x.shape, generator))


@accept_aliases
def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator = None) -> Tensor:
    """Normal numbers in every place."""
    return copy_(x, creation.normal(mean, std, x.shape, generator, x.dtype, x.device))


@accept_aliases
def uniform_(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator = None) -> Tensor:
    """Numbers uniform on [low, high) in every place."""
    return copy_(x, creation.rand(x.shape, generator=generator, dtype=x.dtype, device=x.device) * (high - low) + low)
