"""Measurements in processes of their own: thread counts are fixed when a library is imported.

`in_child("steps", "pair", "torch", ["nano"], 50, threads=1)` calls `benchmarks.steps.pair` there.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .machine import pin_to, thread_settings

ROOT = Path(__file__).resolve().parent.parent


class ChildError(RuntimeError):
    """A measurement that failed in its process."""


def in_child(
    module: str, function: str, *args: Any, threads: int = 1, kernels: str | None = None, **settings: Any
) -> Any:
    """What a benchmark's function returns (as JSON) in a new process with `threads` threads and cores."""
    call = json.dumps([module, function, args, threads, kernels])
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.children", call],
        env=os.environ | thread_settings(threads) | {"PYTHONPATH": path} | settings,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ChildError(
            f"benchmarks.{module}.{function}{tuple(args)} failed.\n{done.stderr.strip()[-3000:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def choose(kernels: str | None) -> None:
    """Run minigrad on these kernels."""
    if kernels is not None:
        from minigrad.kernels import use

        use(kernels)


def main(call: str) -> None:
    module, function, args, threads, kernels = json.loads(call)
    pin_to(threads)
    choose(kernels)
    print(json.dumps(getattr(importlib.import_module(f"benchmarks.{module}"), function)(*args)))


if __name__ == "__main__":
    main(sys.argv[1])
