"""Reads the safetensors files of a folder: one file, or shards with an index. Nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minigrad.core import dtypes  # noqa: F401 (makes "bfloat16" known to NumPy)
from minigrad.io import DTYPES

from ..errors import counted
from ..files import printable, shell_command
from .errors import PretrainedError
from .settings import read_object

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")  # files that execute code when PyTorch reads them
OTHER_FORMATS = (".gguf", ".h5", ".msgpack", ".onnx", ".npz")
FLOATS = ("float64", "float32", "float16", "bfloat16")
CHUNK = 2**24  # how many numbers are compared at once


class StoredTensor(NamedTuple):
    """Where a tensor is stored: its file, dtype and shape, and its byte offset in the file."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


def stored_tensors(folder: Path, architecture: str = "") -> dict[str, StoredTensor]:
    """All tensors in a folder's safetensors files, by name. Only the headers of the files are read.

    If there are no such files, a PretrainedError has a command that converts other files. `architecture` is
    the class of transformers in this command.
    """
    if (folder / WEIGHTS).is_file():
        return header_of(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        return _sharded(folder)
    raise PretrainedError(_no_weights(folder, architecture))


def header_of(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a safetensors file, by name. Raise a PretrainedError if the file is damaged.

    The library checks the header: sizes, offsets and overlaps.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with open(path, "rb") as file:
            position = 8 + int.from_bytes(file.read(8), "little")
        with safe_open(path, "np") as content:
            slices = {name: content.get_slice(name) for name in content.offset_keys()}
            found = {}
            for name, each in slices.items():  # tensors are in the order of their offsets, without gaps
                dtype = DTYPES.get(each.get_dtype(), "")
                if not dtype:
                    raise PretrainedError(
                        f"{path}: {name} has the dtype {each.get_dtype()}, which is "
                        f"not supported.\n"
                        f"Load a model with weights in float32, float16 or bfloat16."
                    )
                shape = tuple(each.get_shape())
                found[name] = StoredTensor(path, dtype, shape, position)
                position += int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
            return found
    except (SafetensorError, OSError, OverflowError) as error:
        problem = f"{path} is not a safetensors file, or is damaged: {error}"
        raise PretrainedError(f"{problem}.\nDownload it again.") from None


def _sharded(folder: Path) -> dict[str, StoredTensor]:
    path = folder / INDEX
    shards = read_object(path).get("weight_map")
    if not isinstance(shards, dict):
        raise PretrainedError(f"{path} has no weight_map.\nDownload it again.")
    found: dict[str, StoredTensor] = {}
    for shard in dict.fromkeys(shards.values()):
        if not isinstance(shard, str) or Path(shard).name != shard or "\\" in shard or shard == "..":
            raise PretrainedError(
                f"{path} names the file {shard!r}, which is not a file of the same "
                f"folder.\n"
                f"Download the folder again, from a source that you trust."
            )
        if not (folder / shard).is_file():
            raise PretrainedError(
                f"{folder / shard} is missing; {INDEX} lists it.\n"
                f"Download all files of the model into one folder."
            )
        found |= header_of(folder / shard)
    return found


def _no_weights(folder: Path, architecture: str) -> str:
    """The error message for a folder that has no safetensors files."""
    names = sorted(path.name for path in folder.iterdir())
    pickled = [name for name in names if name.endswith(PICKLES)]
    if pickled:
        target = folder.with_name(f"{folder.resolve().name}-safetensors")
        code = (
            f"from transformers import {architecture or 'AutoModel'} as M, AutoTokenizer as T; "
            f"M.from_pretrained({str(folder)!r}).save_pretrained({str(target)!r}); "
            f"T.from_pretrained({str(folder)!r}).save_pretrained({str(target)!r})"
        )
        return (
            f"{folder} has its weights in {pickled[0]}, a pickle, which can execute "
            f"code; expected {WEIGHTS}.\n"
            f"Convert it, if you trust it, where PyTorch and transformers are installed: "
            f"{shell_command(['python', '-c', code])}"
        )
    others = [name for name in names if name.endswith(OTHER_FORMATS)]
    found = f"its weights are in {others[0]}" if others else f"found {', '.join(names[:6]) or 'nothing'}"
    return (
        f"{folder} has no {WEIGHTS}: {found}.\n"
        f"Download the model's {WEIGHTS} (or its shards and {INDEX}), config.json and tokenizer files."
    )


def read(tensor: StoredTensor, dtype: str) -> np.ndarray:
    """Read a tensor, and convert it to a floating-point dtype if it has another one."""
    return np.array(map_tensor(tensor), dtype)


def map_tensor(tensor: StoredTensor) -> np.ndarray:
    """Map a tensor into memory. The file is read when the array is used; changes do not reach the file."""
    return np.memmap(tensor.file, tensor.dtype, "c", tensor.offset, tensor.shape)


def are_equal(a: StoredTensor, b: StoredTensor) -> bool:
    """Whether two tensors have the same shape, dtype and bytes."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    first, second = (map_tensor(each).reshape(-1) for each in (a, b))
    return all(
        np.array_equal(first[i : i + CHUNK], second[i : i + CHUNK]) for i in range(0, first.size, CHUNK)
    )


def listed(names: Iterable[str], most: int = 20) -> str:
    """Join names in a line. After the first `most`, the number of others follows."""
    names = list(names)
    rest = f" and {counted(len(names) - most, 'other')}" if len(names) > most else ""
    return printable(", ".join(names[:most]) + rest)
