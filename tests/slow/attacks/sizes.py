"""Files that are huge, or small and become huge: each command works or ends in two lines, in 10 s and 2 GB.

Files of gigabytes are sparse where that is possible: they take no space on the disk.
"""

from __future__ import annotations

import os
import resource
import shutil
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .commands import SECONDS, TRAIN, Command, Report, full_or, write_pairs

GIGABYTE = 2**30
DEEP = "[" * 10**5
COMMANDS = {
    "translate": ["translate", "run", "My computer is old."],
    "evaluate": ["evaluate", "run", "--data", "pairs.tsv"],
    "show": ["show", "run"],
    "resume": [*TRAIN, "--steps", "6", "--resume"],
}
IMAGES = [
    "train",
    "digits-vit",
    "--data",
    "images.npz",
    "--run-dir",
    "vit",
    "--steps",
    "1",
    "--num-hidden-layers",
    "1",
]


def last(cwd: Path) -> Path:
    """The folder of the last checkpoint."""
    return sorted((cwd / "run" / "checkpoints").glob("step-*"))[-1]


# ---------------------------------------------------------------- what is done to a run


def sparse(name: str, size: int) -> Callable[[Path], object]:
    """Zeros behind the end of a file of the run."""
    return lambda cwd: os.truncate(_found(cwd, name), size)


def replaced(name: str, content: str, times: int = 1, end: str = "") -> Callable[[Path], object]:
    """A file of the run with this content, again and again."""

    def change(cwd: Path) -> None:
        block = content * max(1, min(times, 2**20 // len(content)))
        with _found(cwd, name).open("w") as file:
            for _ in range(times * len(content) // len(block)):
                file.write(block)
            file.write(end)

    return change


def _found(cwd: Path, name: str) -> Path:
    return last(cwd) / name if name in ("model.safetensors", "optimizer.safetensors", "state.json",
                                        "SHA256SUMS") else cwd / "run" / name  # fmt: skip


def empty_folders(pattern: str, count: int) -> Callable[[Path], object]:
    def change(cwd: Path) -> None:
        for i in range(count):
            (cwd / "run" / pattern.format(i)).mkdir(parents=True, exist_ok=True)

    return change


def many_files(pattern: str, count: int) -> Callable[[Path], object]:
    def change(cwd: Path) -> None:
        (cwd / "run" / pattern.format(0)).parent.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (cwd / "run" / pattern.format(i)).touch()

    return change


def many_tensors(name: str, count: int) -> Callable[[Path], object]:
    """A header of `count` empty tensors that is right."""

    def change(cwd: Path) -> None:
        one = '"{:x}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
        header = ("{" + ",".join(one.format(i) for i in range(count)) + "}").encode()
        _found(cwd, name).write_bytes(struct.pack("<Q", len(header)) + header)

    return change


def header_of(name: str, length: int, header: bytes = b"{}") -> Callable[[Path], object]:
    """A header that declares a length."""
    return lambda cwd: _found(cwd, name).write_bytes(struct.pack("<Q", length) + header)


WEIGHTS = ("model.safetensors", "optimizer.safetensors", "statistics.safetensors")
RUNS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    **{f"5 GB of {name}": (sparse(name, 5 * GIGABYTE), ("translate", "show", "resume"))
       for name in (*WEIGHTS[:2], "state.json", "SHA256SUMS", "config.toml", "tokenizer.json", "run.json",
                    "metrics.json", "predictions.txt", "statistics.safetensors")},
    **{f"200 MB of line ends in {name}": (replaced(name, "\n", 200 * 2**20), ("translate", "show", "resume"))
       for name in ("config.toml", "predictions.txt", "SHA256SUMS", "metrics.json", "tokenizer.json")},
    **{f"30 MB of numbers in {name}": (replaced(name, "1,", 15 * 2**20, ""), ("translate", "show", "resume"))
       for name in ("run.json", "metrics.json", "tokenizer.json", "state.json")},
    **{f"a list of 30 MB in {name}": (replaced(name, "[[", 1, "[],".join([""] * 10**7) + "1]]"),
                                      ("translate", "show", "resume"))
       for name in ("run.json", "metrics.json", "tokenizer.json")},
    **{f"deep {name}": (replaced(name, DEEP), ("translate", "show", "resume"))
       for name in ("run.json", "metrics.json", "tokenizer.json", "state.json", "config.toml", "log.jsonl")},
    **{f"a huge header of {name}": (header_of(name, 2**62), ("translate", "show", "resume"))
       for name in WEIGHTS},
    **{f"a header without content of {name}": (header_of(name, 90_000_000), ("translate", "show", "resume"))
       for name in WEIGHTS},
    **{f"a deep header of {name}": (header_of(name, 10**5, DEEP.encode()), ("translate", "show", "resume"))
       for name in WEIGHTS},
    **{f"a million tensors in {name}": (many_tensors(name, 10**6), ("translate", "show", "resume"))
       for name in WEIGHTS},
    "100,000 files": (many_files("x{}", 100_000), tuple(COMMANDS)),
    "100,000 temporary files": (many_files(".log.jsonl.{:08x}", 100_000), tuple(COMMANDS)),
    "100,000 files of a checkpoint": (many_files("checkpoints/step-00000003/x{}", 100_000), tuple(COMMANDS)),
    "20,000 evaluations": (empty_folders("evaluations/x{}", 20_000), tuple(COMMANDS)),
}  # fmt: skip


# ---------------------------------------------------------------- images


def png(path: Path, width: int, height: int, before: bytes = b"") -> None:
    """A grey image of zeros, which compress to a thousandth."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compressobj(9)
    rows = []
    for _ in range(height):
        rows.append(packed.compress(bytes(width + 1)))
    content = b"".join(rows) + packed.flush()
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + before + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b"")
    )


def small_header_first(path: Path) -> None:
    """A header of one pixel, and a second one of many."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    png(
        path,
        8000,
        8000,
        struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)),
    )


