"""Devices, and the array libraries that compute on them.

A tensor is on the device of its array. An array backend adds one kind of device: its array library, and
copies to and from CPU memory. NumPy is the backend that is always available. Other code calls the functions
below (`array_module(x)`, `device_of(x)`, ...), which ask the backend of the array.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import ArgumentError, DependencyError, DeviceError, OptionError


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
    """A shape (torch.Size): a tuple with `numel()`."""

    __slots__ = ()

    def numel(self) -> int:
        """How many elements a tensor of this shape has."""
        return math.prod(self)


# ---------------------------------------------------------------- backends


class ArrayBackend:
    """An array library with NumPy's names, and the devices that its arrays are on.

    A backend is a subclass with the methods below. One instance of it is registered. Its library is
    imported when its device is first used; until then `library` and `arrays` are empty.
    """

    kind = ""  # the kind of its devices: "cuda" in "cuda:0"
    package = ""  # the package that defines its arrays
    library: Any = None
    arrays: Any = ()  # the class of its arrays

    def import_library(self) -> Any:
        """Import and return the library, or raise a DependencyError."""
        raise NotImplementedError

    def load(self) -> Any:
        """The library, imported on first use."""
        if self.library is None:
            library = self.import_library()
            self.library = library
            self.arrays = library.ndarray
            register(self)
        return self.library

    def own_functions(self) -> dict[str, Any]:
        """The functions that the backend implements itself, by their names in `namespace(x)`."""
        return {}

    def device_count(self) -> int:
        """Return the number of devices. Raise a DeviceError if there is none, a DependencyError if the
        library is not installed."""
        raise NotImplementedError

    def device_in_use(self) -> int:
        """The index of the current device."""
        raise NotImplementedError

    def use(self, device: str) -> None:
        """Make a device the current one."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until the current device has finished its work."""

    def device_of(self, array: Any) -> Device:
        """The device that an array of the backend is on."""
        raise NotImplementedError

    def upload(self, array: Any, device: str) -> Any:
        """A copy, on `device`, of a NumPy array or of the backend's array on another device."""
        raise NotImplementedError

    def download(self, array: Any, operation: str) -> np.ndarray:
        """A NumPy copy of an array; `operation`, what the user called, is for errors."""
        raise NotImplementedError

    def is_writeable(self, array: Any) -> bool:
        """Whether an array can be written to, with no two of its elements sharing memory."""
        raise NotImplementedError

    def address_of(self, array: Any) -> int:
        """The address of an array's first element."""
        raise NotImplementedError


class NumPyBackend(ArrayBackend):
    """NumPy, on the CPU: its arrays need no copies."""

    kind = "cpu"
    package = "numpy"
    library = np
    arrays = np.ndarray

    def device_count(self) -> int:
        return 1

    def use(self, device: str) -> None:
        pass

    def device_of(self, array: Any) -> Device:
        return CPU

    def upload(self, array: Any, device: str) -> Any:
        return array

    def download(self, array: Any, operation: str) -> np.ndarray:
        return array

    def is_writeable(self, array: Any) -> bool:
        return array.flags.writeable

    def address_of(self, array: Any) -> int:
        return array.__array_interface__["data"][0]


NUMPY = NumPyBackend()
backends: dict[str, ArrayBackend] = {"cpu": NUMPY}  # by device kind
loaded: list[ArrayBackend] = []  # the backends other than NumPy's whose library is imported


def register(backend: ArrayBackend) -> None:
    """Register a backend, replacing any other for that kind of device."""
    backends[backend.kind] = backend
    loaded[:] = [x for x in backends.values() if x is not NUMPY and x.library is not None]


def find_backend(kind: str) -> ArrayBackend:
    """Return the backend for a kind of device, or raise a DependencyError if none is registered."""
    if kind not in backends:
        raise DependencyError(
            f"no array backend for device {kind!r} is registered.\n"
            f"Import the part of minigrad that provides one, or use the CPU: device='cpu'."
        )
    return backends[kind]


def backend_of(array: Any) -> ArrayBackend:
    """The backend of an array; NumPy's for anything else."""
    for backend in loaded:
        if isinstance(array, backend.arrays):
            return backend
    return NUMPY


def kind_of(arrays: Iterable[Any]) -> str:
    """The device kind of arrays (numbers and None are ignored): "cpu", or "cuda" if one is on a GPU."""
    for backend in loaded:
        if any(isinstance(x, backend.arrays) for x in arrays):
            return backend.kind
    return NUMPY.kind


