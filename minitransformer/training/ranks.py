"""Data-parallel training: each rank (a process that `mpiexec` started) computes its rows of every batch, and
the ranks add up their gradients, so that all take the step that one process takes on the whole batch.

What ranks say to each other goes through MPI (mpi4py); between GPUs NCCL (CuPy) adds up the gradients. A
process alone is `Ranks()`, which has nobody to talk to.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from minigrad import Tensor, nn
from minigrad.devices import gpu_count, load_cupy

from ..errors import UserError

T = TypeVar("T")


class RanksError(UserError):
    """Ranks that cannot be joined, or that no longer do the same."""


class Ranks:
    """A process alone: what ranks do together, for one."""

    rank, size = 0, 1
    name = ""  # a prefix of this rank's messages

    def shard(self, parts: Iterable[T]) -> Iterator[T]:
        """This rank's shard of the parts of a batch."""
        return islice(parts, self.rank, None, self.size)

    def sum_gradients(self, parameters: Iterable[Tensor], loss: float) -> float:
        """Make each parameter's gradient the sum of all ranks', and give the sum of their losses."""
        return loss

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        return flag

    def broadcast(self, compute: Callable[[], T]) -> T:
        """What `compute` gives on rank 0, which alone calls it."""
        return compute()

    def barrier(self) -> None:
        """Wait until every rank is here."""

    def check_equal(self, model: nn.Module, step: int) -> None:
        """Make sure that all ranks have the same weights, to the bit."""

    @contextlib.contextmanager
    def print_on_rank_0(self) -> Iterator[None]:
        """A context in which the other ranks print nothing."""
        yield

    def wait_turn(self) -> None:
        """Delay an error message by rank: if all ranks have the same one, the first aborts the others."""

    def abort(self, code: int) -> None:
        """Abort every rank, with this exit code of the whole job: the others would wait forever."""