def npy(path: Path, header: str, content: bytes = b"") -> None:
    """An array's file with this header."""
    text = header.encode()
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + content)


def npz_header(path: Path) -> None:
    """A zip of 4 MB whose array has a header of 4 GB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("images.npy", "labels.npy"):
            with archive.open(name, "w", force_zip64=True) as file:
                file.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1))
                for _ in range(256):
                    file.write(bytes(2**24))


def npz_content(path: Path) -> None:
    """A zip of 1 MB of an image that takes 250 MB as bytes, and 1 GB as floats."""
    np.savez_compressed(path, images=np.zeros((250, 1000, 1000), np.uint8), labels=np.zeros(250, np.int64))


PICTURES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a PNG of 58 kB": ("x.png", lambda path: png(path, 15_000, 4_000)),
    "a PNG of 2 GB": ("x.png", lambda path: png(path, 13_000, 13_000)),
    "a PNG of two headers": ("x.png", small_header_first),
    "a PNG of one row": ("x.png", lambda path: png(path, 10**8, 1)),
    "a PNG of one column": ("x.png", lambda path: png(path, 1, 10**6)),
    "a PNG of a true size": ("x.png", lambda path: png(path, 8, 8)),
    "an array of 10 GB": (
        "x.npy", lambda path: npy(path, "{'descr':'<f4','fortran_order':False,'shape':(50000,50000),}"),
    ),
    "an array of 250 MB": ("x.npy", lambda path: np.save(path, np.zeros((15_800, 15_800), np.uint8))),
    "a deep header": ("x.npy", lambda path: npy(path, DEEP)),
    "a header of 1 GB": ("x.npy", lambda path: (npy(path, "{"), os.truncate(path, GIGABYTE))),
}  # fmt: skip
ARCHIVES: dict[str, Callable[[Path], object]] = {
    "a header of 4 GB in a zip": npz_header,
    "250 MB in a zip": npz_content,
}


# ---------------------------------------------------------------- texts

TEXTS: dict[str, Callable[[Path], object]] = {
    "one line of 200 MB": replaced("../x", "a b ", 50 * 2**20),
    "one cell of 200 MB": replaced("../x", "a b ", 50 * 2**20, "\tb"),
    "200 MB of line ends": replaced("../x", "\n", 200 * 2**20),
    "20 million tabs": replaced("../x", "\t", 20 * 2**20),
    "5 GB of zeros": lambda cwd: (replaced("../x", "a\tb\n")(cwd), os.truncate(cwd / "x", 5 * GIGABYTE)),
    "deep JSON": replaced("../x", '{"source": ' + DEEP + "\n"),
}
TRAINS = {
    "pairs": [*TRAIN[:3], "x", "--run-dir", "new", *TRAIN[6:]],
    "recipe": ["train", "x"],
    "sweep": ["sweep", "x"],
}


# ---------------------------------------------------------------- the attacks


def _cpu_seconds() -> float:
    """What all ended commands have computed: on a busy machine they wait for others, which is not theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def prepared(argv: list[str], cwd: Path) -> bool:
    """Whether a command of the preparation has worked."""
    return Command(argv, cwd).wait(seconds=60).code == 0


