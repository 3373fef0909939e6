"""Arrays that write down what NumPy computes with them.

A kernel is run on `Traced` arrays: views of ordinary memory whose every operation is done, and noted as a
`Call` that can be done again, into the same memory. Views (slices, reshapes, transposes) are made once and
need no call. What cannot be noted, because Python itself looks at the numbers (`if x.max() > 0`) or a shape
depends on them, is `Untraceable`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..ops.namespace import _arrays as arrays
from ..random import Key
from ..versions import root


class Untraceable(Exception):
    """A kernel does what cannot be noted; its message says what."""


class Uncapturable(Exception):
    """A kernel's result has a shape that depends on numbers; the message says what to use instead."""


class Call(NamedTuple):
    """One step of a plan: `function(*arrays_and_numbers, **settings)`, which writes into one of its arrays."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    settings: dict[str, Any]
    name: str

    @property
    def fixed(self) -> tuple[np.ndarray, ...]:
        """Arrays that gradient functions refer to, which therefore cannot move."""
        return tuple(x for box in self.args if isinstance(box, Box) for x in box.fixed)

    def run(self) -> None:
        self.function(*self.args, **self.settings)

    def arrays(self) -> Iterator[np.ndarray]:
        """Every array among the arguments."""
        stack: list[Any] = [*self.args, *self.settings.values()]
        while stack:
            x = stack.pop()
            if isinstance(x, np.ndarray):
                yield x
            elif isinstance(x, tuple | list):
                stack.extend(x)
            elif isinstance(x, Box):
                stack.extend(x.arrays)

    def __str__(self) -> str:
        return f"{self.name:24} " + " ".join(f"{x.dtype.char}{list(x.shape)}" for x in self.arrays())


class Box:
    """A value that calls write and read, and the arrays that it refers to."""

    arrays: tuple[np.ndarray, ...] = ()
    fixed: tuple[np.ndarray, ...] = ()

    def __init__(self, value: Any) -> None:
        self.value = value


class DrawnKey(Key):
    """The key of a draw that every replay makes anew: `current()` is that of this replay."""

    current: Callable[[], Key]


class Trace:
    """The calls of a step so far, and the memory that they write."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.buffers: dict[int, np.ndarray] = {}  # the arrays that own the memory written here, by id
        self.written: set[int] = set()  # which of them some call has had
        self.counterparts: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # memory of the step, and ours, by id

    def buffer(self, array: np.ndarray) -> np.ndarray:
        """A new array, as a traced one."""
        owner = root(array)
        self.buffers[id(owner)] = owner
        return array.view(Traced)

    def note(self, function: Callable, args: tuple, settings: dict[str, Any], name: str = "") -> None:
        """Note a call that has been made."""
        call = Call(function, tuple(map(plain, args)), {k: plain(v) for k, v in settings.items()}, name)
        self.written.update(id(root(x)) for x in call.arrays())
        self.calls.append(call._replace(name=name or getattr(function, "__name__", str(function))))

    def into(self, out: Traced, function: Callable, args: tuple, settings: dict[str, Any]) -> None:
        """Note that a function's result, an array of its own, is copied to `out`."""
        self.note(_copy_result, (plain(out), function, args, settings), {}, function.__name__)

    # ------------------------------------------------------------ arrays of the step and ours

    def pair(self, found: np.ndarray, ours: np.ndarray) -> None:
        """From now on the memory of `found`, which the step made, corresponds to that of `ours`."""
        memory, own = root(found), root(plain(ours))
        known = self.counterparts.setdefault(id(memory), (memory, own))
        if known[1] is not own or memory.nbytes != own.nbytes:
            raise Untraceable("its result shares memory in another way")
        if _offset(found, memory) != _offset(plain(ours), own) or found.strides != ours.strides:
            raise Untraceable("its result lies in memory in another way")

    def of(self, found: Any) -> Any:
        """Our array for one of the step: a part of what a call wrote, or else the same memory."""
        if not isinstance(found, np.ndarray) or isinstance(found, Traced):
            return found
        memory = root(found)
        if id(memory) not in self.counterparts:
            return found.view(Traced)
        own = self.counterparts[id(memory)][1]
        offset = _offset(found, memory)
        return np.ndarray(found.shape, found.dtype, own, offset, found.strides).view(Traced)

    def all_of(self, x: Any) -> Any:
        """`of` every array in tuples and lists, too."""
        if type(x) is tuple or type(x) is list:
            return type(x)(map(self.all_of, x))
        return self.of(x)

    def is_made_here(self, found: np.ndarray) -> bool:
        """Whether a call wrote this memory of the step."""
        return id(root(found)) in self.counterparts


def _offset(array: np.ndarray, memory: np.ndarray) -> int:
    return array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]


def plain(x: Any) -> Any:
    """A traced array as an ordinary one, also within tuples and lists."""
    if isinstance(x, Traced):
        return x.view(np.ndarray)
    if type(x) is tuple or type(x) is list:
        return type(x)(map(plain, x))
    return x


