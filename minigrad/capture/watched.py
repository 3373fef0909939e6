"""What Python outside of operations computes with a step's numbers: an index, a check, `x.array.argsort()`.

While a step is recorded, `tensor.array` is a `Watched` array to all code but the engine's own. What NumPy
computes with it is done, and noted as a call that replays make, too. What Python decides by it (`if
x.array.max() > 0`) is refused; a check of the library's must come out the same in each replay.
"""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .. import creation
from ..errors import CaptureError
from ..tensor import Tensor, _from_lists, as_tensor, tensor  # type: ignore[attr-defined]
from ..versions import caller, is_library, root
from .calls import arrays_in
from .failures import AFTER, raise_uncapturable, refuse, refused
from .marked import checks
from .traced import ABOUT, SHAPED_BY_NUMBERS, Wrapped, current, plain

if TYPE_CHECKING:
    from .effects import Effects

LIBRARY = Path(__file__).parents[1]
# folders and files whose functions see arrays as they are
ENGINE = {
    "amp", "autograd", "capture", "debug", "devices", "kernels", "memory", "nodes", "optim", "printing",
    "random", "tensor", "trees", "versions", "nn/module", "nn/parameter", "ops/arguments", "ops/call",
    "ops/namespace", "ops/op", "ops/user_rules",
}  # fmt: skip
# those whose computations are recorded otherwise
RULES = {"autograd", "capture", "kernels", "optim", "ops/call", "ops/namespace", "ops/op"}
# functions of the engine that give an array to others, or compute what no other call of a plan does
COPYING = {"_new_array", "_array", "update_all"}
DECIDING = {"allclose", "equal"}  # functions of the library that give others a bool
SHARING = {f.__code__ for f in (as_tensor, creation.from_numpy, creation.from_dlpack)}  # they make no memory
ON_BEHALF = (str(Path(np.__file__).parent), __file__, str(LIBRARY / "capture" / "traceable.py"))
TENSORS = "Use Tensors: mg.zeros, x[i], x[i] = y."
DATA: Any = vars(Tensor)["data"].fset  # x.data = y


class _Parts(dict[CodeType, tuple[bool, bool]]):
    """Whether a function sees arrays as they are, and whether what it computes is recorded otherwise."""

    def __missing__(self, code: CodeType) -> tuple[bool, bool]:
        file = code.co_filename
        name = str(Path(file).relative_to(LIBRARY).with_suffix("")) if is_library[file] else ""
        names = {name, name.partition("/")[0]}
        sees_arrays = code.co_name not in COPYING
        self[code] = found = sees_arrays and bool(names & ENGINE), sees_arrays and bool(names & RULES)
        return found


parts = _Parts()


