"""What the command line does before its imports: environment variables, standard streams and warnings.

Packages read environment variables when they are imported or first used, and raise any exception if one is
invalid, which becomes a two-line error here. This module imports no packages, since even NumPy may fail.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from types import TracebackType
from typing import Any, TextIO

READ_BY = {  # package -> prefixes of the environment variables that it reads
    "numpy": ("NPY_", "NUMPY_"),
    "ml_dtypes": ("NPY_", "NUMPY_"),
    "numba": ("NUMBA_",),
    "llvmlite": ("NUMBA_", "LLVMLITE_"),
    "matplotlib": ("MPL", "MATPLOTLIBRC", "SOURCE_DATE_EPOCH"),
    "jaxtyping": ("JAXTYPING_",),
    "sacrebleu": ("SACREBLEU",),
    "tyro": ("TYRO_", "_TYRO_"),
    "rich": ("UNICODE_VERSION", "JUPYTER_"),
    "tokenizers": ("TOKENIZERS_", "RAYON_", "RUST_"),
    "mpi4py": ("MPI4PY_",),
    "cupy": ("CUPY_", "CUDA_"),
}

OTHER_MINIGRAD = (
    "the installed minigrad is another project's, or what is left after that was uninstalled.\n"
    "Run `pip uninstall minigrad`, then `pip install --force-reinstall --no-deps` with what you installed"
    " minitransformer from."
)

AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}  # needed by OpenBLAS's SkylakeX


def let_openblas_use_avx512(cpuinfo: str = "/proc/cpuinfo") -> None:
    """Make OpenBLAS use its AVX-512 kernels on AMD's CPU family 26, which version 0.3.31 does not detect.

    OpenBLAS reads OPENBLAS_CORETYPE when NumPy is imported; a value that is already set is kept. Only on
    Linux, which has `cpuinfo`.
    """
    try:
        with open(cpuinfo, encoding="utf-8", errors="replace") as file:
            processor = file.read().partition("\n\n")[0]
    except OSError:
        return
    lines = [line.partition(":") for line in processor.splitlines()]
    facts = {name.strip(): value.strip() for name, _, value in lines}
    is_unknown = facts.get("vendor_id") == "AuthenticAMD" and facts.get("cpu family") == "26"
    if is_unknown and set(facts.get("flags", "").split()) >= AVX512:
        os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")


def describe_error(error: BaseException) -> str | None:
    """A two-line message if another project's minigrad was imported, or if a package that reads environment
    variables has failed; None for other errors.
    """
    found = sys.modules.get("minigrad")
    if isinstance(error, ImportError) and found and not hasattr(found, "__version__"):  # PyPI's has none
        return OTHER_MINIGRAD
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    reason = reason if len(reason) <= 200 else f"{reason[:200]}..."
    if isinstance(error, Warning) and "PYTHONWARNINGS" in os.environ:
        value = _value("PYTHONWARNINGS")
        return f"a warning was raised as an error: {reason}.\nUnset PYTHONWARNINGS (now {value})."
    for package in packages(error.__traceback__):
        starts = READ_BY.get(package, ())
        names = [name for name in sorted(os.environ) if starts and name.startswith(starts)]
        listed = ", ".join(f"{name} (now {_value(name)})" for name in names)
        if package == "matplotlib" and os.path.lexists("matplotlibrc"):
            listed = ", ".join(filter(None, ["the file matplotlibrc in this folder", listed]))
        if listed:
            return f"{package} cannot be used: {reason}.\nCorrect or unset what it reads: {listed}."
    return None


def packages(traceback: TracebackType | None) -> list[str]:
    """The packages in a traceback after the last line of our own code, last call first."""
    found: list[str] = []
    while traceback is not None:
        name = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        found = [] if name in ("minigrad", "minitransformer") else [name, *found]
        traceback = traceback.tb_next
    return list(dict.fromkeys(found))


def _value(name: str) -> str:
    value = os.environ[name]
    return repr(value if len(value) <= 40 else f"{value[:40]}...")


# ---------------------------------------------------------------- standard streams

OUTPUT = "standard output"


class _Output(io.FileIO):
    """Standard output; its errors have it as their filename."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            error.filename = OUTPUT
            raise


class _Messages(io.FileIO):
    """Standard error; errors are ignored, so that training does not stop if messages cannot be written."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            super().write(data)
        return len(data)


def prepare_streams() -> None:
    """Make errors of standard output name it, and ignore errors of standard error.

    A closed stream is opened as /dev/null, in the wrong direction so that it cannot be used: otherwise the
    next file to be opened would get its file descriptor, and whatever is printed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number else os.O_WRONLY)
    sys.stdout = _wrap(sys.stdout, _Output(1, "w", closefd=False))
    sys.stderr = _wrap(sys.stderr, _Messages(2, "w", closefd=False))


def _wrap(stream: Any, raw: io.FileIO) -> io.TextIOWrapper:
    """A text stream with the settings of `stream`, on another raw file."""
    is_unbuffered = getattr(stream, "write_through", False)  # python -u
    return io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),
        encoding=getattr(stream, "encoding", "utf-8"),
        errors=getattr(stream, "errors", "replace"),
        line_buffering=getattr(stream, "line_buffering", True),
        write_through=is_unbuffered,
    )


# ---------------------------------------------------------------- warnings


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """`warnings.showwarning` of the command line: prints only the first line of the message."""
    stream = file or sys.stderr
    if stream is not None:
        print(f"warning: {str(message).strip().partition(chr(10))[0]}", file=stream)
