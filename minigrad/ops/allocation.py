"""How much memory is available, and the error for a tensor that needs more.

Linux overcommits memory and kills the process when the pages are written, so sizes are checked before an
array is allocated.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..core.errors import OutOfMemoryError

SMALL = 1 << 28  # bytes: a smaller array is allocated without a check


def check_allocation(shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise an OutOfMemoryError if an array is larger than the memory that is available."""
    size = math.prod(shape) * dtype.itemsize
    if size > SMALL and size > available_memory():
        raise out_of_memory(shape, dtype)


def out_of_memory(shape: tuple[int, ...], dtype: np.dtype, device: str = "cpu") -> OutOfMemoryError:
    """The error for an array that cannot be allocated."""
    room = f", {format_bytes(available_memory())} are available" if device == "cpu" else f" on {device}"
    size = format_bytes(math.prod(shape) * dtype.itemsize)
    return OutOfMemoryError(
        f"a tensor of shape {shape} and dtype {dtype} needs {size}{room}.\nUse a smaller shape."
    )


def available_memory() -> int:
    """Bytes that this process can allocate, on the machine and in its control group (a container, a job)."""
    import psutil

    return max(0, min([psutil.virtual_memory().available, *cgroup_memory()]))


def cgroup_memory(root: Path = Path("/")) -> Iterator[int]:
    """Yield how many bytes each limit of the process's control groups (cgroup v1 or v2) leaves."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                top = root / "sys/fs/cgroup"
                limit = "memory.max"
                usage = "memory.current"
            elif "memory" in controllers.split(","):
                top = root / "sys/fs/cgroup/memory"
                limit = "memory.limit_in_bytes"
                usage = "memory.usage_in_bytes"
            else:
                continue
            group = top / path.strip("/")
            for folder in (group, *group.parents):
                with contextlib.suppress(OSError, ValueError):  # "max" is not a number
                    used = int((folder / usage).read_text()) - _file_cache(folder)
                    yield int((folder / limit).read_text()) - used
                if folder == top:
                    break


def _file_cache(folder: Path) -> int:
    """Bytes of cached files that the kernel gives back when memory is needed."""
    counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return int(counts.get("total_inactive_file") or counts.get("inactive_file") or 0)


def format_bytes(n: int) -> str:
    """Format a number of bytes, such as `4.4 TB`, in powers of 1000."""
    if n >= 10**21:
        return "more than 1,000 EB"
    size = float(n)
    units = iter(("B", "kB", "MB", "GB", "TB", "PB", "EB"))
    unit = next(units)
    while size >= 999.5:
        size = size / 1000
        unit = next(units)
    return f"{size:.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"
