"""Array libraries, devices, dtypes and their promotion.

A tensor is where its array is: a NumPy array is on the CPU, a CuPy array on a GPU. CuPy has NumPy's names, so
that code takes its functions from `array_module(array)`. It is imported when a GPU is first used.

A dtype is NumPy's own (`mg.float32 == np.dtype("float32") == "float32"`). What differs from NumPy is how
two dtypes meet: as in PyTorch, an integer never turns a float into float64, and a Python number or a 0-d
tensor never widens a tensor of the same kind.
"""

from __future__ import annotations

import importlib
import math
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np

from .errors import ArgumentError, DependencyError, DeviceError, DtypeError, OptionError

bool_ = np.dtype("bool")
uint8 = np.dtype("uint8")
int8 = np.dtype("int8")
int16 = np.dtype("int16")
int32 = np.dtype("int32")
int64 = np.dtype("int64")
float16 = np.dtype("float16")
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float32 = np.dtype("float32")
float64 = np.dtype("float64")

DTYPES = frozenset([bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64])
HALF = frozenset([float16, bfloat16])
default_float = float32

_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2}  # bool < integer < floating; "V" is bfloat16's


class Device(str):
    """A device's name, "cpu" or "cuda:0", with PyTorch's `type` ("cuda") and `index` (0)."""

    __slots__ = ()

    @property
    def type(self) -> str:
        return self.partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        return int(self.partition(":")[2]) if ":" in self else None


CPU = Device("cpu")


class Size(tuple[int, ...]):
    """A shape (torch.Size): a tuple that can multiply its numbers."""

    __slots__ = ()

    def numel(self) -> int:
        """How many elements a tensor of this shape has."""
        return math.prod(self)


class Gpu:
    """CuPy, once a GPU is used, and the copies between the CPU's memory and a GPU's."""

    library: Any = None
    arrays: Any = ()  # CuPy's class of arrays

    def upload(self, array: Any, device: str) -> Any:
        """A copy on a GPU."""
        return library_of(device).array(array)

    def download(self, array: Any, operation: str) -> np.ndarray:
        """A copy on the CPU, which waits for the GPU; `operation` says what the user called."""
        return array.get()


gpu = Gpu()


def array_module(array: Any) -> Any:
    """The library of an array: NumPy, or CuPy for an array on a GPU."""
    return gpu.library if isinstance(array, gpu.arrays) else np


def load_cupy() -> Any:
    """CuPy, imported on first use."""
    if gpu.library is None:
        if not find_spec("cupy"):
            raise DependencyError(
                "computing on a GPU needs CuPy, which is not installed.\n"
                "In the repository, pip install -e '.[cuda]' (for CUDA 12: pip install 'cupy-cuda12x[ctk]')."
            )
        try:
            library = importlib.import_module("cupy")
        except ImportError as error:
            raise DependencyError(
                f"CuPy is installed but cannot be imported: {' '.join(str(error).split())}.\n"
                f"Install the package that fits your CUDA: pip install cupy-cuda13x, or cupy-cuda12x."
            ) from error
        gpu.library, gpu.arrays = library, library.ndarray
    return gpu.library


def gpu_count() -> int:
    """How many GPUs CuPy can use; a DeviceError if there is none, or no driver."""
    library = load_cupy()
    try:
        return library.cuda.runtime.getDeviceCount()
    except RuntimeError as error:
        raise DeviceError(
            f"CuPy finds no GPU that it can use: {error}.\n"
            f"Install or update NVIDIA's driver (`nvidia-smi` shows what it sees), or compute on the CPU: "
            f"device='cpu', or 'auto' for a GPU only where there is one."
        ) from None


def is_available() -> bool:
    """Whether there is a GPU to compute on (torch.cuda.is_available)."""
    try:
        return gpu_count() > 0
    except (DependencyError, DeviceError):
        return False


