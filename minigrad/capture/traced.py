"""Arrays that write down what NumPy computes with them.

Every operation of a `Traced` array is done on ordinary memory, and noted as a call that can be done again,
into the same memory. Views (slices, reshapes, transposes) are made once and need no call. What cannot be
noted, because Python itself looks at the numbers (`if x.max() > 0`), is `Untraceable`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..versions import root
from .calls import Call


class Untraceable(Exception):
    """A kernel does what cannot be noted; its message says what."""


class Uncapturable(Exception):
    """A kernel's result has a shape that depends on numbers; the message says what to use instead."""


class _Current(threading.local):
    trace: Any = None


current = _Current()


class Wrapped:
    """An array that is not to be seen as it is (see `watched`)."""

    def __init__(self, array: np.ndarray) -> None:
        self.inner = array


def plain(x: Any) -> Any:
    """A traced or watched array as an ordinary one, also within tuples and lists."""
    if isinstance(x, Wrapped):
        return x.inner
    if isinstance(x, Traced):
        return x.view(np.ndarray)
    if type(x) is tuple or type(x) is list:
        return type(x)(map(plain, x))
    if type(x) is dict:
        return {name: plain(y) for name, y in x.items()}
    return x


WITHOUT_OUT = {"copyto", "put", "putmask", "place"}  # functions that write into their first array
ABOUT = {
    "shape",
    "ndim",
    "size",
    "result_type",
    "can_cast",
    "shares_memory",
    "may_share_memory",
    "min_scalar_type",
}
SHAPED_BY_NUMBERS = {
    "argwhere", "bincount", "compress", "delete", "extract", "flatnonzero", "histogram", "intersect1d",
    "nonzero", "setdiff1d", "setxor1d", "trim_zeros", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
}  # fmt: skip
DEFAULTS = {"where": True, "initial": np._NoValue, "keepdims": False, "dtype": None}  # of ufuncs
TAKES_OUT = {"concatenate", "stack", "dot", "take", "clip", "einsum", "cumsum", "cumprod"}


class Traced(np.ndarray):
    """An array whose operations are noted in the trace that is `current`."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **settings: Any) -> Any:
        if current.trace is None:  # as ordinary arrays
            given = {} if out is None else {"out": plain(out)}
            return getattr(ufunc, method)(*plain(inputs), **given, **settings)
        trace = _trace()
        for name, usual in DEFAULTS.items():
            if name in settings and settings[name] is usual:
                del settings[name]
        if "where" in settings:
            raise Untraceable("a ufunc with where=")
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        inputs = tuple(map(trace.of, inputs))
        if method == "at":
            function(*plain(inputs), **settings)
            trace.note(function, inputs, settings, f"{ufunc.__name__}.at")
            return None
        if out is None:
            results = function(*plain(inputs), **settings)
            several = type(results) is tuple
            outs = tuple(
                trace.buffer(np.array(r) if np.ndim(r) == 0 else r)
                for r in (results if several else (results,))
            )
        else:
            outs, several = tuple(trace.of(x) for x in out), len(out) > 1
            if any(x is None for x in outs):
                raise Untraceable("a ufunc with some of its results in given arrays")
            function(*plain(inputs), out=plain(outs), **settings)
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        trace.note(function, inputs, {"out": outs, **settings}, name)
        return outs if several else outs[0]

    def __array_function__(self, function: Any, types: Any, args: Any, settings: Any) -> Any:
        if current.trace is None:
            return function(*_plain_in(args), **{k: _plain_in(v) for k, v in settings.items()})
        trace, name = _trace(), function.__name__
        args, settings = trace.all_of(args), {k: trace.all_of(v) for k, v in settings.items()}
        bare, bare_settings = plain(args), {k: plain(v) for k, v in settings.items()}
        if name in ABOUT:
            return function(*bare, **bare_settings)
        if name in WITHOUT_OUT:
            function(*bare, **bare_settings)
            trace.note(function, args, settings)
            return None
        if settings.get("out") is not None:
            function(*bare, **bare_settings)
            trace.note(function, args, settings)
            return settings["out"]
        if name in ("empty_like", "zeros_like", "ones_like", "full_like"):
            out = trace.buffer(function(*bare, **bare_settings))
            if name != "empty_like":
                value = {"zeros_like": 0, "ones_like": 1}.get(name)
                trace.note(fill, (out, plain(args[1]) if value is None else value), {}, "fill")
            return out
        found = function(*bare, **bare_settings)
        return _noted(trace, found, function, args, settings)

    # methods that call no ufunc

    def dot(self, other: Any, out: Any = None) -> Any:
        return np.dot(self, other, out=out) if out is not None else np.dot(self, other)

    def astype(  # type: ignore[override]
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        if not copy and self.dtype == dtype:
            return self
        trace = _trace()
        out = trace.buffer(plain(self).astype(dtype, order=order, casting=casting))
        trace.note(np.copyto, (out, self), {"casting": "unsafe"}, "astype")
        return out

    def copy(self, order: str = "C") -> Any:  # type: ignore[override]
        trace = _trace()
        out = trace.buffer(plain(self).copy(order=order))
        trace.note(np.copyto, (out, self), {}, "copy")
        return out

    def reshape(self, *shape: Any, order: str = "C", **settings: Any) -> Any:  # type: ignore[override]
        return self._view_or_copy("reshape", *shape, order=order, **settings)

    def ravel(self, order: str = "C") -> Any:  # type: ignore[override]
        return self._view_or_copy("ravel", order=order)

    def flatten(self, order: str = "C") -> Any:  # type: ignore[override]
        return self.ravel(order).copy()

    def _view_or_copy(self, name: str, *args: Any, **settings: Any) -> Any:
        found = getattr(plain(self), name)(*args, **settings)
        if np.may_share_memory(found, plain(self)) or not found.size:
            return found.view(Traced)
        trace = _trace()
        out = trace.buffer(found)
        like = found.reshape(self.shape)
        if not np.may_share_memory(like, found):
            raise Untraceable(f"{name} of an array whose copy lies in another order")
        trace.note(np.copyto, (like, self), {}, "copy")
        return out

    def fill(self, value: Any) -> None:
        plain(self).fill(value)
        _trace().note(fill, (self, value), {}, "fill")

    def __getitem__(self, key: Any) -> Any:
        trace = _trace()
        if _is_basic(key):
            found = plain(self)[key]
            if not isinstance(found, np.ndarray):  # a number
                found = plain(self)[_with_ellipsis(key)]
            return found.view(Traced)
        key = trace.all_of(key)
        if any(
            isinstance(k, np.ndarray) and k.dtype == bool for k in (key if type(key) is tuple else (key,))
        ):
            raise Uncapturable("Use mg.where(mask, x, 0), whose shape is that of x.")
        out = trace.buffer(plain(self)[plain(key)])
        trace.note(_take, (out, self, key), {}, "index")
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        trace = _trace()
        key, value = trace.all_of(key), trace.of(value)
        if _is_basic(key):
            where = plain(self)[_with_ellipsis(key)]
            where[...] = plain(value)
            trace.note(
                fill if np.ndim(value) == 0 and not isinstance(value, np.ndarray) else assign,
                (where, value),
                {},
                "copy",
            )
        else:
            plain(self)[plain(key)] = plain(value)
            trace.note(_set, (self, key, value), {}, "index=")

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


def _or_plain(name: str, method: Callable) -> Callable:
    """A method that is an ordinary array's where nothing is traced."""

    def run(self: Any, *args: Any, **settings: Any) -> Any:
        if current.trace is None:
            return getattr(plain(self), name)(
                *_plain_in(args), **{k: _plain_in(v) for k, v in settings.items()}
            )
        return method(self, *args, **settings)

    return run


