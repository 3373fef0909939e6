"""CuPy as the array backend for GPUs ("cuda:0" and so on). CuPy is imported when a GPU is first used."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...core.devices import ArrayBackend, Device, array_module, is_array, register
from ...core.dtypes import bfloat16, is_floating
from ...core.errors import DependencyError, DeviceError
from ...ops import array_functions
from ...ops.indices import is_basic
from . import special


class CuPyBackend(ArrayBackend):
    kind = "cuda"
    package = "cupy"

    def import_library(self) -> Any:
        if not find_spec("cupy"):
            raise DependencyError(
                "computing on a GPU needs CuPy, which is not installed.\n"
                "Run pip install 'minitransformer[cuda]' (for CUDA 12: pip install 'cupy-cuda12x[ctk]')."
            )
        try:
            return importlib.import_module("cupy")
        except ImportError as error:
            raise DependencyError(
                f"CuPy is installed but cannot be imported: {' '.join(str(error).split())}.\n"
                f"Install the package for your CUDA version: pip install cupy-cuda13x, or cupy-cuda12x."
            ) from error

    def own_functions(self) -> dict[str, Any]:
        """Return the functions that replace their NumPy-based counterparts."""
        xp = self.library
        return {
            "where": where, "logaddexp": xp.logaddexp, "power": xp.power, "diagonal": xp.diagonal,
            "erf": special.erf, "erfc": special.erfc, "erfcx": special.erfcx, "erfinv": special.erfinv,
            "ndtri": special.ndtri, "scatter_add": scatter_add, "replaced": replaced,
        }  # fmt: skip

    def device_count(self) -> int:
        library = self.load()
        try:
            return library.cuda.runtime.getDeviceCount()
        except RuntimeError as error:
            raise DeviceError(
                f"CuPy finds no usable GPU: {error}.\n"
                f"Install or update NVIDIA's driver (check with `nvidia-smi`), or use the CPU: device='cpu', "
                f"or 'auto', which uses a GPU only if there is one."
            ) from None

    def device_in_use(self) -> int:
        return self.load().cuda.runtime.getDevice()

    def use(self, device: str) -> None:
        self.load().cuda.Device(int(device.partition(":")[2])).use()

    def synchronize(self) -> None:
        self.library.cuda.runtime.deviceSynchronize()

    def device_of(self, array: Any) -> Device:
        return Device(f"cuda:{array.device.id}")

    def upload(self, array: Any, device: str) -> Any:
        self.use(device)
        return self.library.array(array)

    def download(self, array: Any, operation: str) -> np.ndarray:
        """Wait for the GPU, and copy to a NumPy array."""
        return array.get()

    def is_writeable(self, array: Any) -> bool:
        """Whether no two elements share memory: CuPy does not mark the views of `broadcast_to` read-only."""
        return not any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True))

    def address_of(self, array: Any) -> int:
        return array.data.ptr


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y; bfloat16 stays bfloat16, unlike with CuPy's `where`."""
    value = array_module(condition).where(condition, x, y)
    dtypes = {a.dtype for a in (x, y) if is_array(a)}
    return value.astype(bfloat16) if dtypes == {bfloat16} else value


_ATOMIC = {np.dtype(t) for t in ("int32", "uint32", "uint64", "float32", "float64")}


def scatter_add(shape: tuple[int, ...], index: Any, values: Any) -> Any:
    """zeros(shape) with `values` added at `index`; dtypes without atomic addition are converted."""
    if is_basic(index) or values.dtype in _ATOMIC:
        return array_functions.scatter_add(shape, index, values)
    wide = np.float32 if is_floating(values.dtype) else np.uint64  # sums of integers wrap around in any case
    return array_functions.scatter_add(shape, index, values.astype(wide)).astype(values.dtype)


def replaced(x: Any, values: Any, index: Any) -> Any:
    """A copy of x with `values` at `index`; of several values for one element, the last is used.

    The order of writes on a GPU is undefined, so the last values are selected first.
    """
    xp = array_module(x)
    out = xp.array(x, order="C")
    if is_basic(index):
        out[index] = values
        return out
    places = xp.arange(out.size).reshape(out.shape)[index].reshape(-1)
    values = xp.broadcast_to(xp.asarray(values, out.dtype), out[index].shape).reshape(-1)
    order = xp.argsort(places, kind="stable")
    ranked = places[order]
    last = xp.concatenate([ranked[1:] != ranked[:-1], xp.ones(1, bool)])[: ranked.size]
    chosen = order[last]
    flat = out.reshape(-1)
    flat[places[chosen]] = values[chosen]
    return out


register(CuPyBackend())
