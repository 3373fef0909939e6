"""Python processes that we start: they import nothing from the current folder, and end when we end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..training.signals import stop_signals

ROOT = str(Path(__file__).resolve().parents[2])  # what our packages are imported from


def import_path() -> list[str]:
    """The folders that a process we start imports from: ours, but for the current folder.

    `python -m minitransformer` has the current folder on its path: a `safetensors.py` there would be
    imported. Only where our own packages are in that folder does it stay.
    """
    current = os.path.realpath(os.curdir)
    folders = [folder or current for folder in sys.path if not folder or os.path.isabs(folder)]
    return [folder for folder in folders if os.path.realpath(folder) != current or current == ROOT]


def run_python(
    words: Sequence[str], environment: Mapping[str, str] | None = None, stdout: int | None = None
) -> int:
    """Run `python -P` with these words to its end; returns the exit code.

    The first SIGINT, SIGTERM or SIGHUP is passed on as a SIGTERM; when the process has ended,
    KeyboardInterrupt is raised. A second one kills it. If we are killed, Linux sends it a SIGTERM.
    """
    variables = {**(os.environ if environment is None else environment)}
    variables["PYTHONPATH"] = os.pathsep.join(import_path())
    with stop_signals() as stopped:
        process = subprocess.Popen(
            [sys.executable, "-P", *words],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            preexec_fn=_end_with_parent(),
            process_group=0,  # Ctrl-C reaches us only: a second signal would stop it within a step
        )
        try:
            while process.poll() is None:
                time.sleep(0.1)  # not stopped.wait: a handler that sets an event may interrupt no wait for it
                if stopped.is_set():
                    process.terminate()
                    process.wait()
        except BaseException:  # a second signal
            process.kill()
            process.wait()
            raise
    if stopped.is_set():
        raise KeyboardInterrupt
    return process.returncode


def _end_with_parent() -> Callable[[], None] | None:
    """What the new process calls first; None where there is no such call."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    # PR_SET_PDEATHSIG
    parent = os.getpid()
    set_signal = 1

    def prepare() -> None:
        prctl(set_signal, signal.SIGTERM)
        if os.getppid() != parent:  # it has just died
            os._exit(1)

    return prepare
