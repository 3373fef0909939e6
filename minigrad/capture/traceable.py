"""Functions that take traced arrays only where something else stands for them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..ops.namespace import namespace
from ..versions import root
from .failures import raise_uncapturable
from .marked import marked
from .traced import Traced, Untraceable, current, fill, plain
from .watched import Watched, call

JIT = "minigrad.kernels.jit."  # modules of compiled loops


@contextlib.contextmanager
def traceable() -> Iterator[None]:
    """Within it kernels can be traced."""
    with contextlib.ExitStack() as stack:
        for owner, name, replacement in list(_replacements()):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


def _replacements() -> Iterator[tuple[Any, str, Callable]]:
    yield np, "empty", _new_array(np.empty, None)
    yield np, "zeros", _new_array(np.zeros, 0)
    for name in ("asarray", "ascontiguousarray", "array"):
        yield np, name, _as_array(getattr(np, name))
    for name, value in (("empty", None), ("zeros", 0)):
        yield namespace(None), name, _new_array(getattr(np, name), value)
    for module_name, name in marked:
        if module_name in sys.modules and module_name.startswith("minigrad.kernels"):
            owner = sys.modules[module_name]
            yield owner, name, _whole(getattr(owner, name))
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(JIT)]
    loops = [(module, *item) for module in modules for item in vars(module).items() if _is_compiled(item[1])]
    # what other loops call stays: numba looks it up in the module whenever it compiles one for new arrays
    called = {id(x) for _, _, loop in loops for x in _globals_of(loop.py_func)}
    yield from ((module, name, _loop(loop)) for module, name, loop in loops if id(loop) not in called)


def _new_array(make: Callable, value: Any) -> Callable:
    def new(*args: Any, **settings: Any) -> Any:
        array = make(*args, **settings)
        if current.trace is None:
            return array
        out = current.trace.buffer(array)
        if value is not None:
            current.trace.note(fill, (out, value), {}, "fill")
        return out

    return new


def _as_array(make: Callable) -> Callable:
    def convert(x: Any, dtype: Any = None, *args: Any, **settings: Any) -> Any:
        if isinstance(x, Watched):
            if current.trace is None:
                return call(make, (x, dtype, *args), settings)
            x = current.trace.of(x)
        if isinstance(x, list | tuple) and any(isinstance(y, Watched) for y in x):
            raise_uncapturable(f"numpy.{make.__name__} of a list of arrays of the step", "Use mg.stack.")
        if current.trace is None or not isinstance(x, Traced):
            return make(x, dtype, *args, **settings)
        found = make(plain(x), dtype, *args, **settings)
        if root(found) is root(plain(x)):
            return found.view(Traced)
        out = current.trace.buffer(found)
        current.trace.note(
            np.copyto,
            (out.reshape(x.shape) if out.shape != x.shape else out, x),
            {"casting": "unsafe"},
            "copy",
        )
        return out

    return convert


def _is_compiled(x: Any) -> bool:
    return hasattr(x, "py_func")


def _globals_of(function: Any) -> Iterator[Any]:
    """What the global names that a function uses stand for."""
    names = function.__code__.co_names
    return (function.__globals__[name] for name in names if name in function.__globals__)


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
