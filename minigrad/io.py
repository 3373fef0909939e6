"""Tensors in safetensors files, which hold numbers and cannot hold code."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .devices import check_device, on_cpu, on_device
from .errors import FileError, MissingFileError
from .tensor import Tensor


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, finds either the old content or the new."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)  # which the error of a full disk does not name
        raise


def save_file(
    tensors: Mapping[str, Tensor | np.ndarray], path: str | Path, metadata: dict[str, str] | None = None
) -> None:
    """Write named tensors to a safetensors file, atomically."""
    from safetensors.numpy import save

    arrays = {
        name: np.asarray(on_cpu(t.array if isinstance(t, Tensor) else t), order="C")
        for name, t in tensors.items()
    }
    write_atomically(path, save(arrays, metadata))


def load_file(path: str | Path, device: str | None = None) -> dict[str, Tensor]:
    """Read the named tensors of a safetensors file, to the CPU or another device."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not Path(path).is_file():
        raise MissingFileError(
            f"there is no file {path}.\nCheck the path; save_file(tensors, path) writes one."
        )
    try:
        device = check_device(device)
        return {name: Tensor(on_device(array, device)) for name, array in load_file(str(path)).items()}
    except SafetensorError as error:
        message = f"{path} is not a safetensors file, or is truncated: {error}.\nUse another copy of it."
        raise FileError(message) from None