def _plain_in(x: Any) -> Any:
    """With ordinary arrays for traced ones, also in tuples and lists."""
    if type(x) is tuple or type(x) is list:
        return type(x)(map(_plain_in, x))
    return plain(x)


def fill(out: np.ndarray, value: Any) -> None:
    out.fill(value)


def assign(out: np.ndarray, value: Any) -> None:
    out[...] = value


def _take(out: np.ndarray, x: np.ndarray, key: Any) -> None:
    out[...] = x[key]


def _set(x: np.ndarray, key: Any, value: Any) -> None:
    x[key] = value


def _refusing(name: str) -> Callable:
    def refuse(self: Any, *args: Any, **settings: Any) -> Any:
        raise Untraceable(f"{name}: Python looks at the numbers")

    return refuse


LOOKS = """__bool__ __float__ __int__ __index__ __complex__ __contains__ item tolist tobytes dumps dump tofile
nonzero sort partition argsort argpartition take repeat choose compress put byteswap searchsorted resize
argmax argmin cumsum cumprod round trace"""
for _name in LOOKS.split():
    setattr(Traced, _name, _refusing(_name.strip("_")))
for _name, _method in list(vars(Traced).items()):
    if callable(_method) and not _name.startswith("__array") and _name != "_view_or_copy":
        setattr(Traced, _name, _or_plain(_name, _method))


def _trace() -> Any:
    if current.trace is None:
        raise Untraceable("a traced array outside of its trace")
    return current.trace


def _is_basic(key: Any) -> bool:
    parts = key if type(key) is tuple else (key,)
    return all(k is None or k is Ellipsis or isinstance(k, int | np.integer | slice) for k in parts)


def _with_ellipsis(key: Any) -> tuple:
    """A basic index that gives an array, where it would be a number, too."""
    key = key if type(key) is tuple else (key,)
    return key if any(k is Ellipsis for k in key) else (*key, ...)


def _noted(trace: Any, found: Any, function: Callable, args: tuple, settings: dict[str, Any]) -> Any:
    """What a NumPy function gave: views as they are, new arrays noted."""
    if isinstance(found, list):
        return [_noted(trace, x, function, args, settings) for x in found]
    if isinstance(found, np.generic):
        found = np.array(found)
    if not isinstance(found, np.ndarray):
        raise Untraceable(f"numpy.{function.__name__} gave a {type(found).__name__}")
    given = [
        root(x) for x in Call(function, plain(args), {k: plain(v) for k, v in settings.items()}, "").arrays()
    ]
    if any(root(found) is x for x in given):
        return found.view(Traced)
    if function.__name__ in SHAPED_BY_NUMBERS:
        raise Uncapturable("Do it after the step, with what the step returns.")
    out = trace.buffer(found)
    if function.__name__ in TAKES_OUT:
        trace.note(function, args, {**settings, "out": out})
    else:
        trace.into(out, function, plain(args), {k: plain(v) for k, v in settings.items()})
    return out
