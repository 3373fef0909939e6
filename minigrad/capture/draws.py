"""Random numbers in a captured step, whose keys have counters on the GPU.

The step and the number of calls are uploaded before each replay. Kernels add them to the key's counters, so
that each stream continues.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..core import random
from .failures import raise_uncapturable


class CapturedKey(random.Key):
    """A key that only kernels can use, since the step and the call are not known before a replay."""

    address_of_counters: Any  # a function that returns the counters' address on the GPU
    offset: int

    @property
    def counters(self) -> tuple[int, int, int]:
        return 0, self.offset, self.address_of_counters()

    @property
    def step(self) -> int:
        raise_uncapturable(
            "a random number drawn on the CPU, or by dropout of CuPy's own operations",
            'Use dropout\'s kernels (mg.kernels.use("cuda"), mg.fused(True)), or pass numbers as arguments.',
        )

    call = step


class CapturedGenerator(random.Generator):
    """The generator during a capture. It starts at the state of the thread's generator, and leaves that."""

    def __init__(self, graph: Any) -> None:
        super().__init__()
        self.graph = graph
        self.source = random.in_use.generator
        self.start = random.snapshot()
        self.restore(self.start)

    def next_key(self, stream: str) -> random.Key:
        key = CapturedKey(*super().next_key(stream))
        key.offset = tuple(key)[3] - self.start.calls.get(stream, 0)
        key.address_of_counters = lambda: self._counters(stream).data.ptr
        return key

    def _counters(self, stream: str) -> Any:
        """Return an array on the GPU that has a stream's step and number of calls before each replay."""
        compute = lambda: (self.source.step, self.source.calls.get(stream, 0))
        return self.graph.numbers(("draws", stream), compute, compute(), np.uint64)

    def advance(self) -> None:
        """Advance the thread's generator by the draws of one replay."""
        for stream, calls in self.calls.items():
            drawn = calls - self.start.calls.get(stream, 0)
            self.source.calls[stream] = self.source.calls.get(stream, 0) + drawn

    def manual_seed(self, seed: int) -> NoReturn:
        raise_uncapturable("manual_seed()", "Call it before the step.")

    def set_step(self, step: int) -> None:
        instead = "Call it before the step: a replay then draws the numbers of that step."
        raise_uncapturable("set_step()", instead)
