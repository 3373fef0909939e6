"""In-place methods and operators: `x.clamp_(0)`, `x.normal_()`, `x.unsqueeze_(0)`, `x += y`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.arguments import accept_aliases
from ..core.devices import array_module
from ..core.dtypes import HALF, finfo, float32, float64, is_floating
from ..core.error_context import describe
from ..core.errors import DtypeError, GraphError, OptionError, ShapeError
from ..core.random import Generator
from ..core.tensor import Tensor, on_device_of
from ..core.versions import View
from .creation import largest_integer, normal, rand, randint
from .draws import bounds, check_bounds
from .in_place import (
    check_fits,
    copy_values,
    is_recorded,
    overwrite,
    rebind,
    reshape_itself,
    write,
)
from .scattering import replaced


def in_place(name: str, function: Callable) -> Callable:
    @functools.wraps(function)
    def change(x: Tensor, *args: Any, **settings: Any) -> Tensor:
        if is_recorded(x, args, settings):
            return rebind(x, name, lambda old: function(old, *args, **settings))
        value = function(x, *args, **settings)
        check_fits(value, x, name)
        return copy_values(x, value.array, name)

    change.__name__ = change.__qualname__ = name
    change.__doc__ = f"The in-place version of `{name[:-1]}`."
    return change


def _arithmetic(name: str, function: Callable, ufunc: str) -> Callable:
    """Make `x op= y`, which needs no temporary array if y is a number or a tensor of x's dtype."""
    by_function = in_place(name, function)

    @functools.wraps(function)
    def change(x: Tensor, other: Any, **settings: Any) -> Tensor:
        alpha = settings.get("alpha", 1)
        plain = not settings or (settings.keys() == {"alpha"} and name in ("add_", "sub_"))
        half = x.array.dtype in HALF  # a number or alpha * y must not be rounded to 16 bits first
        if half or not plain or is_recorded(x, other):
            return by_function(x, other, **settings)
        y = on_device_of(other, x.array)
        fits = type(y) in (int, float) or getattr(y, "dtype", None) == x.array.dtype
        whole = type(y) is not float and ufunc != "divide"  # of integers, the result is an integer
        if not fits or not (whole or is_floating(x.array.dtype)):
            return by_function(x, other, **settings)
        y = y if alpha == 1 else alpha * y
        return overwrite(x, name, lambda: getattr(array_module(x.array), ufunc)(x.array, y, out=x.array))

    change.__name__ = change.__qualname__ = name
    change.__doc__ = f"The in-place version of `{name[:-1]}`."
    return change


def _reshape_in_place(name: str, function: Callable) -> Callable:
    @functools.wraps(function)
    def change(x: Tensor, *args: Any, **settings: Any) -> Tensor:
        return reshape_itself(x, name, lambda old: function(old, *args, **settings))

    change.__name__ = change.__qualname__ = name
    change.__doc__ = f"The in-place version of `{name[:-1]}`: the tensor's shape changes, not its memory."
    return change


def fill_(x: Tensor, value: Any) -> Tensor:
    """Fill with `value`."""
    return _fill(x, "fill_", value)


def _fill(x: Tensor, name: str, value: Any) -> Tensor:
    if is_recorded(x, value):
        return rebind(x, name, lambda old: replaced(old, value, ...))
    if isinstance(value, Tensor) and value.numel() == 1:
        return copy_values(x, value.reshape(()), name)
    return overwrite(x, name, lambda: x.array.fill(value.item() if isinstance(value, Tensor) else value))


def zero_(x: Tensor) -> Tensor:
    """Fill with 0."""
    return _fill(x, "zero_", 0)


def copy_(x: Tensor, source: Any, non_blocking: bool = False) -> Tensor:
    """Copy `source` into x, broadcast and converted to the dtype and device of x."""
    return write(x, "copy_", ..., source)


def detach_(x: Tensor) -> Tensor:
    """Detach the tensor from its graph, in place."""
    if x.version is not None and any(View(*entry).view() is x for entry in x.version.views or ()):
        raise GraphError("detach_ cannot detach a view from its base.\nUse y = x.detach().")
    x.node = None
    x._requires_grad = False
    return x


