"""Starts Python processes, and waits for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def run_python(
    words: Sequence[str],
    environment: Mapping[str, str] = os.environ,
    stdout: int | None = None,
) -> int:
    """Run `python` with these arguments and this process's import path, and return the exit code.

    Ctrl-C reaches both processes, other signals are passed on. KeyboardInterrupt is raised here once the
    other process has stopped.
    """
    command = [sys.executable, "-P", *words]  # -P: only this process's import path counts
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    received: list[int] = []

    def handle(number: int, frame: Any) -> None:
        received.append(number)
        if number != signal.SIGINT:
            process.send_signal(number)

    numbers = [
        n for name in ("SIGINT", "SIGTERM", "SIGHUP") if (n := getattr(signal, name, None)) is not None
    ]
    process = subprocess.Popen(command, env={**environment, **path}, stdin=subprocess.DEVNULL, stdout=stdout)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise KeyboardInterrupt
    return process.returncode
