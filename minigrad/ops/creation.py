"""Tensors made from a shape (constants, ranges, random numbers), and from other libraries' memory.

Tensors are float32 unless `dtype` says otherwise. Functions ending in `_like` take shape, dtype and
device from a tensor; methods such as `x.new_zeros(...)` take x's dtype and device. Random numbers come from
`minigrad.random`: they are drawn on the CPU, and are the same for every device.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..core import random
from ..core.argument_checks import is_integer
from ..core.devices import check_device, find_backend, library_of, on_device
from ..core.dtypes import as_dtype, default_float, finfo, float64, int64, is_floating, plain_number
from ..core.error_context import describe
from ..core.errors import DtypeError, GraphError, MinigradError, OptionError, ShapeError, SizesError
from ..core.tensor import Tensor, as_tensor, from_other_library, holds_gradient, tensor
from . import draws
from .allocation import check_allocation, out_of_memory
from .checked import check_all, checked

__all__ = [
    "arange", "empty", "empty_like", "eye", "from_dlpack", "from_numpy", "full", "full_like",
    "linspace", "logspace", "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "randperm", "scalar_tensor", "zeros", "zeros_like",
]  # fmt: skip


Device = str | None
Generator = random.Generator | None


# ---------------------------------------------------------------- constants


def _allocate(
    make: Callable[..., np.ndarray], sizes: Any, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    device = check_device(device)
    shape = _shape(sizes)
    dtype = as_dtype(dtype or default_float)
    if device == "cpu":
        check_allocation(shape, dtype)
    try:
        return Tensor(make(library_of(device), shape, dtype), requires_grad)
    except MemoryError as error:
        if isinstance(error, MinigradError):
            raise
        raise out_of_memory(shape, dtype, device) from None
    except (ValueError, OverflowError) as error:
        if isinstance(error, MinigradError):
            raise
        raise ShapeError(f"cannot make a tensor of shape {shape}: {error}.\nUse a smaller shape.") from None


def zeros(*size: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros: zeros(2, 3) or zeros((2, 3))."""
    return _allocate(lambda xp, *given: xp.zeros(*given), size, dtype, device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones: ones(2, 3) or ones((2, 3))."""
    return _allocate(lambda xp, *given: xp.ones(*given), size, dtype, device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False) -> Tensor:
    """An uninitialized tensor: empty(2, 3) or empty((2, 3))."""
    return _allocate(lambda xp, *given: xp.empty(*given), size, dtype, device, requires_grad)


def full(
    size: Any, fill_value: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """A tensor filled with one number; its dtype is the number's, float32 for a Python float."""
    (value,) = _numbers("full", fill_value)
    if dtype is None:
        dtype = default_float if isinstance(value, float) else np.asarray(value).dtype
    number = tensor(value, dtype).item()  # cast to the dtype; raises an error if it does not fit
    fill = lambda xp, shape, dtype: xp.full(shape, number, dtype)
    return _allocate(fill, (size,), dtype, device, requires_grad)


def scalar_tensor(
    value: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """A 0-d tensor of one number, float32 by default."""
    return full((), value, dtype or default_float, device, requires_grad)


def eye(
    n: int, m: int | None = None, dtype: Any = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """Ones on the diagonal of an n x m matrix (n x n by default), zeros elsewhere."""
    make = lambda xp, shape, dtype: xp.eye(*shape, dtype=dtype)
    return _allocate(make, (n, n if m is None else m), dtype, device, requires_grad)


def zeros_like(
    input: Tensor, dtype: Any = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros, with the input's shape, dtype and device."""
    return zeros(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def ones_like(input: Tensor, dtype: Any = None, device: Device = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones, with the input's shape, dtype and device."""
    return ones(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def empty_like(
    input: Tensor, dtype: Any = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """An uninitialized tensor, with the input's shape, dtype and device."""
    return empty(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def full_like(
    input: Tensor, fill_value: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """A tensor filled with one number, with the input's shape, dtype and device."""
    return full(input.shape, fill_value, requires_grad=requires_grad, **_like(input, dtype, device))


def _like(input: Any, dtype: Any, device: Device) -> dict[str, Any]:
    """The dtype and device of `input`, unless others are given."""
    x = as_tensor(input)
    return {"dtype": dtype or x.dtype, "device": device or x.device}


# ---------------------------------------------------------------- in a tensor's dtype: x.new_zeros(2, 3)


def new_zeros(x: Tensor, *size: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False):
    """A tensor of zeros, in this tensor's dtype and on its device."""
    return zeros(*size, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def new_ones(x: Tensor, *size: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False):
    """A tensor of ones, in this tensor's dtype and on its device."""
    return ones(*size, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def new_empty(x: Tensor, *size: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False):
    """An uninitialized tensor, in this tensor's dtype and on its device."""
    return empty(*size, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def new_full(
    x: Tensor,
    size: Any,
    fill_value: Any,
    dtype: Any = None,
    device: Device = None,
    requires_grad: bool = False,
):
    """A tensor filled with one number, in this tensor's dtype and on its device."""
    return full(size, fill_value, dtype or x.dtype, device or x.device, requires_grad)


def new_tensor(x: Tensor, data: Any, dtype: Any = None, device: Device = None, requires_grad: bool = False):
    """A tensor with a copy of `data`, in this tensor's dtype and on its device."""
    return tensor(data, dtype or x.dtype, device or x.device, requires_grad)


# ---------------------------------------------------------------- ranges


def arange(
    start: Any,
    end: Any = None,
    step: float = 1,
    dtype: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from `start` (0 if only one number is given) up to, not including, `end`, in steps of `step`.

    They are int64, or float32 if an argument is a float. With an integer `dtype`, start and step are first
    rounded towards 0, and for int64 also end (as in PyTorch).

    >>> mg.arange(2, 8, 2)
    tensor([2, 4, 6])
    """
    if end is None:
        end = start
        start = 0
    start, end, step = _numbers("arange", start, end, step)
    if dtype is not None:
        dtype = as_dtype(dtype)
        whole_start, whole_end, whole_step = _for_dtype("arange", dtype, start, end, step)
        if dtype == int64:  # for narrower dtypes, PyTorch counts the elements before rounding
            start = whole_start
            end = whole_end
            step = whole_step
    whole = all(isinstance(x, int) for x in (start, end, step))
    steps = (end - start) / step if step else -math.inf
    if steps < 0:
        raise OptionError(
            f"arange from {start} never reaches {end} in steps of {step}.\nUse a step of the other sign."
        )
    if not math.isfinite(steps) or not math.isfinite(step):
        raise OptionError(
            f"arange from {start} to {end} in steps of {step} has no finite length.\nPass other numbers."
        )
    if dtype is None:
        dtype = int64 if whole else default_float
    count = -((start - end) // step) if whole else math.ceil(steps)
    check_allocation((count,), int64)
    if dtype.kind in "iu" and not whole:
        start = whole_start
        step = whole_step
        whole = True
        if not step:
            raise OptionError(f"the step of arange rounds to 0 in {dtype}.\nPass a step of at least 1.")
    numbers = start + np.arange(count, dtype=int64 if whole else np.float64) * step
    return Tensor(on_device(numbers.astype(dtype), check_device(device)), requires_grad)


def linspace(
    start: Any,
    end: Any,
    steps: int,
    dtype: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included.

    With an integer `dtype`, `start` and `end` are first rounded towards 0, and then each number.
    """
    start, end = _for_dtype("linspace", dtype, *_numbers("linspace", start, end))
    make = lambda xp, shape, dtype: xp.asarray(_points(start, end, shape).astype(dtype))
    return _allocate(make, (steps,), dtype, device, requires_grad)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    dtype: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` powers of `base`, with evenly spaced exponents from `start` to `end`.

    With an integer `dtype`, `start` and `end` are first rounded towards 0, and then each power.
    """
    start, end = _for_dtype("logspace", dtype, *_numbers("logspace", start, end))
    make = lambda xp, shape, dtype: xp.asarray((base ** _points(start, end, shape)).astype(dtype))
    return _allocate(make, (steps,), dtype, device, requires_grad)


def _points(start: float, end: float, shape: tuple[int, ...]) -> np.ndarray:
    check_allocation(shape, float64)
    return np.linspace(start, end, math.prod(shape))


def _for_dtype(name: str, dtype: Any, *numbers: float) -> Sequence[float]:
    """The numbers, rounded towards 0 if `dtype` holds integers."""
    if dtype is None or as_dtype(dtype).kind not in "iu":
        return numbers
    for x in numbers:
        if not -(2.0**63) <= x <= 2.0**63:  # also raises for NaN
            raise OptionError(f"{name} of {dtype} got {x}.\nPass integers that fit 64 bits.")
    return [int(x) for x in numbers]


def _numbers(name: str, *values: Any) -> list[Any]:
    """The values as Python numbers; tensors of one element are converted if no gradient is lost."""
    if holds_gradient(values):
        raise GraphError(
            f"{name} takes numbers, and would lose the gradient of a tensor.\n"
            f"Compute with it (t * mg.ones(2, 3), t.expand(2, 3)), or pass its number, t.item()."
        )
    numbers = [x.item() if isinstance(x, Tensor) else plain_number(from_other_library(x)) for x in values]
    for x in numbers:
        if not isinstance(x, int | float):
            raise DtypeError(f"{name} takes numbers, got {x!r}.\nPass a number, or a tensor of one element.")
        if isinstance(x, int) and x.bit_length() > 64:
            raise OptionError(f"{name} got an integer of {x.bit_length()} bits.\nPass one of at most 64.")
    return numbers


# ---------------------------------------------------------------- random numbers


def rand(
    *size: Any,
    generator: Generator = None,
    dtype: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers, uniformly distributed on [0, 1)."""
    last = draws.bounds(0, 1, as_dtype(dtype or default_float))[1]  # the largest number below 1
    return _draw("random", size, generator, dtype, device, requires_grad, last)


def randn(
    *size: Any,
    generator: Generator = None,
    dtype: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers from the standard normal distribution.

    >>> mg.randn(2, 3).shape
    (2, 3)
    """
    return _draw("standard_normal", size, generator, dtype, device, requires_grad)


def randint(
    low: int,
    high: Any = None,  # or the size, if one bound is given
    size: Any = (),
    dtype: Any = None,
    device: Device = None,
    generator: Generator = None,
) -> Tensor:
    """Random integers from [low, high), or from [0, low) if `high` is not given."""
    if high is None or isinstance(high, tuple | list):
        low, high, size = 0, low, size if high is None else high
    if low >= high:
        raise OptionError(f"there is no integer in [{low}, {high}).\nPass a larger `high`.")
    kind = as_dtype(dtype or int64)
    draws.check_bounds("randint", low, high - 1, kind)
    last = _last_integer(low, high, kind)
    integers = lambda shape: _generator("randint", generator).integers(low, high, shape)
    draw = lambda xp, shape, dtype: xp.asarray(np.minimum(_rows(integers, shape), last).astype(dtype))
    return _allocate(draw, (size,), kind, device, False)


def _last_integer(low: int, high: int, dtype: np.dtype) -> int:
    """The largest integer below `high` that the dtype can represent."""
    if is_floating(dtype) and int(dtype.type(high - 1)) != high - 1:
        return int(draws.bounds(low, high, dtype)[1])
    return high - 1


def randperm(n: int, generator: Generator = None, dtype: Any = None, device: Device = None) -> Tensor:
    """A random permutation of the integers 0 to n - 1."""
    (n,) = _shape((n,))
    check_allocation((n,), int64)
    kind = as_dtype(dtype or int64)
    if n > largest_integer(kind) + 1:
        raise OptionError(
            f"randperm({n}) does not fit {kind}, which represents all integers only up to "
            f"{largest_integer(kind)}.\nUse int64."
        )
    numbers = _generator("randperm", generator).permutation(n).astype(kind)
    return Tensor(on_device(numbers, check_device(device)))


def largest_integer(dtype: np.dtype) -> int:
    """The largest n such that the dtype can represent all integers up to n."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    return 1 if dtype.kind == "b" else 2 ** (finfo(dtype).nmant + 1)


def normal(
    mean: Tensor | float,
    std: Tensor | float = 1.0,
    size: Any = None,
    generator: Generator = None,
    dtype: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normally distributed numbers, with mean and std given elementwise, or as two numbers and a `size`.

    No gradient flows to mean and std; write `mean + std * randn_like(mean)` for that.
    """
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if any(not x.is_floating_point() for x in given):
        raise DtypeError("normal takes floating tensors.\nMake mean and std floating: .to('float32').")
    if (size is None) != bool(given):
        raise OptionError(
            "normal takes a tensor as mean or std, or two numbers and a size.\n"
            "Write normal(0.0, 1.0, (2, 3)), or normal(mean_tensor, std)."
        )
    center, spread = (x.detach() if isinstance(x, Tensor) else x for x in (mean, std))
    if bool((spread < 0).any() if isinstance(spread, Tensor) else not spread >= 0):
        raise OptionError(f"std must be at least 0, got {std!r}.\nThe default is 1.")
    if given:
        like = given[0]
        shape = np.broadcast_shapes(*[x.shape for x in given])
        dtype = like.dtype
        device = like.device
    else:
        shape = size
    noise = randn(shape, generator=generator, dtype=dtype, device=device)
    return (noise * spread + center).requires_grad_(requires_grad)


def rand_like(input: Tensor, dtype: Any = None, device: Device = None, requires_grad: bool = False) -> Tensor:
    """Random numbers, uniform on [0, 1), with the input's shape, dtype and device."""
    return rand(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def randn_like(
    input: Tensor, dtype: Any = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """Standard normal random numbers, with the input's shape, dtype and device."""
    return randn(input.shape, requires_grad=requires_grad, **_like(input, dtype, device))


def randint_like(
    input: Tensor, low: int, high: int | None = None, dtype: Any = None, device: Device = None
) -> Tensor:
    """Random integers from [low, high), or [0, low), with the input's shape, dtype and device."""
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, input.shape, **_like(input, dtype, device))


def _draw(
    distribution: str,
    size: Any,
    generator: Generator,
    dtype: Any,
    device: Device,
    requires_grad: bool,
    last: float = math.inf,
) -> Tensor:
    draw = getattr(_generator(distribution, generator), distribution)
    limited = lambda shape: np.minimum(_rows(draw, shape), last) if last < math.inf else _rows(draw, shape)
    make = lambda xp, shape, dtype: xp.asarray(limited(shape).astype(dtype))
    return _allocate(make, size, dtype, device, requires_grad)


def _generator(stream: str, generator: Generator) -> np.random.Generator:
    return draws.generator(random.next_key(stream, generator))


def _rows(draw: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...]) -> np.ndarray:
    """Draw an array of `shape`: the rows of the whole batch that `random.rows` selects."""
    check_allocation(shape, float64)
    first = random.first_row() if shape else 0
    return np.asarray(draw((shape[0] + first, *shape[1:]))[first:] if first else draw(shape))


def _shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Check the sizes of `zeros(2, 3)`, `zeros((2, 3))` or `zeros([2, 3])`, and return them as a tuple."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    if not all(map(is_integer, sizes)):
        raise SizesError(f"sizes must be integers, got {describe(sizes)}.\nWrite zeros(2, 3).")
    shape = tuple(map(operator.index, sizes))
    if min(shape, default=0) >= 0:
        return shape
    raise ShapeError(f"sizes must be at least 0, got {shape}.\nPass non-negative integers.")


# ---------------------------------------------------------------- other libraries' memory


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares the array's memory."""
    if not isinstance(array, np.ndarray):
        raise DtypeError(f"from_numpy takes an array, got {type(array).__name__}.\nUse mg.tensor(...).")
    return as_tensor(array)


def from_dlpack(source: Any) -> Tensor:
    """A tensor that shares another library's memory (a PyTorch tensor's, say) through DLPack."""
    if not hasattr(source, "__dlpack__"):
        raise DtypeError(
            f"from_dlpack takes an object with __dlpack__, got {type(source).__name__}.\nUse mg.tensor(...)."
        )
    try:
        return Tensor(_library_of_dlpack(source).from_dlpack(source))
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise DtypeError(
            f"this {type(source).__name__} cannot be read as an array: {error}.\n"
            f"It must be on the CPU or a CUDA GPU, have a real dtype, and be detached from any graph."
        ) from None


def _library_of_dlpack(source: Any) -> Any:
    """The array library that reads a DLPack object: CuPy for CUDA memory, else NumPy."""
    kind = source.__dlpack_device__()[0] if hasattr(source, "__dlpack_device__") else 1
    return find_backend("cuda" if kind == 2 else "cpu").load()


# ---------------------------------------------------------------- PyTorch's settings without effect

LAYOUT = frozenset(["memory_format", "layout", "pin_memory"])  # memory is always row-major


def _ignoring_layout(function: Callable) -> Callable:
    """Check the function's arguments; accept PyTorch's memory settings and ignore them."""
    call = checked(function)

    @wraps(call)
    def ignoring(*args: Any, **settings: Any) -> Tensor:
        if not LAYOUT.isdisjoint(settings):
            settings = {name: value for name, value in settings.items() if name not in LAYOUT}
        return call(*args, **settings)

    return ignoring


check_all(globals(), __all__, _ignoring_layout)
check_all(globals(), ["new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"])
