"""Data-parallel training: each rank (a process started by `mpiexec`) computes its shard of every batch, and
an all-reduce sums the gradients, so that all ranks take the same step as one process on the whole batch.

Ranks communicate through MPI (mpi4py). Between GPUs, NCCL (CuPy) sums the gradients. `Ranks()` is a single
process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from minigrad import Tensor, nn
from minigrad.core.devices import find_backend

from ..errors import UserError, counted

T = TypeVar("T")

NOT_GIVEN = "not given"


class RanksError(UserError):
    """The error if ranks cannot communicate, were started differently, or have different weights."""

    on_all_ranks = False  # whether every rank raises it, so that one message is enough


class Ranks:
    """A single process, and the base class of several ranks."""

    rank, size = 0, 1
    name = ""  # a prefix of this rank's messages

    def shard(self, parts: Iterable[T]) -> Iterator[T]:
        """The parts of a batch that this rank computes."""
        return islice(parts, self.rank, None, self.size)

    def sum_gradients(self, parameters: Iterable[Tensor], losses: Sequence[float]) -> Sequence[float]:
        """All-reduce the gradients of the parameters. Return the sum of each of the losses over ranks."""
        return losses

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        return flag

    def broadcast(self, compute: Callable[[], T]) -> T:
        """The result of `compute`, which only rank 0 calls."""
        return compute()

    def barrier(self) -> None:
        """Wait for all ranks."""

    def check_same(self, settings: Mapping[str, Any]) -> None:
        """Raise a RanksError on all ranks that names the first setting that differs between them.

        All ranks must call this at the same points.
        """

    def check_equal(self, model: nn.Module, step: int) -> None:
        """Raise a RanksError unless all ranks have the same weights, bit for bit."""

    @contextlib.contextmanager
    def print_on_rank_0(self) -> Iterator[None]:
        """A context in which only rank 0 prints."""
        yield

    def wait_turn(self, error: BaseException) -> None:
        """Delay an error message by rank. If all ranks fail, rank 0 aborts the others before they print."""

    def abort(self, code: int) -> None:
        """Abort all ranks with this exit code. Otherwise they would wait for this one forever."""


class MPIRanks(Ranks):
    """The ranks of an MPI communicator."""

    xp: Any = np  # the array library of the gradients

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.name = f"rank {self.rank}: "
        self._parameters: list[Tensor] = []

    def sum_gradients(self, parameters: Iterable[Tensor], losses: Sequence[float]) -> Sequence[float]:
        """All-reduce a flat buffer of the gradients, both losses, and how many ranks have each gradient.

        A rank without rows adds zeros. A parameter that has no gradient on any rank gets none.
        """
        self._flatten(list(parameters))
        counts = [float(p.grad is not None) for p in self._parameters]
        self._tail[...] = self.xp.asarray([*counts, *losses])
        for p, part in zip(self._parameters, self._parts, strict=True):
            part[...] = 0 if p.grad is None else p.grad.array
        self._all_reduce(self._flat)
        *counts, loss, nll = self._tail.tolist()
        for p, part, count in zip(self._parameters, self._parts, counts, strict=True):
            p.grad = Tensor(part.astype(p.array.dtype, copy=False)) if count else None
        return loss, nll

    def _flatten(self, parameters: list[Tensor]) -> None:
        """Allocate the flat buffer and a view for each parameter. 16-bit gradients are summed in float32."""
        if [*map(id, parameters)] == [*map(id, self._parameters)]:
            return
        ends = np.cumsum([p.array.size for p in parameters]).tolist()
        dtype = np.result_type(np.float32, *(p.array.dtype for p in parameters))
        self._parameters = parameters
        self._flat = self.xp.zeros(ends[-1] + len(parameters) + 2, dtype)
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

    def check_same(self, settings: Mapping[str, Any]) -> None:
        gathered = self.comm.allgather({name: str(value) for name, value in settings.items()})
        for name in dict.fromkeys(name for each in gathered for name in each):
            values = [each.get(name, NOT_GIVEN) for each in gathered]
            if others := [rank for rank, value in enumerate(values) if value != values[0]]:
                first = _truncate(values[0])
                other = _truncate(values[others[0]])
                raise self._error(
                    f"the ranks were started differently: {name} is {first} on rank 0, "
                    f"{other} on rank {', '.join(map(str, others))}.\n"
                    f"Start all ranks with the same command, data and versions."
                )

    def check_equal(self, model: nn.Module, step: int) -> None:
        checksums = self.comm.allgather(checksum_of(p.numpy() for p in model.parameters()))
        others = [str(rank) for rank, other in enumerate(checksums) if other != checksums[0]]
        if others:
            raise self._error(
                f"after step {step} the weights on rank {', '.join(others)} differ from those on rank 0.\n"
                f"Use the same options, data, versions and processor on all ranks; continue with --resume."
            )

    def _error(self, message: str) -> RanksError:
        """A RanksError that all ranks raise."""
        error = RanksError(message)
        error.on_all_ranks = True
        return error

    @contextlib.contextmanager
    def print_on_rank_0(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if self.rank:
                devnull = stack.enter_context(open(os.devnull, "w"))
                stack.enter_context(contextlib.redirect_stdout(devnull))
                stack.enter_context(contextlib.redirect_stderr(devnull))
            yield

    def wait_turn(self, error: BaseException) -> None:
        seconds = 10.0 if getattr(error, "on_all_ranks", False) else 0.6
        time.sleep(min(self.rank, 5) * seconds)

    def abort(self, code: int) -> None:
        time.sleep(0.2)  # mpiexec drops output that it has not read yet
        self.comm.Abort(code)


class NCCLRanks(MPIRanks):
    """Ranks with one GPU each: rank i of a machine uses GPU i. NCCL sums gradients, MPI does the rest."""

    def __init__(self, comm: Any) -> None:
        backend = find_backend("cuda")
        self.xp = backend.load()
        gpus = backend.device_count()
        from cupy.cuda import nccl

        super().__init__(comm)
        local = _local_communicator(comm)
        if local.size > gpus:
            raise RanksError(
                f"{local.size} ranks on a machine with {counted(gpus, 'GPU')}.\nStart one rank for each GPU."
            )
        self.xp.cuda.Device(local.rank).use()
        self._nccl = nccl
        self._gpus = nccl.NcclCommunicator(self.size, self.broadcast(nccl.get_unique_id), self.rank)

    def _all_reduce(self, flat: Any) -> None:
        kind = self._nccl.NCCL_FLOAT64 if flat.itemsize == 8 else self._nccl.NCCL_FLOAT32
        stream = self.xp.cuda.get_current_stream().ptr
        place = flat.data.ptr
        self._gpus.allReduce(place, place, flat.size, kind, self._nccl.NCCL_SUM, stream)


def checksum_of(arrays: Iterable[np.ndarray]) -> int:
    """The CRC-32 checksum of the bytes of the arrays."""
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, checksum)
    return checksum


def _truncate(text: str) -> str:
    """The text, without its middle if it has more than 80 characters."""
    return text if len(text) <= 80 else f"{text[:40]}...{text[-40:]}"


def code_sha256() -> str:
    """The checksum of this project's source code, as different checkouts may have the same version."""
    digest = hashlib.sha256()
    for package in ("minigrad", "minitransformer"):
        folder = Path(__file__).parents[2] / package
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".cu", ".cuh")):
            digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


