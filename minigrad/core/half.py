"""16-bit dtypes: ops compute in float32, and round once at the end.

The largest float16 is 65504, and NumPy multiplies float16 matrices without BLAS. bfloat16 has 8 bits of
mantissa. Neither is precise enough for a running sum, or a formula of several steps. So an op's rule, its
gradients and a function made of ops get float32 arrays instead, unless they are declared `exact_in_half`. A
0-d operand of another dtype is not rounded to 16 bits beforehand.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np

from .devices import is_array
from .dtypes import HALF, as_dtype, float32, is_floating, result_type
from .modes import Switch, modes
from .sums import unbroadcast
from .tensor import Tensor
from .trees import leaves, map_leaves


def half_of(xs: Iterable[Any]) -> np.dtype | None:
    """The 16-bit dtype of the first array or tensor that has one, or None."""
    for x in xs:
        dtype = getattr(x, "dtype", None)
        if dtype in HALF:  # `is` would miss an unpickled dtype
            return dtype
    return None


def any_half(xs: Iterable[Any]) -> bool:
    """Whether there is a 16-bit tensor, also within lists."""
    for x in xs:
        if isinstance(x, Tensor):
            if x.array.dtype in HALF:
                return True
        elif type(x) in (list, tuple) and any_half(x):
            return True
    return False


def to_float32(a: Any) -> Any:
    """A 16-bit array, tensor or NumPy scalar in float32; anything else unchanged."""
    return a.astype(float32) if getattr(a, "dtype", None) in HALF else a


def all_to_float32(g: Any) -> Any:
    """`to_float32` of a gradient, or of the gradients of several results."""
    return list(map(to_float32, g)) if type(g) is list else to_float32(g)


def in_float32(rule: Callable, half: np.dtype, compares: bool = False) -> Callable:
    """Wrap a rule to compute 16-bit arrays or Tensors in float32, and round the value of arrays to `half`.

    A gradient is summed over broadcast axes, and rounded if its array has 16 bits. If the rule `compares`,
    Python numbers are rounded to `half` as well.
    """

    def narrow(a: Any) -> Any:
        return a.astype(half) if (is_array(a) or isinstance(a, np.generic)) and is_floating(a.dtype) else a

    def fitted(part: Any, form: Any) -> Any:
        if part is None or form is None:
            return part
        shape, dtype = form
        part = unbroadcast(part, shape)
        return part.astype(dtype) if dtype in HALF and is_floating(part.dtype) else part

    def compute(*arrays: Any, **settings: Any) -> Any:
        if compares:
            with np.errstate(over="ignore"):
                arrays = tuple([float(half.type(a)) if type(a) in (int, float) else a for a in arrays])
        result = rule(*map(to_float32, arrays), **settings)
        if result is None:  # a kernel that does not support these arrays
            return None
        value, gradients = result
        if settings.get("dtype") is None:  # otherwise the value has the dtype that was asked for
            value = tuple(map(narrow, value)) if type(value) is tuple else narrow(value)
        if gradients is None:
            return value, None
        forms = [(x.shape, x.dtype) if is_array(x) or isinstance(x, Tensor) else None for x in arrays]
        if type(gradients) is tuple:
            return value, tuple(
                f and (lambda g, f=f, form=form: fitted(f(to_float32(g)), form))
                for f, form in zip(gradients, forms, strict=True)
            )
        return value, lambda g, needs: tuple(map(fitted, gradients(all_to_float32(g), needs), forms))

    return compute


def round_once(
    function: Callable, precision: str | None = None, products: bool = False, like_first: bool = False
) -> Callable:
    """Wrap a function to compute 16-bit tensors in float32, and round only its results.

    Tensors are passed unchanged if their common dtype, or with `like_first` the dtype of the first, is not a
    16-bit one (a norm's parameters may be float32). A function made of matrix `products` gets them unchanged
    on a GPU, where products are many times faster in 16 bits, and under autocast, which chooses their dtype,
    unless its own `autocast` attribute, `precision`, is "lower".
    """
    products = products or precision == "lower"

    @wraps(function)
    def compute(*args: Any, **settings: Any) -> Any:
        if not (any_half(args) or any_half(settings.values())):
            return function(*args, **settings)
        tensors = [x for x in leaves((args, settings)) if isinstance(x, Tensor) and is_floating(x.dtype)]
        half = tensors[0].dtype if like_first else result_type(*tensors)
        is_cast = modes.autocast_dtype is not None
        on_gpu = tensors[0].device != "cpu"
        if half not in HALF or (products and (on_gpu or (is_cast and precision != "lower"))):
            return function(*args, **settings)
        widen = lambda x: to_float32(x) if isinstance(x, Tensor) else x
        narrow = lambda x: x.astype(half) if isinstance(x, Tensor) and x.dtype == float32 else x
        wide_args, wide_settings = map_leaves(widen, (args, settings))
        if (dtype := settings.get("dtype")) is not None and as_dtype(dtype) == half:
            wide_settings["dtype"] = None
        with Switch(modes, "autocast_dtype", None):
            result = function(*wide_args, **wide_settings)
        names = list(inspect.signature(function).parameters)
        place = names.index("dtype") if "dtype" in names else sys.maxsize
        if wide_settings.get("dtype") is not None or (len(args) > place and args[place] is not None):
            return result  # in the dtype that the user chose
        if is_cast and precision == "float32":
            return result
        return map_leaves(narrow, result)

    return compute
