"""Processors, pictures, caches, streams and names that are not as one expects: results, or two lines."""

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from minitransformer import __main__ as startup
from minitransformer.errors import UserError
from minitransformer.files import shell_command
from tests.tiny import TINY

TRAIN = ["train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "new", *TINY]

PROCESSOR = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
flags\t\t: fpu avx2 avx512f avx512dq avx512cd avx512bw avx512vl

processor\t: 1
"""


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (PROCESSOR, None, "SkylakeX"),
        (PROCESSOR, "Haswell", "Haswell"),
        (PROCESSOR.replace(": 26", ": 25"), None, None),
        (PROCESSOR.replace("AMD", "Intel"), None, None),
        (PROCESSOR.replace(" avx512vl", ""), None, None),
    ],
)
def test_openblas_uses_avx512_on_zen_5(tmp_path, monkeypatch, text, before, after):
    monkeypatch.setenv("OPENBLAS_CORETYPE", before or "")
    if before is None:
        monkeypatch.delenv("OPENBLAS_CORETYPE")
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    startup.let_openblas_use_avx512(str(path))
    assert os.environ.get("OPENBLAS_CORETYPE") == after


def test_openblas_is_configured_before_numpy_is_imported():
    code = """
import sys
from minitransformer import __main__

def told():
    assert "numpy" not in sys.modules
    raise SystemExit(3)

__main__.let_openblas_use_avx512 = told
__main__.main()
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 3


def test_unusable_matplotlib_is_detected_before_training(cli, here, monkeypatch):
    def fail(name):
        raise UserError("matplotlib cannot be used.\nUnset MPLBACKEND.")

    monkeypatch.setattr("minitransformer.cli.pictures.import_module", fail)
    code, _, err = cli(*TRAIN)
    assert (code, len(err.splitlines())) == (2, 2)
    assert not (here / "new").exists()


def test_a_failed_plot_does_not_lose_results(cli, here, monkeypatch):
    def fail(folder):
        raise ValueError("no colours\nat all")

    monkeypatch.setattr("minitransformer.cli.pictures.draw_curves", fail)
    code, out, err = cli(*TRAIN)
    assert code == 0
    assert "exact match" in out
    assert "warning: cannot write new/curves.png: ValueError: no colours\\nat all" in err
    assert (here / "new" / "metrics.json").is_file()
    assert (here / "new" / "README.md").is_file()


def test_warnings_are_shown_on_one_line(capsys):
    startup.show_warning(UserWarning("first\nTraceback: second"), UserWarning, "x.py", 1)
    assert capsys.readouterr().err == "warning: first\n"


LOOP = "def loop(x):\n    for i in range(x.size):\n        x[i] += 1\n"


@pytest.fixture
def loop(tmp_path, monkeypatch):
    """A function in a file of its own, beside which numba caches it."""
    pytest.importorskip("numba")
    from minigrad.kernels.numba import compiler

    monkeypatch.setattr(compiler, "warned", False)
    path = tmp_path / "loops.py"
    path.write_text(LOOP)
    space = {"__name__": "loops"}
    exec(compile(LOOP, str(path), "exec"), space)
    return space["loop"]


def add_one(loop):
    from minigrad.kernels.numba.compiler import compiled

    x = np.zeros(3)
    compiled(nogil=True)(loop)(x)
    assert x.tolist() == [1, 1, 1]


def test_a_missing_numba_cache_folder_is_reported_once(loop, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "__pycache__").write_text("a file")
    with pytest.warns(UserWarning, match="cannot be cached.*set NUMBA_CACHE_DIR"):
        add_one(loop)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add_one(loop)
    assert not (tmp_path / "not").exists()


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_damaged_numba_cache_is_rewritten(loop, tmp_path, suffix, content):
    add_one(loop)
    files = list((tmp_path / "__pycache__").glob(f"*.{suffix}"))
    assert files
    for path in files:
        path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add_one(loop)
    assert all(path.read_bytes() != content for path in files)


def test_numba_cache_on_a_full_disk_warns(loop, monkeypatch):
    from numba.core import caching

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", fail)
    with pytest.warns(UserWarning, match="No space left"):
        add_one(loop)


# ---------------------------------------------------------------- streams

PYTHON = [sys.executable, "-m", "minitransformer"]


def shell(script):
    words = " ".join(PYTHON)
    return subprocess.run(["sh", "-c", script.replace("MT", words)], capture_output=True, text=True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_unwritable_stdout_gives_a_two_line_error():
    done = shell("MT --version > /dev/full")
    assert done.returncode == 2
    assert re.fullmatch(r"error: standard output: No space left on device\.\nCheck .*\n", done.stderr)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_unwritable_stderr_does_not_stop_training(here):
    done = shell(f"MT {' '.join(map(str, TRAIN))} 2> /dev/full")
    assert done.returncode == 0
    assert "exact match" in done.stdout


def test_a_closed_pipe_ends_the_command_quietly():
    done = shell("{ MT recipes; echo $? >&2; } | true")
    assert done.stderr == "1\n"


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize("name", ["a b", "-run", "it's"])
def test_printed_shell_commands_quote_paths_correctly(name):
    command = shell_command(["printf", "%s", Path(name)])
    found = os.fsdecode(subprocess.run(["bash", "-c", command], capture_output=True).stdout)
    assert found == (f"./{name}" if name.startswith("-") else name)


def test_data_and_runs_can_have_unusual_names(cli, here):
    name = "it's $(mine), déjà"
    os.rename("pairs.tsv", f"{name}.tsv")
    for argv in (
        ["train", "phrasebook", "--data", f"{name}.tsv", "--run-dir", name, *TINY],
        ["train", "phrasebook", "--run-dir", name, "--resume", "--steps", 5],
        ["evaluate", name],
        ["graph", name, "-o", f"{name}.svg"],
    ):
        code, _, err = cli(*argv)
        assert code == 0, err
    assert (here / name / "README.md").is_file()
