"""The machine of a measurement, and the threads, cores and load of its processes."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

THREADS = (  # read when a library is imported
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip


def thread_settings(number: int) -> dict[str, str]:
    """Environment variables that give every library `number` threads."""
    return dict.fromkeys(THREADS, str(number))


def pin_to(cores: Iterable[int] | None) -> None:
    """Pin this process, and the threads that it starts later, to these cores."""
    if cores is not None:
        os.sched_setaffinity(0, cores)


def idlest(number: int) -> list[int] | None:
    """The `number` least busy cores; None if processes cannot be pinned."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    idle = _idle_time()
    time.sleep(0.2)
    later = _idle_time()
    allowed = sorted(os.sched_getaffinity(0), key=lambda core: idle.get(core, 0) - later.get(core, 0))
    return sorted(allowed[:number])


def _idle_time() -> dict[int, int]:
    """The idle ticks of each core (Linux)."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    cores = (line.split() for line in lines if line.startswith("cpu") and line[3].isdigit())
    return {int(fields[0][3:]): int(fields[4]) for fields in cores}


def load_average() -> float | None:
    """The load average of the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def warning(load: float | None, threads: Iterable[int]) -> str | None:
    """A warning if other processes use the measured cores."""
    cores = os.cpu_count() or 1
    if load is None or load + max(threads) <= cores + 0.5:
        return None
    meaning = (
        "One thread's ratios hold, its times do not (with --clock cpu they nearly do); figures of more "
        "threads mean nothing, since threads wait for each other"
        if max(threads) > 1
        else "Ratios of turns in alternation hold, times do not (with --clock cpu they nearly do)"
    )
    return (
        f"load average {load:.2f} before the start, on {cores} cores, {max(threads)} of them measured: "
        f"something else is running. {meaning}."
    )


def describe(packages: Iterable[str]) -> dict[str, Any]:
    """The machine, the versions and the date, shown with every table."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": processor(),
        "gpu": graphics(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "blas": _blas(),
        "versions": {name: found for name in packages if (found := _version(name))},
    }


def processor() -> str:
    """The name of the CPU and its vector extension."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    flags = named.get("flags", "").split()
    vectors = next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), "")
    return ", ".join(filter(None, (named.get("model name", platform.machine()), vectors)))


def graphics() -> str | None:
    """The name of the GPU and the CUDA version of its driver; None if no GPU was used."""
    from minigrad.core.devices import find_backend  # not before cores are chosen

    library = find_backend("cuda").library
    if library is None:
        return None
    runtime = library.cuda.runtime
    number = runtime.driverGetVersion()
    name = runtime.getDeviceProperties(runtime.getDevice())["name"].decode()
    return f"{name} (driver for CUDA {number // 1000}.{number % 1000 // 10})"


def _blas() -> str:
    """The library of NumPy's matrix products."""
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas['version']}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
