"""Data-parallel training: throughput of ranks and of one process, and a model of its cost.

All train on the same batches, in turns, each in a process (or `mpiexec`). The fastest turn of each batch
counts, since ranks and threads wait for one that another program delays; speedups compare these. The model is
in `docs/results.md`: a rank's share of the computation, from one process on smaller batches, and an
all-reduce, with the bandwidth measured on two ranks.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minigrad import manual_seed
from minitransformer import Trainer, recipes
from minitransformer.runs import run as runs
from minitransformer.tasks import task_class
from minitransformer.training.ranks import Ranks, join

from .children import in_child, mpiexec
from .measuring import ratios, spread
from .peaks import MIB, _start, _trim, highest
from .tables import Table
from .training import BATCH, nano

# the model learns from batches a SHARE-th of the size
ALONE = "1 process, 1 thread"
SHARE = 4
ARRANGEMENTS = {  # name: ranks, threads of each
    ALONE: (1, 1),
    "1 process, 2 threads": (1, 2),
    "2 ranks": (2, 1),
    "4 ranks": (4, 1),
}
ROUNDS, WARM, SUMS = 6, 3, 20


def phrasebook(folder: Path, max_tokens: int, ranks: Ranks) -> Trainer:
    """The recipe's training, with batches of `max_tokens`."""
    recipe = recipes.load_recipe("phrasebook")
    recipe = replace(recipe, data=replace(recipe.data, max_tokens=max_tokens))
    splits = runs.load_splits(recipe, None, None)
    kind = task_class(recipe.task)
    tokenizer = kind.train_tokenizer(recipe.data, recipe.vocab_size, splits)
    task = kind.build(recipe, tokenizer, kind.filter(recipe.data, tokenizer, splits))
    manual_seed(recipe.training.seed)
    return Trainer(runs.build_model(recipe, tokenizer), task, recipe.training, folder, ranks=ranks)


WORKS = {  # name: the function that builds the trainer, and its batch size
    "nano": (nano, BATCH),
    "phrasebook": (phrasebook, 1024),
}


