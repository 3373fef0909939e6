"""PyTorch's names for constants, tensor predicates and defaults.

What minigrad does not have, and what to use instead, is in `missing_names`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import devices, dtypes
from ..core.devices import address_of, check_device
from ..core.dtypes import as_dtype, default_float, is_floating
from ..core.errors import DtypeError, OptionError
from ..core.modes import is_grad_enabled, no_grad, set_grad_enabled
from ..core.tensor import Tensor, tensor
from ..ops.checked import check_all
from ..ops.creation import empty

__all__ = [
    "BoolTensor", "ByteTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor",
    "channels_last", "contiguous_format", "dtype", "e", "finfo", "get_default_device",
    "get_default_dtype", "iinfo", "inf", "inference_mode", "is_complex", "is_floating_point", "is_tensor",
    "nan", "newaxis", "numel", "pi", "preserve_format", "set_default_device", "set_default_dtype",
    "use_deterministic_algorithms",
]  # fmt: skip

pi = math.pi
e = math.e
inf = math.inf
nan = math.nan
newaxis = None
dtype = np.dtype
contiguous_format = "contiguous_format"
preserve_format = "preserve_format"
channels_last = "channels_last"


def is_tensor(obj: Any) -> bool:
    """Whether something is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether a tensor's dtype is floating."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """False: no tensor is complex."""
    return False


def numel(input: Tensor) -> int:
    """How many elements a tensor has."""
    return input.numel()


def finfo(dtype: Any = default_float) -> Any:
    """The limits of a floating dtype: eps, max, min, tiny, ..."""
    if not is_floating(as_dtype(dtype)):
        raise DtypeError(f"finfo takes a floating dtype, got {as_dtype(dtype)}.\nUse mg.iinfo.")
    return dtypes.finfo(as_dtype(dtype))


def iinfo(dtype: Any) -> Any:
    """The limits of an integer dtype: max, min, bits."""
    if as_dtype(dtype).kind not in "iu":
        raise DtypeError(f"iinfo takes an integer dtype, got {as_dtype(dtype)}.\nUse mg.finfo.")
    return np.iinfo(as_dtype(dtype))


def inference_mode(mode: bool | Callable = True) -> Any:
    """`no_grad`, for a `with` or as a decorator; what is computed under it is an ordinary tensor."""
    if callable(mode):
        return no_grad()(mode)
    return no_grad() if mode else set_grad_enabled(is_grad_enabled())


# ---------------------------------------------------------------- old ways to make a tensor


def _maker(name: str, dtype: np.dtype) -> Callable[..., Tensor]:
    def make(*data: Any) -> Tensor:
        is_data = len(data) == 1 and not isinstance(data[0], int | devices.Size)
        return tensor(data[0], dtype=dtype) if is_data else empty(*(data or [0]), dtype=dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`tensor(data, dtype='{dtype}')`, or a tensor of such sizes whose numbers are not set."
    make.makes = dtype  # type: ignore[attr-defined]
    return make


FloatTensor = _maker("FloatTensor", dtypes.float32)
DoubleTensor = _maker("DoubleTensor", dtypes.float64)
HalfTensor = _maker("HalfTensor", dtypes.float16)
ByteTensor = _maker("ByteTensor", dtypes.uint8)
IntTensor = _maker("IntTensor", dtypes.int32)
LongTensor = _maker("LongTensor", dtypes.int64)
BoolTensor = _maker("BoolTensor", dtypes.bool_)


# ---------------------------------------------------------------- defaults, which stay what they are


def get_default_dtype() -> np.dtype:
    """float32: the dtype of tensors made from Python floats."""
    return default_float


def set_default_dtype(d: Any) -> None:
    """Accepts float32 only, which it always is."""
    if as_dtype(d) != default_float:
        raise OptionError(
            f"the default dtype is float32, got {d}.\n"
            f"Say it where a tensor is made, mg.zeros(3, dtype='float64'), or convert a model, model.double()"
        )


def get_default_device() -> devices.Device:
    """The CPU: where tensors are made."""
    return devices.CPU


def set_default_device(device: Any) -> None:
    """Accepts the CPU only, which it always is."""
    if device is not None and check_device(device) != devices.CPU:
        raise OptionError(
            f"tensors are made on the CPU, got {device}.\n"
            f"Say it where a tensor is made, mg.zeros(3, device='cuda'), or move a model, model.to('cuda')."
        )


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Changes nothing: on the CPU, a program that is run again computes the same numbers."""


# ---------------------------------------------------------------- methods of Tensor


def type_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the other tensor's dtype and on its device; x itself where nothing changes."""
    return x.to(other)


def in_type(x: Tensor, dtype: Any, non_blocking: bool = False) -> Tensor:
    """x in another dtype, which may be named `mg.LongTensor`; `non_blocking` is ignored."""
    return x.to(getattr(dtype, "makes", dtype))


def data_ptr(x: Tensor) -> int:
    """The address of the first element."""
    return address_of(x.array)


def get_device(x: Tensor) -> int:
    """The number of the GPU that x is on, -1 on the CPU."""
    number = x.device.index
    return -1 if number is None else number


def cpu(x: Tensor) -> Tensor:
    """x on the CPU: x itself where it is there already."""
    return x.to("cpu")


def cuda(x: Tensor) -> Tensor:
    """x on the GPU in use: x itself where it is there already."""
    return x.to("cuda")


def element_size(x: Tensor) -> int:
    """Bytes of one element."""
    return x.array.itemsize


def stride(x: Tensor) -> tuple[int, ...]:
    """How many elements lie between neighbours along each axis."""
    return tuple(step // x.array.itemsize for step in x.array.strides)


def is_contiguous(x: Tensor) -> bool:
    """Whether the elements are contiguous in row-major order."""
    return x.array.flags.c_contiguous


METHODS: dict[str, Callable[..., Any]] = {
    "type": in_type, "type_as": type_as, "cpu": cpu, "cuda": cuda, "get_device": get_device,
    "data_ptr": data_ptr, "element_size": element_size, "stride": stride, "is_contiguous": is_contiguous,
    "is_complex": is_complex, "nelement": numel,
}  # fmt: skip


def is_cuda(x: Tensor) -> bool:
    """Whether x is on a GPU."""
    return x.device != devices.CPU


PROPERTIES: dict[str, Callable[..., Any]] = {"is_cuda": is_cuda}

check_all(globals(), __all__)
