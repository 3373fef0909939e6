"""The card of a training run: parameters, FLOPs, memory and time, estimated from a few of its steps.

Memory is the sum of three parts: what the process uses after a step on one row (code, data, weights,
gradients, moments), the activations of the largest batch, which `minigrad.debug.memory` simulates, and copies
for checkpoints. If the largest batch is too slow to compute, activations and time are extrapolated from fewer
rows.
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
from rich.console import Console

from minigrad import nn
from minigrad.core import random
from minigrad.debug import memory

from ..recipes import Recipe
from ..tasks import Task
from ..tasks.base import first_rows
from ..training.progress import memory_in_use
from ..training.schedules import resolve
from ..training.trainer import Trainer
from .checks import NO_VALIDATION
from .memory_needed import FLOAT, per_parameter
from .run import build_model

BACKWARD = 2  # a backward pass costs twice the forward pass (Kaplan et al. 2020, section 2.1)
SAMPLE = 100  # number of batches whose sizes are averaged
MAX_FLOPS = 5e10  # a forward pass with more FLOPs is extrapolated
SECONDS = 5.0  # duration of the timed steps


@dataclass(frozen=True)
class Part:
    """A part of a model, and its number of parameters."""

    name: str
    parameters: int


@dataclass(frozen=True)
class Card:
    """The estimated cost of a training run. Memory is in bytes."""

    recipe: str
    parts: tuple[Part, ...]
    steps: int
    tokens_per_step: float  # the average number of targets
    flops_per_step: float  # forward and backward, for the average batch
    process: int  # code and data
    state: int  # weights, gradients, moments, moving average
    activations: int  # for the largest (micro-)batch
    copies: int  # for saving and loading, beyond the activations
    seconds_per_step: float
    measured_rows: float  # the fraction of the average batch that was measured, at most 1

    @property
    def parameters(self) -> int:
        """The number of parameters of the model."""
        return sum(part.parameters for part in self.parts)

    @property
    def memory(self) -> int:
        """The peak memory of the training, in bytes."""
        return self.process + self.state + self.activations + self.copies

    @property
    def tokens_per_parameter(self) -> float:
        """The number of targets in the whole training, per parameter."""
        return self.steps * self.tokens_per_step / max(self.parameters, 1)


def make_card(
    recipe: Recipe,
    tokenizer: Any,
    labels: list[str],
    task: Task,
    clock: Callable[[], float] = time.perf_counter,
    load: Callable[[], None] = lambda: None,
) -> Card:
    """Make the card of a recipe, which takes several seconds. `task` has the data, and `clock` times steps.

    `load` imports the other modules that a training has in memory, such as the plotting code.
    """
    random.manual_seed(recipe.training.seed)
    model = build_model(recipe, tokenizer, labels)
    steps = resolve(recipe.training, model, task).steps
    batches = [task.batch(step) for step in range(min(SAMPLE, steps))]
    largest = max(batches, key=positions)
    micro = recipe.training.micro_batches
    whole = next(part for _, part in task.split(largest, micro))  # rows with activations in memory at once
    small = first_rows(task, whole, 1)
    train(recipe, model, task, small)  # compiles kernels, and allocates gradients and moments
    load()
    base = memory_in_use()
    small_levels, small_flops = costs(recipe, model, task, small)
    part = first_rows(task, whole, math.floor(MAX_FLOPS / (small_flops / rows(small))))
    levels, flops = (
        costs(recipe, model, task, part) if rows(part) > rows(small) else (small_levels, small_flops)
    )
    peak = max(levels)
    seconds = time_of(recipe, model, task, part, clock)
    average = float(np.mean([positions(batch) for batch in batches]))
    share = positions(part) / average
    seconds_per_step = seconds / share
    if rows(part) < rows(whole):  # memory and time are linear in the rows
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
    """The bytes of copies for checkpoints, beyond the memory of the activations, which is free by then.

    Saving copies the moments twice. At the end of the training, the best weights are loaded into a new model.
    """
    weights = FLOAT * model.num_parameters()
    moments = (per_parameter(recipe.training) - 2) * weights
    return max(2 * max(weights, moments) - activations, 0) + 2 * weights


def rows(batch: Any) -> int:
    """The number of rows in a batch."""
    return len(batch["target"])


def positions(batch: Any) -> int:
    """The total size of a batch's arrays, including padding."""
    return sum(array.size for array in batch.values())


def train(
    recipe: Recipe,
    model: nn.Module,
    task: Task,
    batch: Any,
    seconds: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Train on one batch for `seconds`, and at least one step. Return the seconds of each step."""
    fixed = copy.copy(task)
    fixed.batch = lambda step: batch  # type: ignore[method-assign]
    config = replace(recipe.training, micro_batches=1, **NO_VALIDATION)
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, fixed, config, Path(folder), Console(quiet=True))
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            start = clock()
            trainer.train_step()
            times.append(clock() - start)
    return times


def time_of(recipe: Recipe, model: nn.Module, task: Task, batch: Any, clock: Callable[[], float]) -> float:
    """The median seconds of a training step on a batch, without the first step."""
    times = train(recipe, model, task, batch, SECONDS, clock)
    return float(np.median(times[1:] or times))


def costs(recipe: Recipe, model: nn.Module, task: Task, batch: Any) -> tuple[tuple[int, ...], int]:
    """The simulated memory at each operation of a training step, in bytes, and the forward pass's FLOPs."""
    loss = task.loss(model.train(), batch, recipe.training.label_smoothing) / batch.n_tokens
    ledger = memory(loss, model)
    return ledger.levels, sum(vertex.flops or 0 for vertex in ledger.graph.vertices)


def parts_of(model: nn.Module) -> Iterable[Part]:
    """The parts of a model with their parameters. The same parts of all layers of a stack count as one."""
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
