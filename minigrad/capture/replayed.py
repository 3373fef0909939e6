"""What replays on the CPU call besides NumPy and loops: draws, optimizers' numbers, version counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import random
from ..optim import Optimizer
from ..versions import Change, modifications
from .calls import Box


class Draws:
    """What a step draws of one generator, that of the thread if `source` is None."""

    def __init__(self, source: random.Generator | None, start: random.Snapshot) -> None:
        self.source, self.start, self.calls = source, start, dict(start.calls)
        self.streams: set[str] = set()
        self.drawn: dict[str, int] = {}  # calls of each stream in a step

    def begin(self) -> None:
        self.calls = dict((self.source or random.in_use.generator).calls)

    def draw(self, drawn: Box, stream: str, key: random.Key) -> None:
        generator = self.source or random.in_use.generator
        call = self.calls.get(stream, 0) + key.call - self.start.calls.get(stream, 0)
        drawn.value = random.Key(generator.first_seed, key.stream, generator.step, call, key.row)
        # counted at once, as the step may fail; what a checkpoint draws again has been counted already
        generator.calls[stream] = max(generator.calls.get(stream, 0), call + 1)

    def end(self) -> None:
        generator = self.source or random.in_use.generator
        for stream, number in self.drawn.items():
            generator.calls[stream] = self.calls.get(stream, 0) + number
            if not generator.calls[stream]:  # as before a stream's first draw
                del generator.calls[stream]


def norm_of(out: np.ndarray, total_norm: Callable, arrays: list, infinite: bool) -> None:
    out[()] = total_norm(arrays, infinite)


def count_changes(changed: Box) -> None:
    """What `bump_versions` does, for parameters that share their memory with no view."""
    pairs, name, source = changed.value
    modifications.count = count = modifications.count + 1
    for p, reference in pairs:
        version = p.version
        version.modified_at, version.changes = count, (Change(count, reference, name, source),)


def read_hyperparameters(
    box: Box, optimizer: Optimizer, state: dict[str, Any], group: dict[str, Any]
) -> None:
    box.value = optimizer.hyperparameters(state, group)


def adam(kernel: Callable, p: Any, g: Any, m: Any, v: Any, box: Box) -> None:
    kernel(p, g, m, v, box.value)


def fill_hyperparameters(numbers: np.ndarray, box: Box) -> None:
    optimizer, state, group = box.value
    numbers[...] = optimizer.hyperparameters(state, group)


def update(box: Box, p: Any, g: Any) -> None:
    original, optimizer, state, group = box.value
    original(optimizer, p, g, state, group)
