"""NumPy's functions on Tensors are ops: `ndarray * Tensor`, `np.exp(Tensor)`, `np.concatenate([Tensor])`.

So a formula written for arrays gives Tensors, with gradients, when it is given one. A function of NumPy's
that has no counterpart here gets the arrays and gives arrays, outside any graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import DtypeError, MinigradError
from ...tensor import Tensor

# NumPy's names that are not PyTorch's
PYTORCH_NAMES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "conjugate": "clone", "degrees": "rad2deg",
    "divide": "div", "equal": "eq", "fabs": "abs", "greater": "gt", "greater_equal": "ge",
    "invert": "bitwise_not", "left_shift": "bitwise_left_shift", "less": "lt", "less_equal": "le",
    "mod": "remainder", "multiply": "mul", "negative": "neg", "not_equal": "ne", "power": "pow",
    "radians": "deg2rad", "right_shift": "bitwise_right_shift", "rint": "round", "subtract": "sub",
}  # fmt: skip


def array_ufunc(functions: Mapping[str, Any]) -> Any:
    """`Tensor.__array_ufunc__`, which finds its ops among `functions`."""

    def __array_ufunc__(self: Tensor, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        out = settings.get("out")
        if out is not None:  # `array += tensor` changes the array, outside any graph
            arrays = [x.array if isinstance(x, Tensor) else x for x in inputs]
            if any(isinstance(x, Tensor) for x in out):
                raise DtypeError(f"np.{ufunc.__name__} does not write into a Tensor.\nUse its own methods.")
            plain = {name: x.array if isinstance(x, Tensor) else x for name, x in settings.items()}
            return getattr(ufunc, method)(*arrays, **plain)
        function = functions.get(PYTORCH_NAMES.get(ufunc.__name__, ufunc.__name__))
        if function is None or method != "__call__" or settings:
            call = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
            raise DtypeError(
                f"{call} has no counterpart on Tensors{' with these settings' if settings else ''}.\n"
                f"Use a function of minigrad, or np.{ufunc.__name__}(x.numpy()) outside the graph."
            )
        return function(*inputs)

    return __array_ufunc__


def counterparts(of: Mapping[str, Any]) -> dict[str, Callable]:
    """NumPy's functions, by name and with NumPy's arguments, out of the functions `of` minigrad."""
    reduction = lambda name: lambda x, axis=None, keepdims=False: of[name](x, axis, keepdims)
    spread = lambda name: (
        lambda x, axis=None, ddof=0, keepdims=False: of[name](x, axis, correction=ddof, keepdim=keepdims)
    )
    scan = lambda name: lambda x, axis=None: of[name](x.reshape(-1) if axis is None else x, axis or 0)
    reductions = ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "all", "any")
    same = ("broadcast_to", "diagonal", "einsum", "flip", "outer", "squeeze", "stack", "swapaxes", "trace")
    return {
        **{name: reduction(name) for name in reductions},
        "max": reduction("amax"),
        "min": reduction("amin"),
        **{name: spread(name) for name in ("std", "var")},
        **{name: scan(name) for name in ("cumsum", "cumprod")},
        **{name: of[name] for name in same},
        "clip": lambda x, a_min=None, a_max=None: of["clamp"](x, a_min, a_max),
        "concatenate": lambda xs, axis=0: of["cat"](xs, axis),
        "dot": lambda x, y: of["matmul"](x, y) if x.ndim and y.ndim else of["mul"](x, y),
        "expand_dims": lambda x, axis: of["unsqueeze"](x, axis),
        "reshape": lambda x, shape: of["reshape"](x, shape),
        "roll": lambda x, shift, axis=None: of["roll"](x, shift, axis),
        "sort": lambda x, axis=-1: of["sort"](x, axis).values,
        "tril": lambda x, k=0: of["tril"](x, k),
        "triu": lambda x, k=0: of["triu"](x, k),
        "where": lambda c, *xy: of["where"](c, *xy) if xy else of["nonzero"](c, as_tuple=True),
        "transpose": lambda x, axes=None: of["permute"](x, axes or tuple(reversed(range(x.ndim)))),
    }


def array_function(functions: Mapping[str, Any]) -> Any:
    """`Tensor.__array_function__`, which finds NumPy's functions among their counterparts."""
    known = counterparts(functions)

    def __array_function__(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        settings = {name: x for name, x in kwargs.items() if x is not None}
        if func.__module__ == "numpy" and func.__name__ in known:
            try:
                return known[func.__name__](*args, **settings)
            except MinigradError:
                raise
            except TypeError:
                raise DtypeError(
                    f"np.{func.__name__} of a Tensor does not take these arguments.\n"
                    f"Use minigrad's own functions, or np.{func.__name__}(x.numpy()) outside the graph."
                ) from None
        return func(*_as_arrays(args), **_as_arrays(settings))

    return __array_function__


def _as_arrays(thing: Any) -> Any:
    """Tensors as their arrays, also within lists, tuples and dicts."""
    if isinstance(thing, Tensor):
        return thing.array
    if isinstance(thing, dict):
        return {name: _as_arrays(x) for name, x in thing.items()}
    return type(thing)(map(_as_arrays, thing)) if type(thing) in (list, tuple) else thing
