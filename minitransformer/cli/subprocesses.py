"""Starts Python processes that import nothing from the current folder, and end when this process ends."""

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
    """The import path for a new process: that of this one, without the current folder.

    `python -m minitransformer` has the current folder on its path: a `safetensors.py` there would be
    imported. The folder stays only if our own packages are in it.
    """
    current = os.path.realpath(os.curdir)
    folders = [folder or current for folder in sys.path if not folder or os.path.isabs(folder)]
    return [folder for folder in folders if os.path.realpath(folder) != current or current == ROOT]


def run_python(
    words: Sequence[str],
    environment: Mapping[str, str] | None = None,
    stdout: int | None = None,
) -> int:
    """Run `python` with these arguments, and wait for it; returns the exit code.

    The first SIGINT, SIGTERM or SIGHUP is passed on as a SIGTERM; when the process has ended,
    KeyboardInterrupt is raised. A second one kills it. If we are killed, Linux sends it a SIGTERM.
    """
    variables = {**(os.environ if environment is None else environment)}
    variables["PYTHONPATH"] = os.pathsep.join(import_path())
    is_ours = words[1].startswith("minitransformer")  # a program of the user's may import what is beside it
    with stop_signals() as stopped:
        process = subprocess.Popen(
            [sys.executable, *(["-P"] if is_ours else []), *words],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            preexec_fn=_end_with_parent(),
            process_group=0,  # Ctrl-C reaches us only: a second signal would stop it within a step
        )
        try:
            while process.poll() is None:
                time.sleep(0.1)  # not stopped.wait(), which the signal handler's set() may fail to interrupt
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
    """A `preexec_fn` that sends the new process a SIGTERM when this one dies; None if not on Linux."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()
    set_signal = 1  # PR_SET_PDEATHSIG

    def prepare() -> None:
        prctl(set_signal, signal.SIGTERM)
        if os.getppid() != parent:  # the parent has already died
            os._exit(1)

    return prepare
