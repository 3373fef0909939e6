"""Does it pay to sum gradients during backward? Three kinds of steps on the same batch, in turns:

one all-reduce after backward, as in training; one for each bucket of gradients, started when the bucket is
complete; and none, which does not train the ranks together but shows the maximum gain.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from minigrad import Tensor
from minitransformer.training.ranks import MPIRanks, Ranks, join

BUCKET = 100_000  # gradients, at least


class Overlapped(MPIRanks):
    """Buckets of gradients, those of the last parameters first, as backward completes them in this order."""

    def __init__(self, comm: Any, parameters: list[Tensor]) -> None:
        super().__init__(comm)
        self._flatten(parameters)
        self.missing: list[set[int]] = []
        self.buckets: list[tuple[set[int], Any]] = []  # parameters, and their part of the buffer
        last = end = len(self._flat) - len(self._tail)
        bucket: set[int] = set()
        for i in reversed(range(len(parameters))):
            parameters[i].register_hook(lambda g, i=i: self.ready(i, g))
            bucket = bucket | {i}
            last = last - parameters[i].array.size
            if end - last >= BUCKET or i == 0:
                self.buckets.append((bucket, self._flat[last:end]))
                bucket = set()
                end = last

    def shard(self, parts: Any) -> Any:
        self.missing = [set(bucket) for bucket, _ in self.buckets]
        self.requests = []
        return super().shard(parts)

    def ready(self, i: int, g: Tensor) -> None:
        """A gradient is complete: start the buckets that waited for it, in the same order on all ranks."""
        from mpi4py import MPI

        if not self.missing:
            return
        self._parts[i][...] = g.array
        for missing in self.missing:
            missing.discard(i)
        while len(self.requests) < len(self.buckets) and not self.missing[len(self.requests)]:
            _, part = self.buckets[len(self.requests)]
            self.requests.append(self.comm.Iallreduce(MPI.IN_PLACE, part))

    def sum_gradients(self, parameters: Iterable[Tensor], losses: Sequence[float]) -> Sequence[float]:
        for request in self.requests:
            request.Wait()
        self.missing = []
        for p, part in zip(self._parameters, self._parts, strict=True):
            p.grad = Tensor(part)
        return [self.comm.allreduce(x) for x in losses]


class Apart(Ranks):
    """Ranks that divide the batch and sum nothing."""

    def __init__(self, ranks: Ranks) -> None:
        self.rank, self.size = ranks.rank, ranks.size


def steps(work: str, turns: int) -> dict[str, list[float]] | None:
    """Seconds of each step, by kind."""
    from .ranks import WARM, WORKS

    flat: Any = join()
    begin, size = WORKS[work]
    with tempfile.TemporaryDirectory() as folder:
        trainer = begin(Path(folder), size, ranks=flat)
        ways = {
            "after backward": flat,
            "during backward": Overlapped(flat.comm, list(trainer.model.parameters())),
            "none": Apart(flat),
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        batches = [trainer.task.batch(step) for step in range(8)]
        for turn in range(WARM + turns):
            for name, ranks in ways.items():
                trainer.ranks = ranks
                trainer.task.batch = lambda step, turn=turn: batches[turn % 8]
                flat.barrier()
                start = time.perf_counter()
                trainer.train_step()
                flat.barrier()
                found[name].append(time.perf_counter() - start)
    return None if flat.rank else {name: times[WARM:] for name, times in found.items()}
