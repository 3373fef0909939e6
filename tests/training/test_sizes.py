"""Files that are small and become huge, or huge and say little: refused by what is read first."""

import os
import struct
import zlib

import pytest

import minigrad as mg
from minitransformer.data.digits import PIXELS, read_image
from minitransformer.errors import UserError
from minitransformer.runs import evaluations


def test_weight_files_longer_than_their_header_are_rejected(tmp_path):
    path = tmp_path / "x.safetensors"
    mg.save_file({"a": mg.ones(2)}, path)
    os.truncate(path, 2**40)
    with pytest.raises(mg.FileError, match="its header says"):
        mg.load_file(path)


@pytest.mark.parametrize("length", [2**62, 90_000_000, 3])
def test_headers_with_a_wrong_length_are_rejected(tmp_path, length):
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(mg.FileError, match="a header of"):
        mg.load_file(path)


def test_deeply_nested_headers_are_rejected(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", 10**5) + b"[" * 10**5)
    with pytest.raises(mg.FileError, match="its header cannot be read"):
        mg.load_file(path)


def test_image_size_is_checked_before_decoding(tmp_path):
    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    side = int(PIXELS**0.5) + 1
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(side * (side + 1)))
    parts = chunk(b"IHDR", header), chunk(b"IDAT", rows), chunk(b"IEND", b"")
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    with pytest.raises(UserError, match=r"x.png has 4,097 x 4,097 pixels, the limit is .*\nMake it smaller"):
        read_image(tmp_path / "x.png", 1)


def test_statistics_with_too_many_tensors_are_not_loaded(tmp_path, monkeypatch):
    names = ",".join(f'"{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for i in range(20_000))
    header = f"{{{names}}}".encode()
    path = tmp_path / evaluations.STATISTICS
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    loaded = []
    monkeypatch.setattr(evaluations, "load_bytes", lambda *args: loaded.append(args) or {})
    assert evaluations.read(tmp_path) is None
    assert not loaded
