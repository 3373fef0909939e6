"""Files that are small and become huge, or huge and say little: refused by what is read first."""

import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minitransformer.data.digits import PIXELS, read_image
from minitransformer.errors import UserError
from minitransformer.runs import evaluations
from minitransformer.runs.run import Run
from minitransformer.training import log
from minitransformer.training.checkpoint import Checkpoints
from minitransformer.training.log import read_log, truncate_log
from minitransformer.training.optimizers import build_optimizer


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
    with pytest.raises(UserError, match=r"x.png has 4,097 x 4,097 pixels, the limit is .*\nMake it smaller"):
        read_image(tmp_path / "x.png", 1)


@pytest.fixture
def large_log(tmp_path, monkeypatch):
    """A log that counts as a large one: 2,000 steps, a validation after each 100th."""
    monkeypatch.setattr(log, "MAX_WHOLE", 2**14)
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


@pytest.mark.parametrize("size", [1, 7, 64, 100, 2**14])
def test_a_large_log_is_read_the_same_in_blocks_of_any_size(large_log, monkeypatch, size):
    monkeypatch.setattr(log, "BLOCK", size)
    monkeypatch.setattr(log, "MAX_LINE", 2**10)
    content = large_log.read_bytes() + b"\n\n" + b"x" * 3000 + b'\n{"step": 2001, "val_loss": 0.5}'
    large_log.write_bytes(content)
    assert [record["step"] for record in read_log(large_log)] == [*range(100, 2001, 100), 2001]
    truncate_log(large_log, 777)
    assert large_log.read_bytes() == content[: content.index(b'{"step": 778')]


@pytest.mark.slow
def test_a_large_log_takes_little_memory(tmp_path):
    path = tmp_path / "log.jsonl"
    record = b'{"step": 4, "val_loss": 1.0}\n'
    path.write_bytes(record)
    os.truncate(path, 2**28)
    resource = pytest.importorskip("resource")  # Windows has none
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert [record["step"] for record in read_log(path)] == [4]
    truncate_log(path, 4)
    assert path.read_bytes() == record
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16  # kilobytes


def test_lines_that_are_not_entries_are_not_parsed(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n[]\n{}\n" * 1000 + b'{"step": 4, "loss": 1.0}\n')
    parsed = []
    monkeypatch.setattr(log, "_parse_entry", lambda line: parsed.append(line) or json.loads(line))
    assert read_log(path) == [{"step": 4, "loss": 1.0}]
    assert len(parsed) == 1


@pytest.mark.parametrize("read", [read_log, lambda path: truncate_log(path, 1)], ids=["read", "cut"])
def test_a_log_of_a_terabyte_is_refused(tmp_path, read):
    path = tmp_path / "log.jsonl"
    path.touch()
    os.truncate(path, 2**40)  # zeros, which take no space on the disk
    with pytest.raises(UserError, match="1,024 GiB, more than any training writes"):
        read(path)


def test_entries_of_later_steps_are_not_parsed(large_log, monkeypatch):
    parsed = []
    monkeypatch.setattr(log, "_parse_entry", lambda line: parsed.append(line) or json.loads(line))
    truncate_log(large_log, 1200)
    assert len(parsed) == 1


def test_statistics_of_many_tensors_are_not_loaded(tmp_path, monkeypatch):
    names = ",".join(f'"{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for i in range(20_000))
    header = f"{{{names}}}".encode()
    path = tmp_path / evaluations.STATISTICS
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    loaded = []
    monkeypatch.setattr(evaluations, "load_bytes", lambda *args: loaded.append(args) or {})
    assert evaluations.read(tmp_path) is None
    assert not loaded


def test_many_damaged_checkpoints_are_listed_a_few_times(here, monkeypatch):
    for step in range(100, 200):
        Path(f"mine/checkpoints/step-{step:08d}").mkdir()
    run = Run("mine", "step-00000004")
    listed = []
    names = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or names(path))
    checkpoints = Checkpoints(Path("mine/checkpoints"), identity=run.record.identity)
    messages = checkpoints.repair(run.model, build_optimizer(run.model, run.recipe.training))
    assert messages[-1] == "... and 90 more"
    assert checkpoints.names()[-1] == "step-00000004"
    assert len(listed) < 20
