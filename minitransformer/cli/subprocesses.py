"""A function that runs Python in a subprocess."""

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
    """Run `python` with these arguments and this process's import path. Return its exit code.

    Ctrl-C reaches both processes; SIGTERM and SIGHUP are passed on. After such a signal, KeyboardInterrupt is
    raised here once the subprocess has stopped.
    """
    command = [sys.executable, "-P", *words]  # -P: do not add the script's folder to the import path
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
