"""Files that are small and become huge, or huge and say little: refused by what is read first."""

import os
import struct
import zlib

import pytest

import minigrad as mg
from minigrad.io import to_bytes
from minitransformer.data.digits import PIXELS, read_image
from minitransformer.errors import UserError
from minitransformer.runs import evaluations


@pytest.mark.parametrize(
    ("content", "size", "message"),
    [
        (to_bytes({"a": mg.ones(2)}), 2**40, "its header says"),
        (struct.pack("<Q", 2**62), 10, "a header of"),
        (struct.pack("<Q", 3), 10, "a header of"),
        (struct.pack("<Q", 2**26), 2**27, "a header of"),  # which fits, but would take memory
        (struct.pack("<Q", 10**5) + b"[" * 10**5, 8 + 10**5, "its header cannot be read"),
    ],
    ids=["too long a file", "huge", "too long by one", "over the limit", "nested"],
)
def test_weight_files_with_a_wrong_header_are_rejected(tmp_path, content, size, message):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    os.truncate(path, size)  # sparse: it takes no room on the disk
    with pytest.raises(mg.FileError, match=message):
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