def _copy_result(out: np.ndarray, function: Callable, args: tuple, settings: dict[str, Any]) -> None:
    out[...] = function(*map(_resolved, args), **settings)


def _resolved(x: Any) -> Any:
    return x.current() if isinstance(x, DrawnKey) else x


# ---------------------------------------------------------------- the arrays


class _Current(threading.local):
    trace: Trace | None = None


current = _Current()

WITHOUT_OUT = {"copyto", "put", "putmask", "place"}  # functions that write into their first array
ABOUT = {"shape", "ndim", "size", "result_type", "can_cast", "shares_memory", "may_share_memory", "min_scalar_type"}
DEFAULTS = {"where": True, "initial": np._NoValue, "keepdims": False, "dtype": None}  # of ufuncs
TAKES_OUT = {"concatenate", "stack", "dot", "take", "clip", "einsum", "cumsum", "cumprod"}


class Traced(np.ndarray):
    """An array whose operations are noted in the trace that is `current`."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **settings: Any) -> Any:
        if current.trace is None:  # as ordinary arrays
            outs = {} if out is None else {"out": plain(out)}
            return getattr(ufunc, method)(*plain(inputs), **outs, **settings)
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
            outs = tuple(trace.buffer(np.array(r) if np.ndim(r) == 0 else r) for r in (results if several else (results,)))
        else:
            outs, several = tuple(trace.of(x) for x in out), len(out) > 1
            if None in [None if x is None else 1 for x in outs]:
                raise Untraceable("a ufunc with some of its results in given arrays")
            function(*plain(inputs), out=plain(outs), **settings)
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        if method == "__call__" and not settings:
            trace.note(function, (*inputs, *outs), {}, name)  # `out` by position is faster
        else:
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
                trace.note(_fill, (out, plain(args[1]) if value is None else value), {}, "fill")
            return out
        found = function(*bare, **bare_settings)
        return _noted(trace, found, function, args, settings)

    # methods that call no ufunc

    def dot(self, other: Any, out: Any = None) -> Any:
        return np.dot(self, other, out=out) if out is not None else np.dot(self, other)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        if not copy and self.dtype == dtype:
            return self
        trace = _trace()
        out = trace.buffer(plain(self).astype(dtype, order=order, casting=casting))
        trace.note(np.copyto, (out, self), {"casting": "unsafe"}, "astype")
        return out

    def copy(self, order: str = "C") -> Any:
        trace = _trace()
        out = trace.buffer(plain(self).copy(order=order))
        trace.note(np.copyto, (out, self), {}, "copy")
        return out

    def reshape(self, *shape: Any, order: str = "C", **settings: Any) -> Any:
        return self._view_or_copy("reshape", *shape, order=order, **settings)

    def ravel(self, order: str = "C") -> Any:
        return self._view_or_copy("ravel", order=order)

    def flatten(self, order: str = "C") -> Any:
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
        _trace().note(_fill, (self, value), {}, "fill")

    def __getitem__(self, key: Any) -> Any:
        trace = _trace()
        if _is_basic(key):
            found = plain(self)[key]
            if not isinstance(found, np.ndarray):  # a number
                found = plain(self)[_with_ellipsis(key)]
            return found.view(Traced)
        key = trace.all_of(key)
        if any(isinstance(k, np.ndarray) and k.dtype == bool for k in (key if type(key) is tuple else (key,))):
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
            trace.note(_fill if np.ndim(value) == 0 and not isinstance(value, np.ndarray) else _assign, (where, value), {}, "copy")
        else:
            plain(self)[plain(key)] = plain(value)
            trace.note(_set, (self, key, value), {}, "index=")

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


def _or_plain(name: str, method: Callable) -> Callable:
    """A method that is an ordinary array's where nothing is traced."""

    def run(self: Any, *args: Any, **settings: Any) -> Any:
        if current.trace is None:
            return getattr(plain(self), name)(*_plain_in(args), **{k: _plain_in(v) for k, v in settings.items()})
        return method(self, *args, **settings)

    return run


def _plain_in(x: Any) -> Any:
    """With ordinary arrays for traced ones, also in tuples and lists."""
    if type(x) is tuple or type(x) is list:
        return type(x)(map(_plain_in, x))
    return plain(x)


def _fill(out: np.ndarray, value: Any) -> None:
    out.fill(value)


def _assign(out: np.ndarray, value: Any) -> None:
    out[...] = value


def _take(out: np.ndarray, x: np.ndarray, key: Any) -> None:
    out[...] = x[key]


def _set(x: np.ndarray, key: Any, value: Any) -> None:
    x[key] = value


def _refusing(name: str) -> Callable:
    def refuse(self: Any, *args: Any, **settings: Any) -> Any:
        raise Untraceable(f"{name}: Python looks at the numbers")

    return refuse