def check_device(device: str | None, index: int | None = None) -> Device:
    """The device's full name, "cpu" or "cuda:0"; an error says which there are.

    "cuda" is the GPU in use, number 0 at first; "auto" is that GPU if there is one, else the CPU.
    """
    if not isinstance(device, str | None):
        shown = " ".join(repr(device).split())
        raise ArgumentError(f"a device is a string, got {shown:.80}.\nPass 'cpu', 'cuda', ... or 'auto'.")
    if device in (None, "cpu"):
        return CPU
    if device == "auto":
        return check_device("cuda") if is_available() else CPU
    if index is not None:
        device = f"{device}:{index}"
    kind, colon, number = device.partition(":")
    if kind != "cuda" or (colon and not number.isdecimal()):
        raise OptionError(f"unknown device {device!r}.\nPass 'cpu', 'cuda', 'cuda:0', ... or 'auto'.")
    count = gpu_count()
    index = int(number) if number else gpu.library.cuda.runtime.getDevice()
    if index >= count:
        raise DeviceError(
            f"there is no {device!r}: this machine has {count} GPUs, counted from 0.\n"
            f"Pass 'cuda' for the GPU in use, or a smaller number."
        )
    return Device(f"cuda:{index}")


def library_of(device: str) -> Any:
    """The library for arrays on a device that `check_device` named, which becomes the one in use."""
    if device == "cpu":
        return np
    gpu.library.cuda.Device(int(device.partition(":")[2])).use()
    return gpu.library


def device_of(array: Any) -> Device:
    """The device that an array is on."""
    return Device(f"cuda:{array.device.id}") if isinstance(array, gpu.arrays) else CPU


def on_device(array: Any, device: str) -> Any:
    """An array on a device that `check_device` named: itself if it is there already, else a copy.

    A process computes on one GPU at a time: naming another makes it the one in use.
    """
    if device_of(array) == device:
        return array
    if device == "cpu":
        return on_cpu(array)
    return gpu.upload(array, device)


def on_cpu(array: Any, operation: str = "a copy to the CPU") -> Any:
    """An array as a NumPy array: itself, or a copy of one on a GPU, which the user's `operation` needs."""
    return gpu.download(array, operation) if isinstance(array, gpu.arrays) else array


def to_device_of(array: Any, other: Any) -> Any:
    """`array` on the device of the array `other`: itself, or a copy."""
    return on_device(array, device_of(other)) if gpu.arrays else array


def through_cpu(compute: Any, *operands: Any) -> Any:
    """compute(*operands), which only NumPy can do: arrays on a GPU are copied to the CPU, results back."""
    on_gpu = next((x for x in operands if isinstance(x, gpu.arrays)), None)
    if on_gpu is None:
        return compute(*operands)
    results = compute(*map(on_cpu, operands))
    if isinstance(results, tuple):
        return tuple(to_device_of(np.asarray(result), on_gpu) for result in results)
    return to_device_of(np.asarray(results), on_gpu)


def as_array(x: Any) -> Any:
    """A number, a list or a NumPy array as a NumPy array; a CuPy array as it is."""
    if type(x) is np.ndarray:
        return x
    return x if isinstance(x, gpu.arrays) else np.asarray(x)


def is_writeable(array: Any) -> bool:
    """Whether an array can be written into: it may, and no two of its elements share memory."""
    if isinstance(array, gpu.arrays):  # CuPy does not mark its views by `broadcast_to`
        return not any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True))
    return array.flags.writeable


def is_array(x: Any) -> bool:
    """Whether x is a NumPy or a CuPy array."""
    return isinstance(x, (np.ndarray, gpu.arrays))


def as_dtype(dtype: Any) -> np.dtype:
    """`mg.float32`, `"float32"`, `np.float32` or a Python type as a NumPy dtype; `float` is float32."""
    if dtype is float:
        return default_float
    if not isinstance(dtype, str | type | np.dtype):  # NumPy takes anything that has a dtype: a tensor
        raise ArgumentError(f'a dtype is mg.float32, "float32", ..., got {type(dtype).__name__}.\nPass one.')
    try:
        result = (
            bfloat16 if isinstance(dtype, str) and dtype == "bfloat16" else np.dtype(dtype).newbyteorder("=")
        )  # this machine's order
    except TypeError:
        result = None
    if result not in DTYPES:
        numbers = "" if result is None or result.kind in "iufbcV" else ", which holds no numbers"
        raise DtypeError(
            f"unknown dtype {dtype!r}{numbers}.\n"
            f"Use one of bool, uint8, int8 to int64, float16, bfloat16, float32, float64."
        )
    assert result is not None
    return np.dtype(result.type)  # NumPy's own object, which `is` can compare


