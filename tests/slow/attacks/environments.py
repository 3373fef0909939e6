"""Trains with environment variables that are wrong, empty or huge, of the project and its dependencies.

A training must give the weights and scores that it gives without the variable, or end before anything is
written, in two lines that name the variable. The interpreter itself refuses some settings of its own. Each
attack is a new interpreter, since many variables are read while modules are imported.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import commands
from .commands import TRAIN, Report, full_or, weights, write_pairs

ROOT = Path(commands.__file__).parents[3]
SECONDS = 120.0  # some settings make numba compile all loops again
PROCESSES = 2
HUGE = "9" * 400
LONG = "x" * 100_000
WRONG = ("", "abc", "-1", HUGE)
NUMBERS = ("", "0", "abc", HUGE)

# by who reads them; the values are what is most likely to be wrong
SAME: dict[str, Sequence[str]] = {  # no value of these may change a number
    # ours
    "MINITRANSFORMER_CACHE": ("", "/dev/null", "/nowhere/at/all", LONG),
    "MINITRANSFORMER_DATA": ("", "/dev/null", "abc"),
    "MALLOC_TRIM_THRESHOLD_": ("", "abc"),
    "MALLOC_MMAP_THRESHOLD_": ("", "abc"),
    "GLIBC_TUNABLES": ("", "abc", "glibc.malloc.check=9"),
    # starters of several processes
    "PMI_SIZE": ("", "0", "x", "-1", "1.5", HUGE, "2"),
    "OMPI_COMM_WORLD_SIZE": ("", "0", "x", "-3", HUGE, "4"),
    "PMI_RANK": WRONG,
    "SLURM_NTASKS": ("x", "4"),
    "MPI4PY_LIBMPI": ("", "abc"),
    # matplotlib
    "MPLBACKEND": ("", "garbage", "TkAgg", "module://nowhere", "agg"),
    "MPLCONFIGDIR": ("", "/dev/null", "/nowhere/at/all", LONG),
    "MATPLOTLIBRC": ("", "/dev/null", "/nowhere", "pairs.tsv", LONG),
    "SOURCE_DATE_EPOCH": ("", "abc", "0", "-1", HUGE),
    "DISPLAY": ("", ":99", "garbage"),
    "WAYLAND_DISPLAY": ("garbage",),
    "QT_API": ("garbage",),
    "XDG_CACHE_HOME": ("", "/dev/null", "/nowhere/at/all", "relative"),
    "XDG_CONFIG_HOME": ("", "/dev/null", "/nowhere/at/all"),
    "XDG_DATA_HOME": ("", "/dev/null"),
    "HOME": ("", "/dev/null", "/nowhere/at/all", "relative"),
    "TMPDIR": ("", "/dev/null", "/nowhere/at/all"),
    "USER": ("", "x\ny"),
    # rich and tyro
    "TERM": ("", "dumb", "garbage", LONG),
    "COLUMNS": ("", "0", "-1", "x", "1", "99999", HUGE),
    "LINES": ("0", "x", HUGE),
    "NO_COLOR": ("", "1"),
    "COLORTERM": ("garbage",),
    "FORCE_COLOR": ("", "1"),
    "TTY_COMPATIBLE": ("1", "x"),
    "TTY_INTERACTIVE": ("1", "x"),
    "JUPYTER_COLUMNS": NUMBERS,
    "DATABRICKS_RUNTIME_VERSION": ("x",),
    "UNICODE_VERSION": ("", "x", "99.0.0"),
    "TYRO_ENABLE_ANSI": ("x",),
    # sacrebleu, tokenizers, jaxtyping, numpy
    "SACREBLEU": ("", "/dev/null"),
    "SACREBLEU_FORMAT": ("garbage",),
    "SACREBLEU_SEED": ("", "abc"),
    "TOKENIZERS_PARALLELISM": ("", "abc"),
    "RAYON_NUM_THREADS": NUMBERS,
    "RUST_BACKTRACE": ("full",),
    "JAXTYPING_DISABLE": ("", "1", "abc"),
    "JAXTYPING_REMOVE_TYPECHECKER_STACK": ("abc",),
    "NPY_PROMOTION_STATE": ("abc", "legacy"),
    "NUMPY_MADVISE_HUGEPAGE": ("", "0", "abc"),
    "NUMPY_WARN_IF_NO_MEM_POLICY": ("1", "abc"),
    "NPY_DISABLE_CPU_FEATURES": ("", "garbage", "SSE2"),
    "NPY_ENABLE_CPU_FEATURES": ("garbage",),
    # BLAS and its threads
    "OPENBLAS_NUM_THREADS": WRONG,
    "OMP_NUM_THREADS": WRONG,
    "MKL_NUM_THREADS": WRONG,
    "GOTO_NUM_THREADS": ("abc",),
    "OPENBLAS_THREAD_TIMEOUT": WRONG,
    "OPENBLAS_VERBOSE": ("abc", "2"),
    "OPENBLAS_CORETYPE": ("", "garbage"),
    # numba
    "NUMBA_DISABLE_JIT": ("", "0", "1", "abc"),
    "NUMBA_NUM_THREADS": (*WRONG, "0"),
    "NUMBA_CACHE_DIR": ("", "/dev/null", "/nowhere/at/all"),
    "NUMBA_CACHE_LOCATOR_CLASSES": ("", "Garbage", "nowhere.Garbage"),
    "NUMBA_OPT": ("", "abc", "-1"),
    "NUMBA_CPU_NAME": ("garbage",),
    "NUMBA_CPU_FEATURES": ("garbage",),
    "NUMBA_THREADING_LAYER": ("", "garbage"),
    "NUMBA_COLOR_SCHEME": ("garbage",),
    "NUMBA_DEVELOPER_MODE": ("1", "abc"),
    "NUMBA_FUNCTION_CACHE_SIZE": ("abc", "-1"),
    "NUMBA_CUDA_DRIVER": ("garbage",),
    "NUMBA_ENABLE_CUDASIM": ("abc", "1"),
    "NUMBA_USE_TYPEGUARD": ("1",),
    "NUMBA_DEBUG_CACHE": ("abc",),
    "CUDA_VISIBLE_DEVICES": ("", "garbage", "-1"),
    "CUDA_HOME": ("", "/dev/null"),
    # the interpreter
    "PYTHONHASHSEED": ("", "0", "random", "abc", HUGE),
    "PYTHONIOENCODING": ("", "ascii", "utf-16", "garbage", ":garbage"),
    "PYTHONUTF8": ("0", "1", "abc"),
    "PYTHONWARNINGS": ("", "garbage", "error", "ignore"),
    "PYTHONOPTIMIZE": ("1", "2", "abc"),
    "PYTHONDONTWRITEBYTECODE": ("1",),
    "PYTHONUNBUFFERED": ("1",),
    "PYTHONINTMAXSTRDIGITS": ("0", "640", "abc"),
    "PYTHONMALLOC": ("debug", "garbage"),
    "PYTHONDEVMODE": ("1",),
    "PYTHONTRACEMALLOC": ("1", "abc"),
    "PYTHONPYCACHEPREFIX": ("/dev/null", "/nowhere/at/all"),
    "PYTHONSAFEPATH": ("1",),
    "PYTHONSTARTUP": ("/nowhere/at/all",),
    "PYTHONBREAKPOINT": ("garbage",),
    "LANG": ("", "garbage", "tr_TR.UTF-8"),
    "LC_ALL": ("", "C", "POSIX", "garbage", LONG),
    "TZ": ("", "garbage", LONG),
    "PATH": ("", "/nowhere"),
}  # fmt: skip


@dataclass(frozen=True)
class Ending:
    """How a training ended, and what it left."""

    code: int
    out: str
    err: str
    found: tuple[object, ...]  # weights and scores
    limit: str

    def failure(self, names: Sequence[str], expected: tuple[object, ...]) -> str:
        """What happened that must not; empty if nothing did."""
        lines = self.err.splitlines()
        if self.limit:
            return self.limit
        if "Traceback" in self.err or "panicked" in self.err:
            return "traceback"
        if self.code == 0:
            return "" if self.found == expected else "other numbers"
        if self.refused_by_python(names):
            return ""
        if self.code != 2:
            return f"exit code {self.code}"
        said = [i for i, line in enumerate(lines) if line.startswith("error: ")]
        if said != [len(lines) - 2]:
            return "not two lines"
        if not any(name in "\n".join(lines[-2:]) for name in names):
            return "does not name the variable"
        return "refused after it had begun" if self.found else ""

    def refused_by_python(self, names: Sequence[str]) -> bool:
        """Whether the interpreter refused a variable of its own."""
        own = any(name.startswith("PYTHON") for name in names)
        return own and self.code == 1 and self.err.startswith("Fatal Python error") and not self.found


def train(settings: dict[str, str]) -> Ending:
    """A training in a new interpreter and in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(cwd := Path(folder))
        known = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", folder), "PYTHONPATH": str(ROOT)}
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}
        command = [sys.executable, "-m", "minitransformer", *TRAIN]
        with open(cwd / "out", "wb") as out, open(cwd / "err", "wb") as err:
            process = subprocess.Popen(
                command, cwd=cwd, env={**known, **threads, **settings}, stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
            limit = ""
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                limit = f"more than {SECONDS:g} s"
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        texts = [(cwd / name).read_text(errors="replace") for name in ("out", "err")]
        return Ending(process.returncode, *texts, results(cwd / "run"), limit)


def results(run: Path) -> tuple[object, ...]:
    """The weights and scores of a run; empty if there is no run."""
    if not (run / "checkpoints").exists():
        return ()
    metrics = run / "metrics.json"
    scores = json.loads(metrics.read_text()) if metrics.is_file() else None
    picture = (run / "curves.png").is_file()
    return weights(run), scores, picture, (run / "README.md").is_file()


def attacks() -> list[dict[str, str]]:
    """Each value of each variable."""
    return [{name: value} for name, values in SAME.items() for value in values]


def some() -> list[dict[str, str]]:
    """A few starts that stand for all: what is harmless together, and some that are refused."""
    harmless = {
        "MPLBACKEND": "TkAgg", "SOURCE_DATE_EPOCH": "abc", "PMI_SIZE": "", "COLUMNS": "0", "TERM": "garbage",
        "LC_ALL": "garbage", "SACREBLEU_SEED": "abc", "HOME": "/nowhere", "UNICODE_VERSION": "x",
        "PYTHONHASHSEED": "0", "NUMBA_COLOR_SCHEME": "garbage", "TZ": "garbage",
    }  # fmt: skip
    refused = [("OMPI_COMM_WORLD_SIZE", "x"), ("MPLBACKEND", "garbage")]
    return [harmless, *({name: value} for name, value in refused)]


def main() -> int:
    count = full_or(small=0, full=10_000)
    report = Report()
    chosen = commands.spread(attacks(), count) if count else some()
    with ThreadPoolExecutor(PROCESSES) as pool:
        expected, *endings = pool.map(train, [{}, *chosen])
    assert expected.code == 0, expected.err
    for settings, ending in zip(chosen, endings, strict=True):
        failure = ending.failure(list(settings), expected.found)
        python = ending.refused_by_python(list(settings))
        word = failure or (
            "refused by Python" if python else "refused" if ending.code else "the same numbers"
        )
        shown = ", ".join(f"{name}={value[:30]!r}" for name, value in settings.items())
        last = [line for line in ending.err.splitlines() if line.strip()][-2:]
        name = next(iter(settings)).partition("_")[0]
        report.add(name, word, failure and f"{failure}: {shown}: {' / '.join(last)[:300]}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
