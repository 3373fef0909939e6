"""Files that are small and become huge, or huge and say little: refused by what is read first."""

import json
import os
import struct
import zlib

import numpy as np
import pytest

import minigrad as mg
from minitransformer.data.digits import PIXELS, read_image
from minitransformer.errors import UserError
from minitransformer.training import log
from minitransformer.training.log import read_log, truncate_log


def test_a_weights_file_that_is_longer_than_its_header_says_is_not_read(tmp_path):
    path = tmp_path / "x.safetensors"
    mg.save_file({"a": mg.ones(2)}, path)
    os.truncate(path, 2**40)
    with pytest.raises(mg.FileError, match="its header says"):
        mg.load_file(path)


@pytest.mark.parametrize("length", [2**62, 90_000_000, 3])
def test_a_header_of_another_length_than_it_says_is_not_read(tmp_path, length):
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(mg.FileError, match="a header of"):
        mg.load_file(path)


def test_a_deep_header_is_an_error(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", 10**5) + b"[" * 10**5)
    with pytest.raises(mg.FileError, match="its header cannot be read"):
        mg.load_file(path)


def test_the_size_of_a_picture_is_checked_before_it_is_decoded(tmp_path):
    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    side = int(PIXELS**0.5) + 1
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(side * (side + 1)))
    parts = chunk(b"IHDR", header), chunk(b"IDAT", rows), chunk(b"IEND", b"")
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    with pytest.raises(UserError, match="pixels, the limit is"):
        read_image(tmp_path / "x.png", 1)


@pytest.fixture
def large_log(tmp_path, monkeypatch):
    """A log that counts as a large one: 2,000 steps, a validation after each 100th."""
    monkeypatch.setattr(log, "WHOLE", 2**14)
    monkeypatch.setattr(log, "PARTS", 8)
    path = tmp_path / "log.jsonl"
    lines = []
    for step in range(1, 2001):
        lines.append(json.dumps({"step": step, "loss": 1.0}))
        if step % 100 == 0:
            lines.append(json.dumps({"step": step, "val_loss": 1.0}))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_of_a_large_log_all_validations_are_read_or_parts_of_all(large_log):
    assert [record["step"] for record in read_log(large_log)] == [*range(100, 2001, 100)]
    steps = [record["step"] for record in read_log(large_log, thinned=True)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (1, 2000)
    assert 100 < len(steps) < 1000
    assert np.diff(steps).max() < 400


@pytest.mark.parametrize("step", [0, 1, 777, 800, 2000, 3000])
def test_a_large_log_is_cut_after_a_step(large_log, step):
    before = large_log.read_text().splitlines()
    with large_log.open("a") as file:
        file.write("\n\n[[[\n" + "x" * 100)
    truncate_log(large_log, step)
    assert large_log.read_text().splitlines() == [s for s in before if json.loads(s)["step"] <= step]
