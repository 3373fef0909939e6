"""A step on the CPU as a plan: a list of calls, over memory that was laid out once.

A replay makes the calls one after another: no node, no walk, no choice of a kernel, no new memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..tensor import Tensor
from .calls import Call
from .layout import Space, lay_out
from .trace import Trace


class Plan:
    """A step's calls, and what a replay leaves: results and gradients."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.gradients: dict[Tensor, Tensor] = {}  # of each leaf that gets one
        self.left: dict[Tensor, Tensor | None] = {}  # the `.grad` of each, after the step
        self.guards: list[Callable[[], bool]] = []
        self.results: Any = None
        self.whole: Counter[str] = Counter()  # operations that are one call of their rule each, and why
        self.calls: list[Call] = []
        self.memory = 0  # bytes
        self._run: list[Callable[[], Any]] = []

    def finish(self, stays: list[np.ndarray], space: Space) -> None:
        """Lay out the memory in `space`; the arrays of `stays` keep theirs."""
        trace, self.trace = self.trace, Trace()
        gradients = [grad.array for grad in self.gradients.values()]
        self.calls, self.memory = lay_out(trace, [*stays, *gradients], space)
        self._run = [partial(c.function, *c.args, **c.settings) for c in self.calls]

    def is_valid(self) -> bool:
        """Whether what the step found when it was recorded is still there."""
        return all(condition() for condition in self.guards)

    def replay(self) -> Any:
        for call in self._run:
            call()
        for leaf, grad in self.left.items():
            leaf.grad = grad
        return self.results

    def __repr__(self) -> str:
        lines = [f"{i:5}  {call}" for i, call in enumerate(self.calls)]
        return "\n".join([*lines, f"{len(self.calls)} calls in {self.memory:,} bytes of memory"])
