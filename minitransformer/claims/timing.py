"""How long a call takes, for experiments whose question is about time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def processor_seconds(call: Callable[[], Any], repeats: int, calls: int = 1) -> float:
    """Processor time of a call: the shortest of `repeats`, each the mean of `calls` in a row.

    Processor time stands still while other programs run, and the shortest is the least disturbed. A first
    call is not counted: it may compile a kernel.
    """
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            call()
        times.append((time.process_time() - start) / calls)
    return min(times)
