"""Devices, and the libraries of arrays that compute on them.

A tensor is where its array is. An array backend brings one kind of device: its library of arrays, and the
copies to and from the CPU's memory. NumPy is the backend that is always there. Other code asks the functions
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
    """A shape (torch.Size): a tuple that can multiply its numbers."""

    __slots__ = ()

    def numel(self) -> int:
        """How many elements a tensor of this shape has."""
        return math.prod(self)


# ---------------------------------------------------------------- backends


class ArrayBackend:
    """A library of arrays with NumPy's names, and the devices that its arrays are on.

    A backend is a subclass with the methods below, and an instance that is registered. Its library is
    imported when its device is first used; until then `library` and `arrays` are empty.
    """

    kind = ""  # of its devices: "cuda" of "cuda:0"
    package = ""  # the package that defines its arrays
    library: Any = None
    arrays: Any = ()  # the class of its arrays

    def import_library(self) -> Any:
        """The library; a DependencyError where it is not installed."""
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
        """Functions for rules that it computes in a way of its own, by the names of `namespace(x)`."""
        return {}

    def device_count(self) -> int:
        """How many devices there are; a DeviceError, or load's DependencyError, if none can be used."""
        raise NotImplementedError

    def device_in_use(self) -> int:
        """The number of the device that computes unless another is named."""
        raise NotImplementedError

    def use(self, device: str) -> None:
        """Make a device the one in use."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until the device in use has finished its work."""

    def device_of(self, array: Any) -> Device:
        """The device that one of its arrays is on."""
        raise NotImplementedError

    def upload(self, array: Any, device: str) -> Any:
        """A copy of a NumPy array, or of one of its own on another device."""
        raise NotImplementedError

    def download(self, array: Any, operation: str) -> np.ndarray:
        """A copy in the CPU's memory; `operation` says what the user called."""
        raise NotImplementedError

    def is_writeable(self, array: Any) -> bool:
        """Whether an array can be written into, and no two of its elements share memory."""
        raise NotImplementedError

    def address_of(self, array: Any) -> int:
        """The address of its first element."""
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
backends: dict[str, ArrayBackend] = {"cpu": NUMPY}  # by the kind of their devices
loaded: list[ArrayBackend] = []  # those beside NumPy whose library is imported


def register(backend: ArrayBackend) -> None:
    """Make a backend known, in place of another for that kind of device."""
    backends[backend.kind] = backend
    loaded[:] = [x for x in backends.values() if x is not NUMPY and x.library is not None]


def find_backend(kind: str) -> ArrayBackend:
    """The backend of a kind of device; a DependencyError where none is registered."""
    if kind not in backends:
        raise DependencyError(
            f"no array backend for device {kind!r} is registered.\n"
            f"Import the part of minigrad that has one, or compute on the CPU: device='cpu'."
        )
    return backends[kind]


def backend_of(array: Any) -> ArrayBackend:
    """The backend of an array; of anything else NumPy's."""
    for backend in loaded:
        if isinstance(array, backend.arrays):
            return backend
    return NUMPY


def kind_of(arrays: Iterable[Any]) -> str:
    """The kind of device that arrays are on, among numbers and None: "cpu", or "cuda" if one is there."""
    for backend in loaded:
        if any(isinstance(x, backend.arrays) for x in arrays):
            return backend.kind
    return NUMPY.kind


# ---------------------------------------------------------------- devices


def is_available(kind: str = "cuda") -> bool:
    """Whether there is a device of that kind to compute on (torch.cuda.is_available)."""
    try:
        return find_backend(kind).device_count() > 0
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
            f"Pass {kind!r} for the GPU in use, or a smaller number."
        )
    return Device(f"{kind}:{index}")


def is_device_name(name: str) -> bool:
    """Whether a string names a device, of whatever number, rather than a dtype."""
    return name.partition(":")[0] in {"auto", "cuda", *backends}


def library_of(device: str) -> Any:
    """The library for arrays on a device that `check_device` named, which becomes the one in use."""
    backend = find_backend(device.partition(":")[0])
    backend.use(device)
    return backend.library


# ---------------------------------------------------------------- arrays


def is_array(x: Any) -> bool:
    """Whether x is an array, of NumPy or of another backend."""
    return isinstance(x, np.ndarray) or backend_of(x) is not NUMPY


def array_module(array: Any) -> Any:
    """The library of an array."""
    return backend_of(array).library


def device_of(array: Any) -> Device:
    """The device that an array is on."""
    return backend_of(array).device_of(array)


def on_device(array: Any, device: str) -> Any:
    """An array on a device that `check_device` named: itself if it is there already, else a copy.

    A process computes on one device of a kind at a time: naming another makes it the one in use.
    """
    if device_of(array) == device:
        return array
    backend = find_backend(device.partition(":")[0])
    if backend is not backend_of(array):
        array = on_cpu(array)
    return backend.upload(array, device)


def on_cpu(array: Any, operation: str = "a copy to the CPU") -> Any:
    """An array as a NumPy array: itself, or a copy of one elsewhere, which the user's `operation` needs."""
    return backend_of(array).download(array, operation)


def to_device_of(array: Any, other: Any) -> Any:
    """`array` on the device of the array `other`: itself, or a copy."""
    return on_device(array, device_of(other))


def through_cpu(compute: Any, *operands: Any) -> Any:
    """compute(*operands), which only NumPy can do: other arrays are copied to the CPU, and results back."""
    elsewhere = next((x for x in operands if backend_of(x) is not NUMPY), None)
    if elsewhere is None:
        return compute(*operands)
    results = compute(*map(on_cpu, operands))
    if isinstance(results, tuple):
        return tuple(to_device_of(np.asarray(result), elsewhere) for result in results)
    return to_device_of(np.asarray(results), elsewhere)


def as_array(x: Any) -> Any:
    """A number, a list or a NumPy array as a NumPy array; another backend's array as it is."""
    if type(x) is np.ndarray:  # most are
        return x
    return np.asarray(x) if backend_of(x) is NUMPY else x


def load_library_of(x: Any) -> None:
    """Make an array known that comes from a backend's library before its device was used."""
    package = type(x).__module__.partition(".")[0]
    for backend in backends.values():
        if backend.package == package:
            backend.load()


def is_writeable(array: Any) -> bool:
    """Whether an array can be written into: it may, and no two of its elements share memory."""
    return backend_of(array).is_writeable(array)


def address_of(array: Any) -> int:
    """The address of an array's first element."""
    return backend_of(array).address_of(array)
