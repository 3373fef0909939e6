"""What minigrad does differently while a step is recorded; the rest of the library knows nothing of it.

The functions and methods listed here are replaced for as long as a step is recorded, and only in the thread
that records. What a step does on the CPU is done before each replay instead (`ON_REPLAY`). What makes
something that stays is done at once, and is not part of the graph (`ASIDE`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..devices import Gpu
from ..kernels.cuda.fused import cudnn
from ..optim import Adam, Optimizer
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from ..tensor import Tensor
from .failures import raise_uncapturable
from .replacing import replaced, same_optimizer, state_ids

ON_REPLAY = ((Optimizer, "count_step"), (Optimizer, "count"), (LRScheduler, "step"))
ASIDE = ((Gpu, "upload"), (cudnn, "_plan"))


@contextlib.contextmanager
def intercepted(graph: Any) -> Iterator[None]:
    """Within it, what this thread calls of the functions listed here is recorded in `graph`."""
    with replaced(_replacements(graph), graph.is_recording):
        yield


def _replacements(graph: Any) -> Iterator[tuple[Any, str, Callable]]:
    """(class or module, name, function of the original and its arguments)"""
    optimizers = _Optimizers(graph)
    on_replay = lambda original, *args: graph.on_replay(partial(original, *args))
    aside = lambda original, *args: graph.aside(lambda: original(*args))
    yield from ((owner, name, on_replay) for owner, name in ON_REPLAY)
    yield from ((owner, name, aside) for owner, name in ASIDE)
    yield Gpu, "download", lambda original, self, array, operation: raise_uncapturable(operation)
    yield ReduceLROnPlateau, "step", _refuse_metric
    yield Optimizer, "step", optimizers.step
    yield Optimizer, "hyperparameters_for", optimizers.hyperparameters_for
    yield Optimizer, "init_state", optimizers.init_state
    yield Adam, "flatten", optimizers.init_state


def _refuse_metric(original: Callable, scheduler: Any, metrics: Any) -> None:
    raise_uncapturable("ReduceLROnPlateau.step()", "It has to know the metric: call it after the step.")


class _Optimizers:
    """What optimizers do otherwise: their counts go on before each replay, their state is made aside, and
    their hyperparameters are read from the GPU."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.updates = 0  # steps of optimizers so far
        self.known: set[int] = set()  # ids of state arrays that the graph did not make

    def step(self, original: Callable, optimizer: Optimizer, *closure: Any) -> Any:
        parameters = _parameters(optimizer)
        if any(p.grad is not None and type(p.array) is np.ndarray for p in parameters):
            name = type(optimizer).__name__
            raise_uncapturable(f"{name}.step of parameters on the CPU", "Move the model to the GPU.")
        self.updates += 1
        self.known = state_ids(optimizer)
        loss = original(optimizer, *closure)
        if not state_ids(optimizer) <= self.known:
            raise_uncapturable(
                f"a parameter's first step in {type(optimizer).__name__}, such as its first momentum",
                "Each parameter needs a gradient in the first two calls.",
            )
        self.graph.guard(_same_optimizer(optimizer))
        return loss

    def init_state(self, original: Callable, optimizer: Optimizer, *args: Any) -> Any:
        before = state_ids(optimizer)
        made = self.graph.aside(lambda: original(optimizer, *args))
        self.known |= state_ids(optimizer) - before
        return made

    def hyperparameters_for(
        self, original: Callable, optimizer: Optimizer, p: Any, state: dict[str, Any], group: dict[str, Any]
    ) -> Any:
        count = int(state["step"].item(0)) if "step" in state else 0
        coming = {**state, "step": np.array(count + 1)}  # counted in each replay, and not now
        return self.graph.numbers(
            (self.updates, id(group), p.dtype, count),
            partial(optimizer.hyperparameters, state, group),
            optimizer.hyperparameters(coming, group),
            p.dtype,
        )


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _same_optimizer(optimizer: Optimizer) -> Callable[[], bool]:
    """Whether a graph is still valid: besides, its parameters are as many steps apart."""

    def steps_apart() -> list[int]:
        states = [optimizer.state.get(p, {}) for p in _parameters(optimizer)]
        steps = [int(state["step"]) for state in states if "step" in state]
        return [step - steps[0] for step in steps]

    return same_optimizer(optimizer, steps_apart)
