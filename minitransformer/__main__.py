"""The command `minitransformer`, also as `python -m minitransformer`.

Imports take a second. Ctrl-C during that time ends the process at once: nothing is written yet, and an
interrupted import would print a traceback. So this module imports no packages.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import warnings
from typing import Any, TextIO

OTHER_MINIGRAD = (
    "the installed minigrad is another project's, or what is left after that was uninstalled.\n"
    "Run `pip uninstall minigrad`, then `pip install --force-reinstall --no-deps` with what you installed"
    " minitransformer from."
)

AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}  # needed by OpenBLAS's SkylakeX


def main() -> int:
    """Import the verb's module, run it, and return the exit code."""
    let_openblas_use_avx512()
    redirect_messages()
    before = signal.signal(signal.SIGINT, _stop)
    warnings.showwarning = show_warning
    try:
        from . import cli

        if sys.argv[1:2] and sys.argv[1] in cli.VERBS:
            cli.load(sys.argv[1])
    except ImportError:
        if not has_other_minigrad():
            raise
        print(f"error: {OTHER_MINIGRAD}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, before)
    return cli.main()


def _stop(number: int, frame: object) -> None:
    os.write(2, b"stopped\n")
    os._exit(1)


def let_openblas_use_avx512(cpuinfo: str = "/proc/cpuinfo") -> None:
    """Make OpenBLAS use its AVX-512 kernels on AMD's CPU family 26, which version 0.3.31 does not detect.

    OpenBLAS reads OPENBLAS_CORETYPE when NumPy is imported. A value that is already set is kept. On systems
    without `cpuinfo`, which only Linux has, this does nothing.
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


def has_other_minigrad() -> bool:
    """Whether the imported `minigrad` is PyPI's package of the same name, which has no `__version__`."""
    found = sys.modules.get("minigrad")
    return found is not None and not hasattr(found, "__version__")


class Messages(io.FileIO):
    """Standard error that is redirected to a file. Errors while writing, such as a full disk, are ignored."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            super().write(data)
        return len(data)


def redirect_messages() -> None:
    """Replace `sys.stderr` with `Messages`, unless it is a terminal."""
    if sys.stderr is not None and not sys.stderr.isatty():
        raw: Any = Messages(2, "w", closefd=False)  # unbuffered
        sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, "replace", write_through=True)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print the first line of a warning. The command line replaces `warnings.showwarning` with this."""
    print(f"warning: {str(message).strip().partition(chr(10))[0]}", file=file or sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