def fill_diagonal_(x: Tensor, value: float, wrap: bool = False) -> Tensor:
    """Fill the diagonal x[i, i, ...] with `value`; `wrap` restarts it below the top of a tall matrix."""
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(
            f"fill_diagonal_ got a tensor of shape {x.shape}.\n"
            f"It needs at least two axes, all of equal length if there are more than two."
        )
    steps = sum(math.prod(x.shape[i + 1 :]) for i in range(x.ndim))
    count = x.numel() if wrap and x.ndim == 2 else min(x.shape) * steps
    places = np.unravel_index(np.arange(0, min(count, x.numel()), steps), x.shape)
    return write(x, "fill_diagonal_", places, value)


# ---------------------------------------------------------------- random numbers


@accept_aliases
def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with normally distributed numbers."""
    return _draw(x, "normal_", normal(mean, std, x.shape, generator, _draw_dtype(x)))


@accept_aliases
def uniform_(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers uniformly distributed on [low, high); the bounds are rounded to the dtype."""
    _check_number("uniform_", "low", low, "finite", math.isfinite)
    _check_number("uniform_", "high", high, f"finite and at least {low}", lambda n: low <= n < math.inf)
    _check_floating(x, "uniform_")
    check_bounds("uniform_", low, high, x.dtype)
    widest = float(finfo(_draw_dtype(x)).max)
    _check_number("uniform_", "high - low", high - low, f"at most {widest:.4g}", lambda n: n <= widest)
    first, last = bounds(low, high, x.dtype)
    numbers = rand(x.shape, generator=generator, dtype=_draw_dtype(x)) * (high - low) + low
    return write(x, "uniform_", ..., numbers.clamp(first, last))