# ---------------------------------------------------------------- joining

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")  # set by mpiexec of MPICH (also Intel, Microsoft) and Open MPI
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

_current = Ranks()


def current_ranks() -> Ranks:
    """The ranks that this process has joined, or a single process."""
    return _current


def join(device: str = "cpu") -> Ranks:
    """Join the ranks that `mpiexec` started, and return them. Without `mpiexec`, return a single process.

    With the device "cuda", each rank uses one GPU.
    """
    global _current
    started = max(int(os.environ.get(name) or 1) for name in SIZES)
    if started > 1 and _current.size == 1:
        comm = _world(started)
        _current = MPIRanks(comm)
        _current.check_same({"device": device})
        _divide_cores(comm)
        if device.startswith("cuda:"):
            raise RanksError(
                f"{device} is one GPU, but each of {started} ranks needs its own.\n"
                f"Pass --device cuda, without a number."
            )
        if device == "cuda":  # after `_current` is set, so that only one rank reports an error
            _current = NCCLRanks(comm)
    return _current


def _world(started: int) -> Any:
    fix = "pip install 'minitransformer[distributed]', and use its mpiexec"
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: no MPI library found
        raise RanksError(
            f"mpiexec started {started} processes that cannot communicate: {error}.\nInstall: {fix}."
        ) from None
    if MPI.COMM_WORLD.size != started:
        raise RanksError(
            f"mpiexec started {started} processes, but mpi4py, of another MPI, sees {MPI.COMM_WORLD.size}.\n"
            f"Use one MPI: {fix}. Without mpiexec, unset {' and '.join(n for n in SIZES if n in os.environ)}."
        )
    return MPI.COMM_WORLD


def _divide_cores(comm: Any) -> None:
    """Divide a machine's cores among its ranks, unless the user has set the number of threads."""
    if any(name in os.environ for name in THREADS):
        return
    from threadpoolctl import threadpool_limits

    local = _local_communicator(comm)
    affinity = getattr(os, "sched_getaffinity", lambda process: range(os.cpu_count() or 1))
    cores = set().union(*local.allgather(set(affinity(0))))
    threadpool_limits(max(1, len(cores) // local.size), user_api="blas")


def _local_communicator(comm: Any) -> Any:
    """The MPI communicator of the ranks on this machine."""
    from mpi4py import MPI

    return comm.Split_type(MPI.COMM_TYPE_SHARED)