class Watched(Wrapped, NDArrayOperatorsMixin):
    """An array of a step, as code outside of the engine has it.

    To Python it is an `np.ndarray`, to NumPy's C code none: that asks `__array__`, which refuses.
    """

    __class__: Any = property(lambda self: np.ndarray)
    __hash__: Any = None
    base: Any = property(lambda self: self.inner)  # it is a view

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        if any(isinstance(x, Tensor) for x in inputs):
            return NotImplemented
        return call(ufunc if method == "__call__" else getattr(ufunc, method), inputs, settings)

    def __array_function__(self, function: Any, types: Any, args: Any, settings: Any) -> Any:
        if any(issubclass(kind, Tensor) for kind in types):
            return NotImplemented
        return call(function, args, settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in ATTRIBUTES | METHODS | LOOKS:
            raise AttributeError(f"an array of a step that is recorded has no {name!r}")
        if name in METHODS:
            return lambda *args, **settings: call(_method(name), (self, *args), settings)
        if name in LOOKS:
            _look(self, name)
        found = getattr(self.inner, name)
        return Watched(found) if isinstance(found, np.ndarray) else found

    def __getitem__(self, key: Any) -> Any:
        return call(operator.getitem, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        call(operator.setitem, (self, key, value), {})

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "inner":
            raise_uncapturable(f"an array's {name} that is assigned", "Make a new one: x.reshape(...).")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        value, frame = bool(self.inner), _asker()
        if (effects := _watching()) is not None:
            if not _is_check(frame):
                raise_uncapturable("a decision by numbers of the step", AFTER)
            args = plain(effects.trace.of(self)), value, frame.f_code.co_name
            effects.recorder.note(_check, args, "check")
        return value


# what does not depend on the numbers, or is the same memory; what is noted; and what Python looks at
ATTRIBUTES = {
    "T",
    "dtype",
    "flags",
    "imag",
    "itemsize",
    "mT",
    "nbytes",
    "ndim",
    "real",
    "shape",
    "size",
    "strides",
}
METHODS = {
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "compress",
    "conj", "copy", "cumprod", "cumsum", "diagonal", "dot", "fill", "flatten", "max", "mean", "min",
    "nonzero", "partition", "prod", "put", "ravel", "repeat", "reshape", "round", "searchsorted",
    "sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose", "var", "view",
}  # fmt: skip
LOOKS = {"item", "tobytes", "tofile", "tolist", "ctypes", "data", "dump", "dumps", "flat"}


def _looking(name: str) -> Callable:
    def look(self: Watched, *args: Any, **settings: Any) -> Any:
        _look(self, name)
        return getattr(self.inner, name)(*args, **settings)

    return look


for _name in (
    "array", "complex", "contains", "float", "format", "index", "int", "reduce_ex", "repr", "round", "str",
):  # fmt: skip
    setattr(Watched, f"__{_name}__", _looking(f"__{_name}__"))


@cache
def _method(name: str) -> Callable:
    def method(x: Any, *args: Any, **settings: Any) -> Any:
        return getattr(x, name)(*args, **settings)

    method.__name__ = name
    return method


# functions that write into their first array
WRITING = {np.copyto, np.put, np.putmask, np.place, np.put_along_axis, np.fill_diagonal, operator.setitem}
WRITING |= {_method(name) for name in ("fill", "partition", "put", "sort")}


def _look(x: Watched, name: str) -> None:
    frame = _asker()
    if _watching() is not None:
        if name in ("__array__", "__index__"):
            what = "a NumPy array that is made, indexed or written by numbers of the step"
            _refuse(frame, what, TENSORS)
        _refuse(frame, f"{name.strip('_')}() of an array of the step")


def _refuse(frame: FrameType, what: str, instead: str = AFTER) -> None:
    """Refuse a look at numbers; a check's only at the end: its own error, which may follow, says more."""
    error = refuse(what, instead)
    if not _is_check(frame):
        refused.is_raised = True
        raise error


def _is_check(frame: FrameType) -> bool:
    """Whether a function that looks at numbers only refuses wrong ones."""
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    return (is_library[file] and name not in DECIDING) or (frame.f_globals.get("__name__"), name) in checks


# ---------------------------------------------------------------- calls of NumPy


class _Watching:
    effects: Effects | None = None  # of the step that is recorded


watching = _Watching()


def _asker() -> FrameType:
    """The function that does something with a watched array."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ON_BEHALF):
        frame = frame.f_back
    return frame


def _watching() -> Effects | None:
    """What is to know what a function does with a watched array, if that is recorded."""
    effects = watching.effects
    if effects is None or not effects.is_recording() or parts[_asker().f_code][1]:
        return None
    return effects


def call(function: Any, args: tuple, settings: dict[str, Any]) -> Any:
    """Call a function of NumPy's; while a step is recorded, so that replays do, too."""
    effects, name = _watching(), function.__name__
    if effects is None:
        given = plain if current.trace is None else current.trace.all_of
        return function(*given(args), **given(settings))
    if settings.get("where", True) is not True:
        raise_uncapturable(f"numpy.{name} with where=", "Use mg.where.")
    if (out := settings.pop("out", None)) is not None:
        found = _compute(effects, function, args, settings)
        for x, result in zip(out if type(out) is tuple else (out,), _several(found), strict=True):
            _write(effects, np.copyto, (x, result), {"casting": "same_kind"})
        return out[0] if type(out) is tuple and len(out) == 1 else out
    if function in WRITING or name == "at":  # np.add.at
        return _write(effects, function, args, settings)
    by_numbers = name in SHAPED_BY_NUMBERS or (function is np.where and len(args) == 1)
    if by_numbers or (function is operator.getitem and _has_mask(args[1])):
        what = f"{name} of an array, whose result's shape depends on numbers"
        _refuse(_asker(), what, "Use operations whose result has one shape, such as mg.where.")
        return function(*plain(args), **plain(settings))
    return _compute(effects, function, args, settings)


def _compute(effects: Effects, function: Any, args: tuple, settings: dict[str, Any]) -> Any:
    trace, recorder = effects.trace, effects.recorder
    found = function(*plain(args), **plain(settings))
    if function.__name__ in ABOUT:
        return found
    if any(x is found for x in args):  # an `out` by position
        _refuse_write(function)
    ours, our_settings = plain(trace.all_of(args)), plain(trace.all_of(settings))
    given = {id(root(x)) for x in arrays_in([plain(args), settings])}
    results, is_several = [], isinstance(found, tuple | list)
    for i, x in enumerate(_several(found)):
        if not isinstance(x, np.ndarray | np.generic):
            raise_uncapturable(f"{function.__name__} of an array", AFTER)
        array = np.asarray(x)
        if array.dtype.hasobject:
            raise_uncapturable(f"{function.__name__}, which gives Python objects", AFTER)
        if id(root(array)) not in given:  # not a view
            nth = i if is_several else None
            recorder.note(_copy, (trace.own(array), nth, function, ours, our_settings), function.__name__)
        results.append(Watched(array))
    if not is_several:
        return results[0]
    return found._make(results) if hasattr(found, "_make") else type(found)(results)


def _write(effects: Effects, function: Any, args: tuple, settings: dict[str, Any]) -> None:
    """Call a function that writes into its first array."""
    if not args or not isinstance(args[0], Watched):
        _refuse_write(function)
    target = plain(args[0])
    if effects.recorder.has_counterpart(target):
        function(*plain(args), **settings)
    ours, our_settings = plain(effects.trace.all_of(args)), plain(effects.trace.all_of(settings))
    effects.recorder.note(_apply, (function, ours, our_settings), function.__name__)
    function(*ours, **our_settings)


def _refuse_write(function: Any) -> None:
    raise_uncapturable(f"numpy.{function.__name__} into an array that is no Tensor's", TENSORS)


def _several(x: Any) -> Any:
    return x if isinstance(x, tuple | list) else (x,)


def _has_mask(key: Any) -> bool:
    return any(np.asarray(k).dtype == bool for k in _several(plain(key)) if isinstance(k, np.ndarray | list))


# ---------------------------------------------------------------- what replays call


def _apply(function: Any, args: tuple, settings: dict[str, Any]) -> None:
    function(*args, **settings)


def _copy(out: np.ndarray, i: int | None, function: Any, args: tuple, settings: dict[str, Any]) -> None:
    found = function(*args, **settings)
    found = found if i is None else found[i]
    if found.shape != out.shape:
        raise CaptureError(
            f"a captured step failed: an array is of shape {found.shape}, and was of {out.shape} when the "
            f"step was recorded.\nShapes must not depend on numbers; run the step without mg.capture."
        )
    out[...] = found


def _check(array: np.ndarray, value: bool, name: str) -> None:
    if bool(array) is not value:
        raise CaptureError(
            f"a captured step failed: a check in {name} is {not value}, and was {value} when the step was "
            f"recorded.\nCorrect the batch; without mg.capture the error names the line."
        )


# ---------------------------------------------------------------- where they come from


@contextlib.contextmanager
def arrays_watched(effects: Effects) -> Iterator[None]:
    """Within it, what this thread reads as `tensor.array` is watched, and what it assigns to it refused.

    What it assigns to `.grad` is noted.
    """
    slot, grads = vars(Tensor)["array"], vars(Tensor)["grad"]

    def read(x: Tensor) -> Any:
        array = slot.__get__(x)
        if type(array) is not np.ndarray or parts[sys._getframe(1).f_code][0] or not effects.is_recording():
            return array
        return Watched(array)

    def assign(x: Tensor, array: Any) -> None:
        if effects.is_recording():
            is_watched, array = type(array) is Watched, plain(array) if type(array) is Watched else array
            code = sys._getframe(1).f_code
            if not is_library[code.co_filename] or code is DATA.__code__:
                before = slot.__get__(x)
                if _lie_alike(before, array):  # x.array += 1
                    return
                raise_uncapturable("another array for a tensor", "Write into it: x.copy_(y), x.mul_(2).")
            if _creates(sys._getframe(2).f_code):
                effects.recorder.created[id(root(array))] = root(array)
                if sys._getframe(3).f_code.co_name == "empty":
                    effects.recorder.uninitialized.add(id(root(array)))
            elif not is_watched and sys._getframe(2).f_code in SHARING:
                effects.recorder.shared[id(root(array))] = root(array)
        slot.__set__(x, array)

    def assign_grad(x: Tensor, grad: Any) -> None:
        grads.__set__(x, grad)
        if effects.is_recording() and not is_library[sys._getframe(1).f_code.co_filename]:
            effects.recorder.assigned[x] = caller()

    setattr(Tensor, "array", property(read, assign))  # noqa: B010
    setattr(Tensor, "grad", property(grads.__get__, assign_grad))  # noqa: B010
    watching.effects = effects
    try:
        yield
    finally:
        watching.effects = None
        setattr(Tensor, "array", slot)  # noqa: B010
        setattr(Tensor, "grad", grads)  # noqa: B010


def _creates(code: CodeType) -> bool:
    """Whether a function makes a Tensor of new memory without an operation."""
    if code in (tensor.__code__, _from_lists.__code__):
        return True
    return code.co_filename == creation.__file__ and code not in SHARING


def _lie_alike(x: np.ndarray, y: Any) -> bool:
    about = lambda z: (z.__array_interface__["data"], z.shape, z.strides, z.dtype)
    return isinstance(y, np.ndarray) and about(x) == about(y)
