"""PyTorch's names for constants, tensor predicates and defaults.

For names that minigrad does not have, see `missing_names`.
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
from ..core.modes import enable_grad, no_grad
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
    """Return whether an object is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Return whether a tensor's dtype is floating."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Return False: there are no complex tensors."""
    return False


def numel(input: Tensor) -> int:
    """Return the number of elements."""
    return input.numel()


def finfo(dtype: Any = default_float) -> Any:
    """Return the limits of a floating dtype: eps, max, min, tiny, ..."""
    if not is_floating(as_dtype(dtype)):
        raise DtypeError(f"finfo takes a floating dtype, got {as_dtype(dtype)}.\nUse mg.iinfo.")
    return dtypes.finfo(as_dtype(dtype))


def iinfo(dtype: Any) -> Any:
    """Return the limits of an integer dtype: max, min, bits."""
    if as_dtype(dtype).kind not in "iu":
        raise DtypeError(f"iinfo takes an integer dtype, got {as_dtype(dtype)}.\nUse mg.finfo.")
    return np.iinfo(as_dtype(dtype))


def inference_mode(mode: bool | Callable = True) -> Any:
    """`no_grad`, or `enable_grad` if `mode` is False (torch.inference_mode); results are ordinary tensors."""
    if callable(mode):
        return no_grad()(mode)
    return no_grad() if mode else enable_grad()


# ---------------------------------------------------------------- legacy constructors


def _maker(name: str, dtype: np.dtype) -> Callable[..., Tensor]:
    def make(*data: Any) -> Tensor:
        is_data = len(data) == 1 and not isinstance(data[0], int | devices.Size)
        return tensor(data[0], dtype=dtype) if is_data else empty(*(data or [0]), dtype=dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`tensor(data, dtype='{dtype}')`, or an uninitialized tensor of the given sizes."
    make.makes = dtype  # type: ignore[attr-defined]
    return make


FloatTensor = _maker("FloatTensor", dtypes.float32)
DoubleTensor = _maker("DoubleTensor", dtypes.float64)
HalfTensor = _maker("HalfTensor", dtypes.float16)
ByteTensor = _maker("ByteTensor", dtypes.uint8)
IntTensor = _maker("IntTensor", dtypes.int32)
LongTensor = _maker("LongTensor", dtypes.int64)
BoolTensor = _maker("BoolTensor", dtypes.bool_)


# ---------------------------------------------------------------- defaults, which cannot be changed


def get_default_dtype() -> np.dtype:
    """Return float32, the dtype of tensors made from Python floats."""
    return default_float


def set_default_dtype(d: Any) -> None:
    """Accept only float32, which is always the default."""
    if as_dtype(d) != default_float:
        raise OptionError(
            f"the default dtype must be float32, got {d}.\n"
            f"Pass dtype= when making a tensor, mg.zeros(3, dtype='float64'), or use model.double()."
        )


def get_default_device() -> devices.Device:
    """Return the CPU, where tensors are made."""
    return devices.CPU


def set_default_device(device: Any) -> None:
    """Accept only the CPU, which is always the default."""
    if device is not None and check_device(device) != devices.CPU:
        raise OptionError(
            f"the default device must be the CPU, got {device}.\n"
            f"Pass device= when making a tensor, mg.zeros(3, device='cuda'), or use model.to('cuda')."
        )


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Do nothing: on the CPU, results are always deterministic."""


# ---------------------------------------------------------------- methods of Tensor


def type_as(x: Tensor, other: Tensor) -> Tensor:
    """Convert x to the other tensor's dtype and device, or return x itself if nothing changes."""
    return x.to(other)


def to_type(x: Tensor, dtype: Any, non_blocking: bool = False) -> Tensor:
    """Convert x to another dtype, which may be given as `mg.LongTensor`; `non_blocking` is ignored."""
    return x.to(getattr(dtype, "makes", dtype))


def data_ptr(x: Tensor) -> int:
    """Return the address of the first element."""
    return address_of(x.array)


def get_device(x: Tensor) -> int:
    """Return the index of x's GPU, or -1 on the CPU."""
    number = x.device.index
    return -1 if number is None else number


def cpu(x: Tensor) -> Tensor:
    """Copy x to the CPU, or return x itself if it is there already."""
    return x.to("cpu")


def cuda(x: Tensor) -> Tensor:
    """Copy x to the current GPU, or return x itself if it is there already."""
    return x.to("cuda")


def element_size(x: Tensor) -> int:
    """Return the number of bytes per element."""
    return x.array.itemsize


def stride(x: Tensor) -> tuple[int, ...]:
    """Return the strides along each axis, in elements."""
    return tuple(step // x.array.itemsize for step in x.array.strides)


def is_contiguous(x: Tensor) -> bool:
    """Return whether the elements are contiguous in row-major order."""
    return x.array.flags.c_contiguous


METHODS: dict[str, Callable[..., Any]] = {
    "type": to_type, "type_as": type_as, "cpu": cpu, "cuda": cuda, "get_device": get_device,
    "data_ptr": data_ptr, "element_size": element_size, "stride": stride, "is_contiguous": is_contiguous,
    "is_complex": is_complex, "nelement": numel,
}  # fmt: skip


def is_cuda(x: Tensor) -> bool:
    """Whether x is on a GPU."""
    return x.device != devices.CPU


PROPERTIES: dict[str, Callable[..., Any]] = {"is_cuda": is_cuda}

check_all(globals(), __all__)