def attack(group: str, label: str, argv: list[str], cwd: Path, report: Report) -> None:
    """One command, within its limits: of 10 s that it computes, and 60 s on the clock."""
    before = _cpu_seconds()
    outcome = Command(argv, cwd).wait(seconds=6 * SECONDS)
    seconds = _cpu_seconds() - before
    failure = outcome.problem
    if not failure and seconds > SECONDS:
        failure = f"more than {SECONDS:g} s"
    if not failure and outcome.code:
        message = outcome.err[outcome.err.rfind("error:") :]
        lines = message.strip().splitlines()
        failure = "" if len(lines) <= 4 and len(message) < 4000 else f"{len(lines)} lines"
    if not failure and outcome.gigabytes > 2:
        failure = f"{outcome.gigabytes:.1f} GB"
    word = failure or ("error" if outcome.code else "works")
    figures = f"{seconds:.1f} s, {outcome.gigabytes:.1f} GB"
    report.add(
        group, word, failure and f"{failure}: {argv[0]} with {label} ({figures}): {outcome.last_words[:200]}"
    )


def main() -> int:
    count = full_or(small=1, full=1000)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        good = place / "good"
        good.mkdir()
        write_pairs(good)
        assert prepared(TRAIN, good)
        if count > 10:
            assert prepared(COMMANDS["evaluate"], good)
        rng = np.random.default_rng(0)
        images = {"images": rng.integers(0, 17, (60, 8, 8)), "labels": np.arange(60) % 3}
        np.savez(good / "images.npz", **images)
        has_images = prepared(IMAGES, good)

        def fresh() -> Path:
            shutil.rmtree(place / "cwd", ignore_errors=True)
            return Path(shutil.copytree(good, place / "cwd"))

        for label, (change, commands) in list(RUNS.items())[:count]:
            for command in commands:
                cwd = fresh()
                change(cwd)
                attack("runs", label, COMMANDS[command], cwd, report)
        cwd = fresh()
        for label, (name, make) in list(PICTURES.items())[:count]:
            if has_images:
                make(cwd / name)
                attack("images", label, ["predict", "vit", name], cwd, report)
        for label, make_archive in list(ARCHIVES.items())[: count // 2]:
            make_archive(cwd / "x.npz")
            attack("images", label, [*IMAGES[:3], "x.npz", "--run-dir", "new", *IMAGES[6:]], cwd, report)
        for label, change in list(TEXTS.items())[: count // 5]:
            for reader, argv in TRAINS.items():
                change(cwd := fresh())
                attack(reader, label, argv, cwd, report)
        if not has_images:
            report.add("images", "not trained", "the run of images was not trained")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