def is_dtype(name: str) -> bool:
    """Whether `as_dtype` knows it."""
    try:
        return as_dtype(name) in DTYPES
    except DtypeError:
        return False


def refuse_unconvertible(array: Any, dtype: np.dtype, wraps: bool = True) -> None:
    """A DtypeError where floats become integers and one of them is NaN, infinite or too large; and where an
    integer is too large, unless it `wraps` around."""
    if array.dtype.kind not in "biufV":
        raise DtypeError(f"{array.dtype} cannot be {dtype}.\nGive real numbers.")
    whole = array.dtype.kind in "iub"
    if dtype.kind not in "iu" or not (is_floating(array.dtype) or (whole and not wraps)):
        return
    limits, xp = np.iinfo(dtype), array_module(array)
    if whole:
        lowest = limits.min or -limits.max  # -1 is 255 in uint8, as in PyTorch
        wrong = (array < lowest) | (array > limits.max)
    else:
        array = array.astype(float32) if array.dtype in HALF else array  # whose numbers end before int64's
        wrong = ~((array > float(limits.min) - 1) & (array < float(limits.max) + 1))
        if dtype == int64:
            wrong &= array != float(limits.min)  # float64 has no number just below it
    if wrong.any():
        place = tuple(int(axis[0]) for axis in xp.nonzero(xp.atleast_1d(wrong)))[: array.ndim]
        raise DtypeError(
            f"{array[place]} at index {list(place)} cannot be {dtype}.\n"
            f"Replace it first (x.nan_to_num(), x.clamp(...)), or choose another dtype."
        )


def finfo(dtype: np.dtype) -> Any:
    """The limits of a floating dtype (np.finfo, which does not know bfloat16)."""
    return ml_dtypes.finfo(dtype)


def is_floating(dtype: np.dtype) -> bool:
    return dtype.kind in "fV"  # to NumPy bfloat16 is not a float but of kind "V"


def plain_number(x: Any) -> Any:
    """A NumPy number as a Python number, which widens no dtype; anything else as it is."""
    return x.item() if isinstance(x, np.generic) else x


def _promote(a: np.dtype | None, b: np.dtype | None) -> np.dtype | None:
    """The dtype of two operands of the same rank (both arrays, both 0-d, or both numbers)."""
    if a is None or b is None:
        return a if b is None else b
    if _KINDS[a.kind] != _KINDS[b.kind]:
        return max(a, b, key=lambda dtype: _KINDS[dtype.kind])
    if a != b and {a, b} == HALF:
        return float32
    return np.promote_types(a, b)


def _override(high: np.dtype | None, low: np.dtype | None) -> np.dtype | None:
    """`high` decides, unless `low` is of a higher kind (an integer tensor and a float scalar)."""
    if high is None or low is None:
        return low if high is None else high
    return low if _KINDS[low.kind] > _KINDS[high.kind] else high


def result_type(*operands: Any) -> np.dtype:
    """PyTorch's promotion of arrays and Python numbers: arrays decide, then 0-d arrays, then numbers."""
    arrays: np.dtype | None = None
    scalars: np.dtype | None = None
    numbers: np.dtype | None = None
    for x in operands:
        if isinstance(x, bool):
            numbers = _promote(numbers, bool_)
        elif isinstance(x, int):
            numbers = _promote(numbers, int64)
        elif isinstance(x, float):
            numbers = _promote(numbers, default_float)
        elif x.ndim == 0:
            scalars = _promote(scalars, x.dtype)
        else:
            arrays = _promote(arrays, x.dtype)
    result = _override(_override(arrays, scalars), numbers)
    assert result is not None
    return result
