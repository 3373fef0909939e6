"""What a training will take: parameters, FLOPs, memory and time, from a few steps of it.

Memory is what the process has after a step of one row (code, data, weights, gradients, moments), what the
largest batch adds to its activations, which `minigrad.debug.memory` simulates, and copies for checkpoints.
Where that batch is too large to compute here, activations and time are extrapolated from fewer rows.
"""

from __future__ import annotations

import copy
import math
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console

from minigrad import nn
from minigrad.core import random
from minigrad.debug import memory

from ..recipes import Recipe
from ..tasks import Task
from ..tasks.base import first_rows
from ..training.schedules import resolve
from ..training.trainer import Trainer
from .checks import NO_VALIDATION
from .memory_needed import FLOAT, per_parameter
from .run import build_model

BACKWARD = 2  # a backward pass costs twice the forward pass (Kaplan et al. 2020, section 2.1)
SAMPLE = 100  # batches whose sizes are looked at
LARGEST = 5e10  # FLOPs of a forward pass that is computed as a whole
SECONDS = 5.0  # that steps are timed for


@dataclass(frozen=True)
class Part:
    """Parameters of one kind."""

    name: str
    parameters: int


@dataclass(frozen=True)
class Card:
    """What a training will take, memory in bytes."""

    recipe: str
    parts: tuple[Part, ...]
    steps: int
    tokens_per_step: float  # targets, on average
    flops_per_step: float  # of the average batch: forward and backward
    process: int  # code and data
    state: int  # weights, gradients, moments, moving average
    activations: int  # of the largest (micro-)batch
    copies: int  # of what is saved and loaded, beyond the activations
    seconds_per_step: float
    measured_rows: float  # the share of the batch that time and activations were measured on

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts)

    @property
    def memory(self) -> int:
        """Bytes at the peak of a training."""
        return self.process + self.state + self.activations + self.copies

    @property
    def tokens_per_parameter(self) -> float:
        return self.steps * self.tokens_per_step / max(self.parameters, 1)


def make_card(
    recipe: Recipe,
    tokenizer: Any,
    labels: list[str],
    task: Task,
    clock: Callable[[], float] = time.perf_counter,
    load: Callable[[], None] = lambda: None,
) -> Card:
    """The card of a recipe, whose task has its data. Takes some seconds; steps are timed by `clock`.

    `load` imports what else a training has in memory, such as what draws its curves.
    """
    random.manual_seed(recipe.training.seed)
    model = build_model(recipe, tokenizer, labels)
    steps = resolve(recipe.training, model, task).steps
    batches = [task.next_batch() for _ in range(min(SAMPLE, steps))]
    largest = max(batches, key=positions)
    micro = recipe.training.micro_batches
    whole = next(part for _, part in task.split(largest, micro))  # kept for backward at once
    small = first_rows(task, whole, 1)
    train(recipe, model, task, small)  # compiles, and makes gradients and moments
    load()
    base = resident()
    small_levels, small_flops = costs(recipe, model, task, small)
    part = first_rows(task, whole, math.floor(LARGEST / (small_flops / rows(small))))
    levels, flops = (
        costs(recipe, model, task, part) if rows(part) > rows(small) else (small_levels, small_flops)
    )
    peak = max(levels)
    seconds = time_of(recipe, model, task, part, clock)
    average = float(np.mean([positions(batch) for batch in batches]))
    share = positions(part) / average
    seconds_per_step = seconds / share
    if rows(part) < rows(whole):  # each operation's memory grows with the rows, and so does time
        half = first_rows(task, part, rows(part) // 2)
        half_levels, _ = costs(recipe, model, task, half)
        further = (rows(whole) - rows(part)) / max(rows(part) - rows(half), 1)
        peak = round(max(b + further * (b - a) for a, b in zip(half_levels, levels, strict=True)))
        further = (average - positions(part)) / max(positions(part) - positions(half), 1)
        seconds_per_step = seconds + further * max(seconds - time_of(recipe, model, task, half, clock), 0.0)
    state = FLOAT * per_parameter(recipe.training) * model.num_parameters()
    activations = max(peak - max(small_levels), 0)
    return Card(
        recipe.name,
        tuple(parts_of(model)),
        steps,
        float(np.mean([batch.n_tokens for batch in batches])),
        (1 + BACKWARD) * flops / share,
        max(base - state, 0),
        state,
        activations,
        copies(recipe, model, activations),
        seconds_per_step,
        min(share, 1.0),
    )


def copies(recipe: Recipe, model: nn.Module, activations: int) -> int:
    """Bytes of the copies that a checkpoint takes, beyond the activations, which are free by then.

    The moments are copied twice to save them; at the end the best weights are read, and a model is built.
    """
    weights = FLOAT * model.num_parameters()
    moments = (per_parameter(recipe.training) - 2) * weights
    return max(2 * max(weights, moments) - activations, 0) + 2 * weights


def rows(batch: Any) -> int:
    return len(batch.target)


def positions(batch: Any) -> int:
    """The size of a batch: of all of its arrays, padding included."""
    return sum(array.size for array in vars(batch).values() if isinstance(array, np.ndarray))


def train(
    recipe: Recipe,
    model: nn.Module,
    task: Task,
    batch: Any,
    seconds: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Train on one batch for some `seconds`, at least one step; returns the seconds of each step."""
    only = copy.copy(task)
    only.next_batch = lambda: batch  # type: ignore[method-assign]
    config = replace(recipe.training, micro_batches=1, **NO_VALIDATION)
    taken: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, only, config, Path(folder), Console(quiet=True))
        end = time.perf_counter() + seconds
        while not taken or time.perf_counter() < end:
            start = clock()
            trainer.train_step()
            taken.append(clock() - start)
    return taken


def time_of(recipe: Recipe, model: nn.Module, task: Task, batch: Any, clock: Callable[[], float]) -> float:
    """The median seconds of a training step on a batch, after one that is not timed."""
    taken = train(recipe, model, task, batch, SECONDS, clock)
    return float(np.median(taken[1:] or taken))


def costs(recipe: Recipe, model: nn.Module, task: Task, batch: Any) -> tuple[tuple[int, ...], int]:
    """Of a training step on a batch: the simulated bytes at each operation, and the FLOPs of its forward."""
    loss = task.loss(model.train(), batch, recipe.training.label_smoothing) / batch.n_tokens
    ledger = memory(loss, model)
    return ledger.levels, sum(vertex.flops or 0 for vertex in ledger.graph.vertices)


def resident() -> int:
    """Bytes of memory that the process has."""
    return psutil.Process().memory_info().rss


def parts_of(model: nn.Module) -> Iterable[Part]:
    """The parameters of each part of a model; the layers of a stack together."""
    found: dict[str, int] = {}
    for path, parameter in model.named_parameters():
        owner, _, _ = path.rpartition(".")
        words = (owner or path).split(".")
        number = max((place for place, word in enumerate(words) if word.isdigit()), default=0)  # of a layer
        own = words[number + 1 : number + 2] if number else words[:2]
        if "norm" in type(model.get_submodule(owner)).__name__.lower():
            own = [*own[:-1], "norms"]
        stack = words[:number] if number else []
        name = " ".join(word for word in (*stack, *own) if not word.isdigit() and word != "layers")
        name = name.replace("_", " ")
        found[name] = found.get(name, 0) + parameter.numel()
    return (Part(name, count) for name, count in found.items())
