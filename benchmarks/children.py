"""Measurements in separate processes, as thread counts are fixed when a library is imported.

`in_child("overhead", "pair", "torch", 50, "wall", threads=1)` calls `benchmarks.overhead.pair` in one.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .machine import idlest, pin_to, thread_settings

ROOT = Path(__file__).resolve().parent.parent


class ChildError(RuntimeError):
    """Raised when a measurement process failed."""


def in_child(
    module: str,
    function: str,
    *args: Any,
    threads: int = 1,
    kernels: str | None = None,
    **settings: Any,
) -> Any:
    """What a benchmark's function returns (as JSON) in a new process with `threads` threads and cores."""
    call = command(module, function, *args, threads=threads, kernels=kernels)
    done = subprocess.run(call, env=environment(threads, settings), capture_output=True, text=True)
    if done.returncode:
        raise ChildError(
            f"benchmarks.{module}.{function}{tuple(args)} failed.\n{done.stderr.strip()[-3000:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def command(
    module: str,
    function: str,
    *args: Any,
    threads: int,
    kernels: str | None,
    cores: list[int] | None = None,
) -> list[str]:
    """The command of a measurement process, pinned to `cores` or to the idlest."""
    call = json.dumps([module, function, args, threads, kernels, cores])
    return [sys.executable, "-P", "-m", "benchmarks.children", call]


def environment(threads: int, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a measurement process."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | thread_settings(threads) | {"PYTHONPATH": path} | settings


def choose(kernels: str | None) -> None:
    """Run minigrad on these kernels."""
    if kernels is not None:
        from minigrad.kernels import use

        use(kernels)


def keep_freed_memory() -> None:
    """Keep freed memory, as optimizers and the command line do; `peers.settings_of` prevents it for other
    libraries."""
    from minigrad import allocator

    allocator.keep_freed_memory()


def main(call: str) -> None:
    """Runs before heavy imports, so that the threads of BLAS inherit the pinned cores."""
    module, function, args, threads, kernels, cores = json.loads(call)
    pin_to(cores or idlest(threads))
    choose(kernels)
    keep_freed_memory()
    print(json.dumps(getattr(importlib.import_module(f"benchmarks.{module}"), function)(*args)))


if __name__ == "__main__":
    main(sys.argv[1])