for _name in ("__bool__", "__float__", "__int__", "__index__", "__complex__", "item", "tolist", "tobytes", "nonzero",
              "__contains__", "sort", "partition", "argsort", "argpartition", "take", "repeat", "choose", "compress",
              "put", "byteswap", "searchsorted", "dumps", "dump", "tofile", "resize", "argmax", "argmin", "cumsum",
              "cumprod", "round", "trace"):  # fmt: skip
    setattr(Traced, _name, _refusing(_name.strip("_")))
for _name, _method in list(vars(Traced).items()):
    if callable(_method) and not _name.startswith("__array") and _name not in ("_view_or_copy",):
        setattr(Traced, _name, _or_plain(_name, _method))


def _trace() -> Trace:
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


def _noted(trace: Trace, found: Any, function: Callable, args: tuple, settings: dict[str, Any]) -> Any:
    """What a NumPy function gave: views as they are, new arrays noted."""
    if isinstance(found, list):
        return [_noted(trace, x, function, args, settings) for x in found]
    if isinstance(found, np.generic):
        found = np.array(found)
    if not isinstance(found, np.ndarray):
        raise Untraceable(f"numpy.{function.__name__} gave a {type(found).__name__}")
    given = [root(x) for x in Call(function, plain(args), {k: plain(v) for k, v in settings.items()}, "").arrays()]
    if any(root(found) is x for x in given):
        return found.view(Traced)
    if function.__name__ in ("unique", "nonzero", "argwhere", "flatnonzero", "extract", "compress"):
        raise Uncapturable("Do it after the step, with what the step returns.")
    out = trace.buffer(found)
    if function.__name__ in TAKES_OUT:
        trace.note(function, args, {**settings, "out": out})
    else:
        trace.into(out, function, plain(args), {k: plain(v) for k, v in settings.items()})
    return out


# ---------------------------------------------------------------- functions that a trace replaces

# functions of kernels that are noted as one call, because Python looks at numbers in them or they draw
WHOLE = (
    ("minigrad.kernels.cpu.activations", "scaled_keep"),
    ("minigrad.kernels.cpu.attention", "keep_mask"),
    ("minigrad.kernels.jit.losses", "refuse_wrong_classes"),
    ("minigrad.kernels.jit.indexing", "refuse_wrong_ids"),
)


@contextlib.contextmanager
def traceable() -> Iterator[None]:
    """Within it kernels can be traced."""
    with contextlib.ExitStack() as stack:
        for owner, name, replacement in list(_replacements()):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


@contextlib.contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """Within it, what this thread computes with traced arrays is noted in `trace`."""
    before, current.trace = current.trace, trace
    try:
        yield
    finally:
        current.trace = before


def _replacements() -> Iterator[tuple[Any, str, Callable]]:
    yield np, "empty", _new_array(np.empty, None)
    yield np, "zeros", _new_array(np.zeros, 0)
    for name in ("asarray", "ascontiguousarray", "array"):
        yield np, name, _as_array(getattr(np, name))
    for name, value in (("empty", None), ("zeros", 0)):
        yield arrays, name, _new_array(getattr(np, name), value)
    for module, name in WHOLE:
        if module in sys.modules:
            owner = import_module(module)
            yield owner, name, _whole(getattr(owner, name))
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("minigrad.kernels.jit."):
            for name, value in list(vars(module).items()):
                if hasattr(value, "py_func"):
                    yield module, name, _loop(value)


def _new_array(make: Callable, value: Any) -> Callable:
    def new(*args: Any, **settings: Any) -> Any:
        array = make(*args, **settings)
        if current.trace is None:
            return array
        out = current.trace.buffer(array)
        if value is not None:
            current.trace.note(_fill, (out, value), {}, "fill")
        return out

    return new


def _as_array(make: Callable) -> Callable:
    def convert(x: Any, dtype: Any = None, *args: Any, **settings: Any) -> Any:
        if current.trace is None or not isinstance(x, Traced):
            return make(x, dtype, *args, **settings)
        found = make(plain(x), dtype, *args, **settings)
        if root(found) is root(plain(x)):
            return found.view(Traced)
        out = current.trace.buffer(found)
        current.trace.note(np.copyto, (out.reshape(x.shape) if out.shape != x.shape else out, x), {"casting": "unsafe"}, "copy")
        return out

    return convert


def _loop(dispatcher: Any) -> Callable:
    """A compiled loop, which writes into arrays that it is given."""

    def run(*args: Any) -> Any:
        trace = current.trace
        if trace is None or not any(isinstance(x, Traced) for x in args):
            return dispatcher(*args)
        args = tuple(map(trace.of, args))
        if dispatcher(*plain(args)) is not None:
            raise Untraceable(f"the loop {dispatcher.__name__} gives a number")
        trace.note(dispatcher, args, {}, dispatcher.__name__)
        return None

    return run


def _whole(function: Callable) -> Callable:
    def run(*args: Any) -> Any:
        trace = current.trace
        if trace is None:
            return function(*args)
        args = tuple(map(trace.of, args))
        found = function(*plain(args))
        if found is None:
            trace.note(function, args, {})
            return None
        out = trace.buffer(found)
        trace.into(out, function, plain(args), {})
        return out

    return run