def train(work: str, steps: int, part: int = 1) -> dict[str, Any] | None:
    """Seconds and tokens of each step, seconds of an all-reduce, and MiB; batches are 1 / `part` of the
    recipe's."""
    ranks = join()
    begin, size = WORKS[work]
    with tempfile.TemporaryDirectory() as folder:
        begin(Path(folder), size // 8, ranks=Ranks()).train_step()  # loads the code
        gc.collect()
        _trim()
        before = _start()
        trainer = begin(Path(folder), size // part, ranks=ranks)
        seconds = []
        tokens = []
        for _ in range(WARM + steps):
            start = trainer.seconds
            record = trainer.train_step()
            seconds.append(trainer.seconds - start)
            tokens.append(record["tokens_per_second"] * seconds[-1])
        most = highest()
        parameters = list(trainer.model.parameters())
        sums = []
        for _ in range(SUMS):
            ranks.barrier()
            start = time.perf_counter()
            ranks.sum_gradients(parameters, [0.0, 0.0])
            sums.append(time.perf_counter() - start)
    if ranks.rank:
        return None
    return {
        "seconds": seconds[WARM:],
        "tokens": tokens[WARM:],
        "sum": statistics.median(sums),
        "bytes": 4 * trainer.model.num_parameters(),
        "memory": most - before,
    }


def ranks(works: Iterable[str] = WORKS, repeats: int = 50, kernels: str | None = None) -> list[Table]:
    """A table for each work measured here, and tables of the model on paper."""
    if mpiexec() is None or find_spec("mpi4py") is None:
        return [Table("ranks", notes=["No mpiexec or no mpi4py: pip install '.[distributed]'"]), *on_paper()]
    known = [work for work in works if work in WORKS]
    return [
        *(_table(work, repeats, kernels) for work in known),
        _overlap(known, repeats, kernels),
        *on_paper(),
    ]


def _table(work: str, repeats: int, kernels: str | None) -> Table:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in (*ARRANGEMENTS, "share")}
    for _ in range(ROUNDS):
        for name, (n, threads) in ARRANGEMENTS.items():
            settings: dict[str, Any] = {"threads": threads, "ranks": n, "kernels": kernels}
            found[name].append(in_child("ranks", "train", work, repeats // ROUNDS, **settings))
        found["share"].append(in_child("ranks", "train", work, repeats // ROUNDS, SHARE, kernels=kernels))
    model = fit_costs(*(found[name] for name in (ALONE, "share", "2 ranks")))
    alone = _fastest(found[ALONE], "seconds")
    table = Table(f"training {work}: one process and ranks")
    for name, (n, threads) in ARRANGEMENTS.items():
        seconds = _fastest(found[name], "seconds")
        tokens = found[name][0]["tokens"]
        table.rows[name] = {
            "tokens a second": spread([t / s for t, s in zip(tokens, seconds, strict=True)]),
            "speedup": ratios(alone, seconds),
            "of the model": None if threads > 1 else model.step(1) / model.step(n),
            "all-reduce, ms": min(turn["sum"] for turn in found[name]) * 1e3 if n > 1 else None,
            "MiB a process": _memory(found[name]) / MIB,
            "MiB of the model": model.memory(n) / MIB,
        }
    table.notes.append(
        f"The model: {model.fixed * 1e3:.1f} ms a step + {model.work * 1e3:.1f} ms / ranks, "
        f"{model.bytes / 1e6:.1f} MB of gradients at {model.bandwidth / 1e9:.1f} GB/s, {model.cores} cores"
    )
    return table


def _overlap(works: Iterable[str], repeats: int, kernels: str | None) -> Table:
    table = Table("a step of two ranks, its all-reduce after backward, during it, or left out: ms")
    for work in works:
        found = in_child("overlap", "steps", work, repeats, kernels=kernels, ranks=2)
        after = found["after backward"]
        table.rows[work] = {
            "after": spread([1e3 * s for s in after]),
            "during / after": ratios(found["during backward"], after),
            "none / after": ratios(found["none"], after),
        }
    return table


def _fastest(turns: list[dict[str, Any]], key: str) -> list[float]:
    """The fastest turn of each batch."""
    return [min(times) for times in zip(*(turn[key] for turn in turns), strict=True)]


def _memory(turns: list[dict[str, Any]]) -> float:
    return statistics.median(turn["memory"] for turn in turns)


# ---------------------------------------------------------------- the model


@dataclass(frozen=True)
class Costs:
    """The costs of a step: seconds, bytes, bytes per second."""

    fixed: float  # seconds of work that each rank does in full: the optimizer, calls
    work: float  # seconds of work that is divided among the ranks
    bytes: float  # of gradients
    bandwidth: float  # of one rank's link, each way
    latency: float = 0.0  # of a message
    cores: float = math.inf  # number of cores that compute at a time
    activations: float = 0.0  # bytes of one process's

    def all_reduce(self, n: int) -> float:
        """Each rank sends and receives 2 (n - 1) / n of the gradients, in 2 log2 n messages at least."""
        return 2 * (n - 1) / n * self.bytes / self.bandwidth + 2 * math.log2(n) * self.latency

    def step(self, n: int) -> float:
        return (self.fixed + self.work / n) * max(1, n / self.cores) + self.all_reduce(n)

    def memory(self, n: int) -> float:
        """Bytes of a rank: weights, gradients, two moments, the buffer of the sum; and its activations."""
        return (4 + (n > 1)) * self.bytes + self.activations / n


def fit_costs(whole: list[dict[str, Any]], share: list[dict[str, Any]], two: list[dict[str, Any]]) -> Costs:
    """The costs on this machine, from one process with two batch sizes, and from two ranks' all-reduce."""
    (long, short), (many, few) = (
        [statistics.fmean(_fastest(turns, key)) for turns in (whole, share)] for key in ("seconds", "tokens")
    )
    work = (long - short) / (many - few) * many
    size = whole[0]["bytes"]
    return Costs(
        fixed=max(long - work, 0.0),
        work=work,
        bytes=size,
        bandwidth=size / min(turn["sum"] for turn in two),
        cores=os.cpu_count() or 1,
        activations=_memory(whole) - 4 * size,
    )


PARAMETERS = 63e6  # of the paper's base model, with 37,000 tokens of vocabulary
TOKENS = 25_000  # of a batch (section 5.1)
FLOPS = 6 * PARAMETERS * TOKENS  # of a step: 2 forward, 4 backward, a parameter and token
DEVICES = {  # assumptions: FLOP/s of matrix products, bytes/s and latency of a link
    "cores at 80 GFLOP/s, 10 Gbit/s links": (80e9, 1.25e9, 30e-6),
    "GPUs at 200 TFLOP/s, 400 Gbit/s links": (200e12, 50e9, 10e-6),
}


def on_paper() -> list[Table]:
    """The paper's base model on 1 to 1,000 devices: one batch divided, or a batch for each."""
    tables = []
    for name, (flops, bandwidth, latency) in DEVICES.items():
        one = Costs(0.0, FLOPS / flops, 4 * PARAMETERS, bandwidth, latency)
        table = Table(f"on paper: {name}")
        for n in (1, 2, 4, 8, 32, 100, 1000):
            each = replace(one, work=one.work * n)
            table.rows[f"{n:,}"] = {
                "compute, ms": one.work / n * 1e3,
                "all-reduce, ms": one.all_reduce(n) * 1e3,
                "speedup": one.step(1) / one.step(n),
                "efficiency, %": one.step(1) / one.step(n) / n * 100,
                "a batch each: efficiency, %": one.step(1) / each.step(n) * 100,
            }
        tables.append(table)
    return tables
