"""Functions that read and write safetensors files, which contain numbers and no code."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .core.devices import check_device, on_cpu, on_device
from .core.errors import FileError, MissingFileError, UnwritableFileError
from .core.tensor import Tensor
from .ops.checked import check_all

# safetensors' names of dtypes -> NumPy's
DTYPES = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
}  # fmt: skip


TEMPORARY = ".minigrad"  # the suffix of files that are being written
LEFTOVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}" + re.escape(TEMPORARY))  # a killed process's file


def temporary_name(name: str) -> str:
    """Return a unique name for a file or folder that is not complete yet."""
    return f".{name}.{os.urandom(4).hex()}{TEMPORARY}"


def write_new(path: Path, content: bytes) -> None:
    """Write a new file, and wait until its content is on the disk. After an error, the file is deleted."""
    with open(path, "xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno and error.filename is None:
                error.filename = str(path)  # the error of a full disk has none
            raise


def write_temporary(path: Path, content: bytes) -> Path:
    """Write a new file beside `path`, to be renamed to `path`. Return its path."""
    temporary = path.with_name(temporary_name(path.name))
    write_new(temporary, content)
    return temporary


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that a power failure does not undo a rename."""
    if os.name == "nt":  # folders cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, unless it exists, and wait until its name is on the disk."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)


def replace(source: Path, target: Path) -> None:
    """Rename a complete file or folder, and wait until its new name is on the disk."""
    os.replace(source, target)
    sync_folder(target.parent)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file atomically: at any time, even after a crash, it has either the old or the new content."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = write_temporary(path, content)
    try:
        replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def save_file(tensors: Mapping[str, Any], path: str | Path, metadata: dict[str, str] | None = None) -> None:
    """Write named tensors to a safetensors file, atomically.

    Nested dictionaries, also in lists, as in an optimizer's state, are flattened to names such as
    `state.0.step`. An optimizer's options that are not numbers (None, names) are left out, since its
    constructor sets them.

    >>> mg.save_file({"w": mg.ones(2)}, "weights.safetensors")
    >>> mg.load_file("weights.safetensors")
    {'w': tensor([1., 1.])}
    """
    content = to_bytes(tensors, metadata)
    try:
        if not Path(path).parent.is_dir():  # not created, as in PyTorch, since the path may be misspelt
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {Path(path).parent}")
        write_atomically(path, content)
    except OSError as error:
        message = (
            f"{path} cannot be written: {error.strerror or error}.\nCheck the folder and its permissions."
        )
        refused = UnwritableFileError(message)
        refused.errno = error.errno
        refused.strerror = error.strerror
        refused.filename = error.filename
        raise refused from error


def to_bytes(tensors: Mapping[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """Return the content of the file that `save_file` writes."""
    from safetensors import SafetensorError
    from safetensors.numpy import save

    arrays = {
        name: np.asarray(on_cpu(t.array if isinstance(t, Tensor) else t), order="C")
        for name, t in by_path(tensors)
    }
    arrays = {
        name: array
        for name, array in arrays.items()
        if not (name.startswith("param_groups.") and array.dtype.kind in "OU")
    }
    try:
        return save(arrays, metadata)
    except SafetensorError as error:
        raise FileError(
            f"the tensors cannot be saved: {error}.\nPass tensors or arrays of numbers."
        ) from None


def by_path(tensors: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the (path, value) pairs of a nested dictionary, with paths such as `state.0.step`."""
    for name, value in tensors.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            value = dict(enumerate(value))
        if isinstance(value, Mapping):
            yield from by_path(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def load_file(path: str | Path, device: str | None = None) -> dict[str, Tensor]:
    """Read the named tensors of a safetensors file onto the CPU or another device."""
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(
            f"there is no file {path}.\nCheck the path; save_file(tensors, path) writes one."
        )
    check_size(path)
    return load_bytes(path.read_bytes(), path, device)


HEADER_LIMIT = 2**25  # the most bytes of a header, which has names, dtypes and shapes


def check_size(path: str | Path) -> None:
    """Raise a FileError if a safetensors file has another size than its header says."""
    if not os.path.isfile(path):  # opening a pipe would wait
        return
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        problem = f"it has {size:,} bytes, but a header of {length:,}"
        if 8 + length <= size and length <= HEADER_LIMIT:
            try:
                header = json.loads(file.read(length))
                ends = [t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"]
                expected = 8 + length + max(ends, default=0)
                problem = (
                    "" if expected == size else f"it has {size:,} bytes, but its header says {expected:,}"
                )
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
                problem = "its header cannot be read"
    if problem:
        raise FileError(
            f"{path} is not a safetensors file, or is damaged: {problem}.\nUse another copy of it."
        )


def load_bytes(content: bytes, name: str | Path, device: str | None = None) -> dict[str, Tensor]:
    """Return the named tensors in the content of a safetensors file; `name` is for errors."""
    from safetensors import SafetensorError, deserialize

    device = check_device(device)
    try:
        arrays = {
            key: np.frombuffer(t["data"], DTYPES[t["dtype"]]).reshape(t["shape"])
            for key, t in deserialize(content)
        }
    except (SafetensorError, KeyError, ValueError) as error:  # a KeyError if NumPy lacks the dtype
        message = f"{name} is not a safetensors file, or is damaged: {error}.\nUse another copy of it."
        raise FileError(message) from None
    return {key: Tensor(on_device(array, device)) for key, array in arrays.items()}


check_all(globals(), ["save_file", "load_file"])
