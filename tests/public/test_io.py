"""Files of tensors: what is written is read, and a failed write leaves the old file."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad import io, load_file, save_file
from minigrad.core.errors import FileError, MissingFileError

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_saved_tensors_are_loaded_unchanged(tmp_path, dtype, shape):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    save_file({"x": mg.tensor(array), "y": array}, tmp_path / "t.safetensors")
    for read in load_file(tmp_path / "t.safetensors").values():
        np.testing.assert_array_equal(read.array, array)
        assert (read.dtype, read.shape) == (array.dtype, array.shape)


@pytest.mark.parametrize("odd", [lambda a: a.T, lambda a: a[:, ::2], lambda a: a[::-1]])
def test_memory_layout_does_not_change_results(tmp_path, odd):
    array = odd(np.arange(12.0).reshape(3, 4))
    save_file({"x": array}, tmp_path / "t.safetensors")
    np.testing.assert_array_equal(load_file(tmp_path / "t.safetensors")["x"].array, array)


def test_loaded_tensors_are_writable(tmp_path):
    save_file({"x": mg.ones(2)}, tmp_path / "t.safetensors")
    assert load_file(tmp_path / "t.safetensors")["x"].add_(1).tolist() == [2, 2]


def test_saved_files_are_read_by_the_safetensors_library(tmp_path):
    from safetensors import safe_open

    save_file({"x": mg.ones(2)}, tmp_path / "t.safetensors", metadata={"step": "3"})
    with safe_open(tmp_path / "t.safetensors", framework="np") as file:
        assert file.metadata() == {"step": "3"}
        assert file.get_tensor("x").tolist() == [1, 1]


def test_saving_into_a_missing_folder_raises(tmp_path):
    for error in (OSError, mg.MinigradError, FileError):
        with pytest.raises(error, match=r"there is no folder .*missing[\s\S]*Check the folder"):
            save_file({"x": mg.ones(2)}, tmp_path / "missing" / "t.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, where):
    path = tmp_path / "t.safetensors"
    save_file({"x": mg.ones(2)}, path)

    def fails(*args):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, where, fails)
    with pytest.raises(OSError, match="disk is full"):
        save_file({"x": mg.zeros(2)}, path)
    assert load_file(path)["x"].tolist() == [1, 1]
    assert os.listdir(tmp_path) == [path.name]


def test_a_reader_never_sees_half_a_file(tmp_path, monkeypatch):
    path = tmp_path / "t.txt"
    io.write_atomically(path, b"old")
    seen = []
    replace = os.replace

    def watched(source, target):
        seen.append((path.read_bytes(), Path(source).read_bytes()))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    io.write_atomically(path, b"new")
    assert seen == [(b"old", b"new")]
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("content", [b"", b"hello", None])
def test_damaged_files_are_rejected(tmp_path, content):
    path = tmp_path / "t.safetensors"
    save_file({"x": mg.ones(200)}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(FileError, match=r"t\.safetensors[\s\S]*damaged[\s\S]*another copy"):
        load_file(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MissingFileError, match=r"no file .*t\.safetensors"):
        load_file(tmp_path / "t.safetensors")
    with pytest.raises(FileNotFoundError):
        load_file(tmp_path)


def test_files_obey_the_umask(tmp_path):
    path = tmp_path / "t.txt"
    before = os.umask(0o027)
    try:
        io.write_atomically(path, b"new")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_is_replaced_and_not_followed(tmp_path):
    other = tmp_path / "other.txt"
    other.write_bytes(b"old")
    (tmp_path / "t.txt").symlink_to(other)
    io.write_atomically(tmp_path / "t.txt", b"new")
    assert other.read_bytes() == b"old"
    assert (tmp_path / "t.txt").read_bytes() == b"new"


def test_load_bytes_matches_load_file(tmp_path):
    path = tmp_path / "t.safetensors"
    save_file({"x": mg.ones((2, 3)), "y": mg.ones(2).to("bfloat16")}, path)
    read = io.load_bytes(path.read_bytes(), "weights")
    assert {name: (x.dtype, x.tolist()) for name, x in read.items()} == {
        name: (x.dtype, x.tolist()) for name, x in load_file(path).items()
    }


@pytest.mark.parametrize(
    ("dtype", "shape"), [("F8_E4M3", [0]), ("F32", [0, 2**62]), ("F32", [2**62, 4]), ("F32", [0] * 70)]
)
def test_load_bytes_rejects_unsupported_dtypes_and_shapes(dtype, shape):
    header = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}}).encode()
    with pytest.raises(FileError, match="weights is not a safetensors file, or is damaged"):
        io.load_bytes(len(header).to_bytes(8, "little") + header, "weights")
