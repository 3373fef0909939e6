"""Errors for NumPy functions of lists of tensors, such as `np.sum([x, y])`, that would lose gradients.

For a tensor argument NumPy calls `__array_function__` or `__array_ufunc__` (see numpy_functions.py). For a
tensor in a list it only calls `__array__`, like `np.asarray(tensor)`, which never raises; and then, for a 0-d
tensor, `__float__`, like `float(tensor)`. So which function it is must be read from the caller's frame.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from ..core.frames import is_library
from ..core.modes import modes
from ..core.tensor import Tensor, raise_lost_gradient

_NUMPY = str(Path(np.__file__).parent)
_CONVERT = {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite"}
_OPERATORS = ("BINARY_OP", "COMPARE_OP", "BINARY_", "INPLACE_")


class Conversions:
    """Wraps `Tensor.__array__` and `Tensor.__float__` to raise if a gradient would be lost.

    The NumPy functions in `without_gradient` have no derivative, so they lose nothing.
    """

    def __init__(self, without_gradient: frozenset[str]) -> None:
        self.without_gradient = without_gradient
        self.call: tuple[int, int] | None = None  # the frame and instruction that last called `__array__`
        self.converted = set[int]()  # the ids of the tensors that it converted

    def array(self, to_array: Callable) -> Callable:
        def __array__(x: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            if x._requires_grad and modes.grad_enabled and (dtype is None or np.dtype(dtype).kind in "fVO"):
                frame = sys._getframe(1)
                name, converts = self.numpy_function(frame)
                call = (id(frame), frame.f_lasti) if converts else None
                if call != self.call:
                    self.call = call
                    self.converted = set()
                if converts:
                    self.converted.add(id(x))
                elif name and name not in self.without_gradient:
                    raise_lost_gradient(name if " " in name else f"np.{name}")
            return to_array(x, dtype, copy)

        return __array__

    def number(self, to_float: Callable) -> Callable:
        def __float__(x: Tensor) -> float:
            if self.call is not None:
                frame = sys._getframe(1)
                is_same_call = self.call == (id(frame), frame.f_lasti) and id(x) in self.converted
                self.call = None
                self.converted = set()
                if (
                    is_same_call
                    and x._requires_grad
                    and modes.grad_enabled
                    and _is_from_numpy(_callee(frame))
                ):
                    raise_lost_gradient("a NumPy array of a list")
            return to_float(x)

        return __float__

    def numpy_function(self, frame: FrameType) -> tuple[str, bool]:
        """The name of the NumPy function that converts a tensor (or ""), and whether it only converts."""
        if is_library[frame.f_code.co_filename]:
            return "a list", False
        name = ""
        while frame.f_code.co_filename.startswith(_NUMPY) and frame.f_back is not None:
            if "testing" in frame.f_code.co_filename:
                return "", False
            name = frame.f_code.co_name
            if frame.f_globals.get("__name__", "").startswith("numpy.linalg"):
                name = f"linalg.{name}"
            frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("matplotlib."):
            return "", False  # plots need no gradient
        if name:
            return name, name in _CONVERT
        function = _callee(frame)
        if function is np.ndarray:  # an operator
            return "an array and a list", False
        name = getattr(function, "__name__", "")
        ufunc = function if isinstance(function, np.ufunc) else getattr(function, "__self__", None)
        if isinstance(ufunc, np.ufunc):
            name = name if function is ufunc else f"{ufunc.__name__}.{name}"
            decides = all(signature.endswith("?") for signature in ufunc.types)
            return "" if decides else name, False
        if isinstance(function, type) and issubclass(function, np.generic):  # np.float32(x), as float(x)
            return "", True
        is_known = function is not None and _is_from_numpy(function) and name not in _CONVERT
        return (name, False) if is_known else ("", True)


def _is_from_numpy(function: Any) -> bool:
    """Whether a function is from NumPy, or unknown (None)."""
    return function is None or (getattr(function, "__module__", None) or "").partition(".")[0] == "numpy"


def _callee(frame: FrameType) -> Any:
    """The function that a frame calls by name (np.dot, dot), or None; np.ndarray for an operator."""
    names = _called_name(frame.f_code, frame.f_lasti)
    if names is None:
        return np.ndarray
    if not names:
        return None
    found = frame.f_locals.get(names[0], frame.f_globals.get(names[0]))
    for name in names[1:]:
        found = getattr(found, name, None) if isinstance(found, ModuleType | np.ufunc) else None
    return found


@lru_cache(maxsize=1024)
def _called_name(code: CodeType, instruction: int) -> tuple[str, ...] | None:
    """The name that an instruction calls, as ("np", "dot"); () if it has none, None for an operator.

    The instructions that load the name start at the same position in the line as the call.
    """
    names = list[str]()
    instructions = {found.offset: found for found in dis.get_instructions(code)}
    call = instructions.get(instruction)
    if call is not None and call.opname.startswith(_OPERATORS):
        return None
    if call is None or call.positions is None or call.positions.col_offset is None:
        return ()
    start = call.positions.lineno, call.positions.col_offset
    for offset, found in instructions.items():
        here = found.positions and (found.positions.lineno, found.positions.col_offset)
        if offset < instruction and here == start and found.opname.startswith("LOAD_"):
            is_attribute = found.opname in ("LOAD_ATTR", "LOAD_METHOD")
            names = [*names, str(found.argval)] if is_attribute else [str(found.argval)]
    return tuple(names)