# ---------------------------------------------------------------- devices


def is_available(kind: str = "cuda") -> bool:
    """Whether a device of that kind can be used (torch.cuda.is_available)."""
    try:
        return find_backend(kind).device_count() > 0
    except (DependencyError, DeviceError):
        return False


def check_device(device: str | None, index: int | None = None) -> Device:
    """Return the device's full name, "cpu" or "cuda:0", or raise an error if there is no such device.

    "cuda" is the current GPU, initially number 0; "auto" is that GPU if there is one, else the CPU.
    """
    if not isinstance(device, str | None):
        shown = " ".join(repr(device).split())
        raise ArgumentError(f"device must be a string, got {shown:.80}.\nPass 'cpu', 'cuda', ... or 'auto'.")
    if device in (None, "cpu"):
        return CPU
    if device == "auto":
        return check_device(next(filter(is_available, sorted(backends.keys() - {"cpu"})), "cpu"))
    if index is not None:
        device = f"{device}:{index}"
    kind, colon, number = device.partition(":")
    if kind not in {"cuda", *backends} - {"cpu"} or (colon and not number.isdecimal()):
        raise OptionError(f"unknown device {device!r}.\nPass 'cpu', 'cuda', 'cuda:0', ... or 'auto'.")
    backend = find_backend(kind)
    count = backend.device_count()
    index = int(number) if number else backend.device_in_use()
    if index >= count:
        raise DeviceError(
            f"there is no {device!r}: this machine has {count} GPUs, counted from 0.\n"
            f"Pass {kind!r} for the current GPU, or a smaller number."
        )
    return Device(f"{kind}:{index}")


def is_device_name(name: str) -> bool:
    """Whether a string names a device (with any index) rather than a dtype."""
    return name.partition(":")[0] in {"auto", "cuda", *backends}


def library_of(device: str) -> Any:
    """The array library of a device (named by `check_device`), which becomes the current device."""
    backend = find_backend(device.partition(":")[0])
    backend.use(device)
    return backend.library


# ---------------------------------------------------------------- arrays


def is_array(x: Any) -> bool:
    """Whether x is an array of NumPy or another backend."""
    return isinstance(x, np.ndarray) or backend_of(x) is not NUMPY


def array_module(array: Any) -> Any:
    """The library of an array."""
    return backend_of(array).library


def device_of(array: Any) -> Device:
    """The device that an array is on."""
    return backend_of(array).device_of(array)


def on_device(array: Any, device: str) -> Any:
    """Return an array if it is on `device` (a name from `check_device`), else a copy of it there.

    A process uses one device of a kind at a time: naming another makes that the current one.
    """
    if device_of(array) == device:
        return array
    backend = find_backend(device.partition(":")[0])
    if backend is not backend_of(array):
        array = on_cpu(array)
    return backend.upload(array, device)


def on_cpu(array: Any, operation: str = "a copy to the CPU") -> Any:
    """An array as a NumPy array: itself, or a copy from another device; `operation` is for errors."""
    return backend_of(array).download(array, operation)


def to_device_of(array: Any, other: Any) -> Any:
    """`array` on the device of the array `other`: itself, or a copy."""
    return on_device(array, device_of(other))


def through_cpu(compute: Any, *operands: Any) -> Any:
    """compute(*operands) with NumPy only: other arrays are copied to the CPU, and results copied back."""
    elsewhere = next((x for x in operands if backend_of(x) is not NUMPY), None)
    if elsewhere is None:
        return compute(*operands)
    results = compute(*map(on_cpu, operands))
    if isinstance(results, tuple):
        return tuple(to_device_of(np.asarray(result), elsewhere) for result in results)
    return to_device_of(np.asarray(results), elsewhere)


def as_array(x: Any) -> Any:
    """Convert a number or a list to a NumPy array; return arrays of any backend unchanged."""
    if type(x) is np.ndarray:  # most are
        return x
    return np.asarray(x) if backend_of(x) is NUMPY else x


def load_library_of(x: Any) -> None:
    """Load the backend of an array that the user made before the backend's device was first used."""
    package = type(x).__module__.partition(".")[0]
    for backend in backends.values():
        if backend.package == package:
            backend.load()


def is_writeable(array: Any) -> bool:
    """Whether an array can be written to: it is not read-only, and no two elements share memory."""
    return backend_of(array).is_writeable(array)


def address_of(array: Any) -> int:
    """The address of an array's first element."""
    return backend_of(array).address_of(array)
