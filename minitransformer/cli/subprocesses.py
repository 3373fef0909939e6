"""Starts Python processes, and waits for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from ..training.signals import stop_signals


def run_python(
    words: Sequence[str],
    environment: Mapping[str, str] = os.environ,
    stdout: int | None = None,
) -> int:
    """Run `python` with these arguments and the import path of this process; returns the exit code.

    Ctrl-C reaches both processes: KeyboardInterrupt is raised here once the other one has stopped. A second
    Ctrl-C kills it.
    """
    command = [sys.executable, "-P", *words]  # -P: the import path is only that of this process
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with stop_signals() as stopped:
        done = subprocess.run(
            command, env={**environment, **path}, stdin=subprocess.DEVNULL, stdout=stdout, check=False
        )
    if stopped.is_set():
        raise KeyboardInterrupt
    return done.returncode
