"""Peak memory of training steps on a GPU, by each library's own account.

Counted is the peak in tensors: model, gradients, optimizer and what a step needs, plus about 32 MiB of
workspace of cuBLAS, which both libraries take from their own pools. torch counts it (`max_memory_allocated`);
for ours, CuPy reports when memory is taken from its pools and given back. The memory held is also counted:
pools keep freed memory for the next step, and a captured step has its own pool.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

from minigrad.core.devices import find_backend

MIB = 2**20
STEPS = 4  # two eager steps, the captured one, and a replay


class Peak(NamedTuple):
    """MiB of a GPU's memory."""

    used: float  # in tensors, at the highest
    held: float  # by the library, used or not


def peak_of_torch(step: Callable[[], object]) -> Peak:
    """The peak of steps after warm-up, without what compiling took."""
    import torch

    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return Peak(torch.cuda.max_memory_allocated() / MIB, torch.cuda.memory_reserved() / MIB)


def peak_of_ours(step: Callable[[], object], own: Callable[[], Any]) -> Peak:
    """The peak of the next steps; `own` returns a captured step's pool, which exists after them."""
    gc.collect()  # frees an unused captured step, with its pool
    library = find_backend("cuda").load()
    usual = library.get_default_memory_pool()
    with counting(library.cuda.MemoryHook, usual.used_bytes()) as count:
        for _ in range(STEPS):
            step()
    pools = [usual, *filter(None, [own()])]
    return Peak(count.highest / MIB, sum(pool.total_bytes() for pool in pools) / MIB)


def counting(hook: type, now: int) -> Any:
    """A `hook` of CuPy's that counts bytes in use from now on, in all pools."""

    class Counting(hook):  # type: ignore[misc, valid-type]
        name = "Counting"

        def __init__(self) -> None:
            self.now = self.highest = now

        def malloc_postprocess(self, mem_size: int, mem_ptr: int, **_: Any) -> None:
            if mem_ptr:
                self.now += mem_size
                self.highest = max(self.highest, self.now)

        def free_postprocess(self, mem_size: int, **_: Any) -> None:
            self.now -= mem_size

    return Counting()
