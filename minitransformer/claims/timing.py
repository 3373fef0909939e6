"""A function that measures how long a call takes, for experiments about time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def processor_seconds(call: Callable[[], Any], repeats: int, calls: int = 1) -> float:
    """The processor time of a call in seconds: the shortest of `repeats` means of `calls` calls.

    Processor time does not advance while other programs run, and the shortest time is the least disturbed. A
    first call is not timed, since it may compile a kernel.
    """
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            call()
        times.append((time.process_time() - start) / calls)
    return min(times)