class MPIRanks(Ranks):
    """The ranks of an MPI communicator."""

    xp: Any = np  # the library of the gradients' arrays

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank, self.size = comm, comm.rank, comm.size
        self.name = f"rank {self.rank}: "
        self._parameters: list[Tensor] = []

    def sum_gradients(self, parameters: Iterable[Tensor], loss: float) -> float:
        """One all-reduce of one buffer: the gradients, a count of ranks that have each of them, and the loss.

        A rank without rows adds zeros. Who has no gradient on any rank keeps none.
        """
        self._lay_out(list(parameters))
        counts = [float(p.grad is not None) for p in self._parameters]
        self._tail[...] = self.xp.asarray([*counts, loss])
        for p, part in zip(self._parameters, self._parts, strict=True):
            part[...] = 0 if p.grad is None else p.grad.array
        self._all_reduce(self._flat)
        *counts, loss = self._tail.tolist()
        for p, part, count in zip(self._parameters, self._parts, counts, strict=True):
            p.grad = Tensor(part.astype(p.array.dtype, copy=False)) if count else None
        return loss

    def _lay_out(self, parameters: list[Tensor]) -> None:
        """The buffer, and each parameter's part of it; 16-bit gradients are added up in float32."""
        if [*map(id, parameters)] == [*map(id, self._parameters)]:
            return
        ends = np.cumsum([p.array.size for p in parameters]).tolist()
        dtype = np.result_type(np.float32, *(p.array.dtype for p in parameters))
        self._parameters = parameters
        self._flat = self.xp.zeros(ends[-1] + len(parameters) + 1, dtype)
        self._tail = self._flat[ends[-1] :]
        starts = [0, *ends[:-1]]
        self._parts = [
            self._flat[a:b].reshape(p.shape) for a, b, p in zip(starts, ends, parameters, strict=True)
        ]

    def _all_reduce(self, flat: Any) -> None:
        from mpi4py import MPI

        self.comm.Allreduce(MPI.IN_PLACE, flat, MPI.SUM)

    def any(self, flag: bool) -> bool:
        from mpi4py import MPI

        return self.comm.allreduce(flag, MPI.LOR)

    def broadcast(self, compute: Callable[[], T]) -> T:
        return self.comm.bcast(compute() if self.rank == 0 else None)

    def barrier(self) -> None:
        self.comm.Barrier()

    def check_equal(self, model: nn.Module, step: int) -> None:
        checksum = 0
        for p in model.parameters():
            checksum = zlib.crc32(np.ascontiguousarray(p.numpy()).reshape(-1).view(np.uint8).data, checksum)
        found = self.comm.allgather(checksum)
        others = [str(rank) for rank, other in enumerate(found) if other != found[0]]
        if others:
            raise RanksError(
                f"after step {step} the weights on rank {', '.join(others)} are not those on rank 0.\n"
                f"Give all ranks the same options, data, versions and processor; continue with --resume."
            )

    @contextlib.contextmanager
    def print_on_rank_0(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if self.rank:
                nowhere = stack.enter_context(open(os.devnull, "w"))
                stack.enter_context(contextlib.redirect_stdout(nowhere))
                stack.enter_context(contextlib.redirect_stderr(nowhere))
            yield

    def wait_turn(self) -> None:
        time.sleep(min(self.rank, 5) * 0.6)

    def abort(self, code: int) -> None:
        time.sleep(0.2)  # mpiexec drops what it has not yet read of a rank's last words
        self.comm.Abort(code)


class NCCLRanks(MPIRanks):
    """Ranks with a GPU each, by their place on their machine; NCCL adds up gradients, MPI does the rest."""

    def __init__(self, comm: Any) -> None:
        self.xp, gpus = load_cupy(), gpu_count()
        from cupy.cuda import nccl

        super().__init__(comm)
        here = _on_this_machine(comm)
        if here.size > gpus:
            raise RanksError(
                f"{here.size} ranks of one machine, whose GPUs are {gpus}.\nStart a rank for each GPU."
            )
        self.xp.cuda.Device(here.rank).use()
        self._nccl = nccl
        self._gpus = nccl.NcclCommunicator(self.size, self.broadcast(nccl.get_unique_id), self.rank)

    def _all_reduce(self, flat: Any) -> None:
        kind = self._nccl.NCCL_FLOAT64 if flat.itemsize == 8 else self._nccl.NCCL_FLOAT32
        stream = self.xp.cuda.get_current_stream().ptr
        place = flat.data.ptr
        self._gpus.allReduce(place, place, flat.size, kind, self._nccl.NCCL_SUM, stream)


# ---------------------------------------------------------------- joining

SIZES = (
    "PMI_SIZE",
    "OMPI_COMM_WORLD_SIZE",
)  # what mpiexec of MPICH (and Intel's, Microsoft's), of Open MPI sets
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

_joined = Ranks()


def joined() -> Ranks:
    """The ranks that this process has joined; itself alone, if none."""
    return _joined


def join(device: str = "cpu") -> Ranks:
    """The ranks that `mpiexec` started, this process one of them; without mpiexec the process alone.

    With "cuda" each has a GPU of its own.
    """
    global _joined
    started = max(int(os.environ.get(name, 1)) for name in SIZES)
    if started > 1 and _joined.size == 1:
        comm = _world(started)
        _share_cores(comm)
        _joined = MPIRanks(comm)
        if device.startswith("cuda:"):
            raise RanksError(
                f"{device} is one GPU, and each of {started} ranks takes one of its own.\n"
                f"Name the device cuda, without a number."
            )
        if device == "cuda":  # what goes wrong with GPUs is said by one rank
            _joined = NCCLRanks(comm)
    return _joined


def _world(started: int) -> Any:
    fix = "pip install 'minitransformer[distributed]', and start with the mpiexec that comes with it"
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: there is no MPI for it
        raise RanksError(
            f"mpiexec started {started} processes that cannot talk: {error}.\nInstall: {fix}."
        ) from None
    if MPI.COMM_WORLD.size != started:
        raise RanksError(
            f"mpiexec started {started} processes, and mpi4py, of another MPI, sees {MPI.COMM_WORLD.size}.\n"
            f"Use one MPI: {fix}."
        )
    return MPI.COMM_WORLD


def _share_cores(comm: Any) -> None:
    """Divide a machine's cores among its ranks, unless the user has; libraries would take all for each."""
    if any(name in os.environ for name in THREADS):
        return
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_limits

        here = _on_this_machine(comm)
        affinity = getattr(os, "sched_getaffinity", lambda process: range(os.cpu_count() or 1))
        cores = set().union(*here.allgather(set(affinity(0))))
        threadpool_limits(max(1, len(cores) // here.size), user_api="blas")


def _on_this_machine(comm: Any) -> Any:
    from mpi4py import MPI

    return comm.Split_type(MPI.COMM_TYPE_SHARED)
