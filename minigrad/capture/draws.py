"""What a recorded step draws: keys whose counters lie on the GPU.

The step and the calls so far are two numbers on the GPU, uploaded before each replay; kernels add them to
what the key itself says, so that each stream continues from where it is then.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..core import random
from .failures import raise_uncapturable


class RecordedKey(random.Key):
    """A key for kernels alone: step and call are known when a replay draws."""

    address_of_counters: Any  # gives a function
    offset: int

    @property
    def counters(self) -> tuple[int, int, int]:
        return 0, self.offset, self.address_of_counters()

    @property
    def step(self) -> int:
        raise_uncapturable(
            "a random number drawn on the CPU, or by dropout of CuPy's own operations",
            'Only dropout\'s kernels draw: mg.kernels.use("cuda"), mg.fused(True). Pass others as arguments.',
        )

    call = step


class RecordedGenerator(random.Generator):
    """The generator of a step that is recorded. It starts where the thread's own is, which stays there."""

    def __init__(self, graph: Any) -> None:
        super().__init__()
        self.graph = graph
        self.source = random.in_use.generator
        self.start = random.snapshot()
        self.restore(self.start)

    def next_key(self, stream: str) -> random.Key:
        key = RecordedKey(*super().next_key(stream))
        key.offset = tuple(key)[3] - self.start.calls.get(stream, 0)
        key.address_of_counters = lambda: self._counters(stream).data.ptr
        return key

    def _counters(self, stream: str) -> Any:
        """Step and calls of a stream at the start of each replay, on the GPU."""
        compute = lambda: (self.source.step, self.source.calls.get(stream, 0))
        return self.graph.numbers(("draws", stream), compute, compute(), np.uint64)

    def advance(self) -> None:
        """Count what a replay draws."""
        for stream, calls in self.calls.items():
            drawn = calls - self.start.calls.get(stream, 0)
            self.source.calls[stream] = self.source.calls.get(stream, 0) + drawn

    def manual_seed(self, seed: int) -> NoReturn:
        raise_uncapturable("manual_seed()", "Call it before the step.")

    def set_step(self, step: int) -> None:
        instead = "Call it before the step: a replay draws what belongs to the step that is set."
        raise_uncapturable("set_step()", instead)