def exponential_(x: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponentially distributed numbers, of density lambd exp(-lambd x)."""
    _check_number("exponential_", "lambd", lambd, "positive", lambda n: n > 0)
    return _draw(x, "exponential_", -(1 - _uniform(x, generator)).log() / lambd, positive=True)


def log_normal_(
    x: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with log-normally distributed numbers."""
    _check_number("log_normal_", "mean", mean, "finite", math.isfinite)
    _check_number("log_normal_", "std", std, "positive", lambda n: n > 0)
    return _draw(x, "log_normal_", normal(mean, std, x.shape, generator, float64).exp(), positive=True)


def cauchy_(
    x: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with Cauchy-distributed numbers."""
    _check_number("cauchy_", "sigma", sigma, "positive", lambda n: n > 0)
    _check_number("cauchy_", "median", median, "finite", math.isfinite)
    angles = (math.pi * (_uniform(x, generator) - 0.5)).array
    return _draw(x, "cauchy_", median + sigma * Tensor(array_module(angles).tan(angles)))


def geometric_(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with geometrically distributed numbers: trials until the first success, of probability p."""
    _check_number("geometric_", "p", p, "between 0 and 1", lambda n: 0 < n < 1)
    trials = ((1 - _uniform(x, generator)).log() / math.log1p(-p)).ceil()
    return write(x, "geometric_", ..., trials.clamp(1, _max_of_dtype(x.dtype)))


def bernoulli_(x: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Set each element to 1 with probability p (a number or a tensor), else to 0."""
    if not isinstance(p, Tensor):
        _check_number("bernoulli_", "p", p, "from 0 to 1", lambda n: 0 <= n <= 1)
    return write(x, "bernoulli_", ..., _uniform(x, generator) < p)


def random_(
    x: Tensor, low: int = 0, high: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Fill with integers from [low, high), by default up to the largest that the dtype represents exactly.

    `x.random_(n)` draws from [0, n).
    """
    for setting, n in (("low", low), ("high", 0 if high is None else high)):
        _check_number("random_", setting, n, "an integer", lambda n: not isinstance(n, float))
    if high is None:
        low, high = (0, low) if low else (0, min(largest_integer(x.dtype), 2**63 - 2) + 1)
    return write(x, "random_", ..., randint(low, high, x.shape, dtype=x.dtype, generator=generator))


def _max_of_dtype(dtype: np.dtype) -> float:
    """The largest number of a dtype, as a float that does not exceed it."""
    if is_floating(dtype):
        return float(finfo(dtype).max)
    return 1.0 if dtype.kind == "b" else math.nextafter(float(np.iinfo(dtype).max), 0) // 1


def _draw_dtype(x: Tensor) -> np.dtype:
    """The dtype in which numbers for x are drawn: float32 if x has 16 bits or fewer, else its own."""
    return x.dtype if x.dtype.itemsize > 2 else float32


def _uniform(x: Tensor, generator: Generator | None) -> Tensor:
    return rand(x.shape, generator=generator, dtype=float64)


def _draw(x: Tensor, name: str, numbers: Tensor, positive: bool = False) -> Tensor:
    """Write numbers, clipped so that rounding does not make them infinite or, if `positive`, 0."""
    _check_floating(x, name)
    limits = finfo(x.dtype)
    least = float(limits.smallest_subnormal if positive else limits.min)
    return write(x, name, ..., numbers.clamp(least, float(limits.max)))


def _check_floating(x: Tensor, name: str) -> None:
    if not is_floating(x.dtype):
        raise DtypeError(f"{name} needs a floating tensor, got {x.dtype}.\nUse random_, or x.float().")


def _check_number(name: str, setting: str, value: Any, what: str, holds: Callable[[Any], bool]) -> None:
    if not isinstance(value, int | float | np.integer | np.floating) or not holds(value):
        raise OptionError(f"{setting} of {name} must be {what}, got {value!r}.\nPass another number.")


# ---------------------------------------------------------------- the list of methods

FROM_FUNCTIONS = (  # functions with an in-place method
    "abs", "absolute", "acos", "acosh", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr",
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan",
    "atan2", "atanh", "baddbmm", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "ceil", "clamp", "clamp_max", "clamp_min", "clip",
    "conj_physical", "copysign", "cos", "cosh", "cumprod", "cumsum", "deg2rad", "digamma", "divide",
    "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix", "float_power", "floor",
    "floor_divide", "fmod", "frac", "gcd", "ge", "greater", "greater_equal", "gt", "heaviside", "hypot",
    "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "lcm", "ldexp", "le",
    "lerp", "less", "less_equal", "lgamma", "log", "log10", "log1p", "log2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "lt", "masked_fill",
    "masked_scatter", "multiply", "mvlgamma", "nan_to_num", "ne", "neg", "negative", "not_equal",
    "pow", "put", "rad2deg", "reciprocal", "relu", "remainder", "renorm", "round", "rsqrt",
    "scatter", "scatter_add", "scatter_reduce", "sgn", "sigmoid", "sign", "sin", "sinc", "sinh",
    "sqrt", "square", "subtract", "tan", "tanh", "tril", "triu", "true_divide", "trunc",
    "xlogy",
)  # fmt: skip
ARITHMETIC = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}  # and NumPy's name
RESHAPING = ("squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze")


OPERATORS = {
    "__ipow__": "pow_", "__ifloordiv__": "floor_divide_", "__imod__": "remainder_",
    "__iand__": "bitwise_and_", "__ior__": "bitwise_or_", "__ixor__": "bitwise_xor_",
    "__ilshift__": "bitwise_left_shift_", "__irshift__": "bitwise_right_shift_", "__iadd__": "add_",
    "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_",
}  # fmt: skip
OWN = (
    bernoulli_, cauchy_, copy_, detach_, exponential_, fill_, fill_diagonal_, geometric_, log_normal_,
    normal_, random_, uniform_, zero_,
)  # fmt: skip


def of_a_tensor(method: Callable) -> Callable:
    """An in-place method as a function: `mg.relu_(x)`. It accepts only tensors."""

    @functools.wraps(method)
    def function(x: Tensor, *args: Any, **settings: Any) -> Tensor:
        if not isinstance(x, Tensor):
            name = method.__name__
            raise DtypeError(
                f"{name} changes a tensor, got {describe(x)}, of type {type(x).__name__}.\n"
                f"Pass a tensor, or use {name[:-1]}, which returns a new one."
            )
        return method(x, *args, **settings)

    return function


def methods_in_place(functions: Mapping[str, Callable]) -> dict[str, Callable]:
    """The in-place methods, and the in-place operators, that are made from `functions`."""
    methods = {
        f"{name}_": in_place(f"{name}_", functions[name]) for name in FROM_FUNCTIONS if name in functions
    }
    methods |= {
        f"{name}_": _reshape_in_place(f"{name}_", functions[name]) for name in RESHAPING if name in functions
    }
    for name, ufunc in ARITHMETIC.items():
        if name in functions:
            methods[f"{name}_"] = _arithmetic(f"{name}_", functions[name], ufunc)
    return methods | {operator: methods[name] for operator, name in OPERATORS.items() if name in methods}
