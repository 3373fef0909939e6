"""A step on the CPU as a plan: a list of calls, over memory that was laid out once.

A replay makes the calls one after another: no node, no walk, no choice of a kernel, no new memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..errors import RangeError
from ..tensor import Tensor
from ..versions import root
from .calls import Call
from .layout import Buffer, Space, in_memory, lay_out, refers_to
from .picture import to_svg
from .trace import Trace, flat


class Plan:
    """A step's calls, and what a replay leaves: results and gradients."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.gradients: dict[Tensor, Tensor] = {}  # of each leaf that has one after the step
        self.left: dict[Tensor, Tensor | None] = {}  # the `.grad` of each, after the step
        self.guards: list[Callable[[], bool]] = []
        self.results: Any = None
        self.whole: Counter[str] = Counter()  # operations that are one call of their rule each, and why
        self.calls: list[Call] = []
        self.memory = 0  # bytes of all that it writes
        self.buffers: list[Buffer] = []  # arrays that share memory
        self._run: list[Callable[[], Any]] = []

    def finish(self, stays: list[np.ndarray], space: Space) -> None:
        """Lay out the memory in `space`; the arrays of `stays` keep theirs."""
        trace, self.trace = self.trace, Trace()
        self.gradients = {leaf: grad for leaf, grad in self.gradients.items() if self.left[leaf] is not None}
        shared = self._share_gradients(trace, stays, space)
        stays = stays + [grad.array for grad in self.gradients.values()]
        self.calls, self.memory, self.buffers = lay_out(trace, stays, shared, space)
        self._run = [partial(c.function, *c.args, **c.settings) for c in self.calls]

    def _share_gradients(self, trace: Trace, stays: list[np.ndarray], space: Space) -> dict[int, np.ndarray]:
        """Put gradients where other plans have theirs; that memory, by the id of what owned them so far."""
        shared: dict[int, np.ndarray] = {}
        taken = {id(root(x)) for x in stays} | refers_to(trace)
        for leaf, grad in self.gradients.items():
            own = root(grad.array)
            if id(own) not in trace.buffers or id(own) in taken or own.nbytes != grad.array.nbytes:
                continue
            new = space.gradients.get(id(leaf))
            if new is None or (new.shape, new.strides, new.dtype) != (own.shape, own.strides, own.dtype):
                new = space.gradients[id(leaf)] = np.empty_like(own, subok=False)
            taken.add(id(own))
            shared[id(own)] = new
            new[...] = own
            grad.array = in_memory(grad.array, flat(new), own.ctypes.data, 0)
        return shared

    def is_valid(self) -> bool:
        """Whether what the step found when it was recorded is still there."""
        return all(condition() for condition in self.guards)

    def replay(self) -> Any:
        try:
            for call in self._run:
                call()
        except IndexError as error:  # a kernel's own: what its op would add is not in the plan
            raise RangeError(
                f"a captured step failed: {error}.\n"
                f"Correct the batch; without mg.capture the error names the line."
            ) from None
        for leaf, grad in self.left.items():
            leaf.grad = grad
        return self.results

    @property
    def laid_out(self) -> int:
        """The bytes that the buffers share."""
        return max([buffer.offset + buffer.nbytes for buffer in self.buffers], default=0)

    def to_svg(self) -> str:
        """The memory as a picture: when each array is needed, and where it lies."""
        return to_svg(self)

    def _repr_svg_(self) -> str:
        return to_svg(self)

    def __repr__(self) -> str:
        lines = [f"{i:5}  {call}" for i, call in enumerate(self.calls)]
        return "\n".join([*lines, f"{len(self.calls)} calls in {self.memory:,} bytes of memory"])
