"""Replacements for functions during a capture, so that the rest of the library need not know about capture.

The functions in `replaced` behave differently during a capture, in the capturing thread only.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial, wraps
from itertools import chain
from operator import is_
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..kernels.cuda.backend import CuPyBackend
from ..kernels.cuda.fused import cudnn
from ..optim import Adam, Optimizer
from .failures import raise_uncapturable

patch_lock = threading.RLock()  # the replaced functions are global


class Replacements:
    """The replacements of functions. Each gets the original function and its arguments.

    Work on the CPU is repeated before each replay. Arrays that outlive the step are created immediately,
    outside the graph. Optimizers read their hyperparameters from the GPU.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.updates = 0  # the number of optimizer steps so far
        self.known: set[int] = set()  # the ids of state arrays that were created outside the graph

    def on_replay(self, original: Callable, *args: Any) -> None:
        self.graph.on_replay(partial(original, *args))

    def run_uncaptured(self, original: Callable, *args: Any) -> Any:
        return self.graph.run_uncaptured(lambda: original(*args))

    def download(self, original: Callable, backend: CuPyBackend, array: Any, operation: str) -> Any:
        raise_uncapturable(operation)

    def plateau_step(self, original: Callable, scheduler: Any, metrics: Any) -> None:
        raise_uncapturable("ReduceLROnPlateau.step()", "It needs the metric: call it after the step.")

    def optimizer_step(self, original: Callable, optimizer: Optimizer, *closure: Any) -> Any:
        parameters = _parameters(optimizer)
        if any(p.grad is not None and p.device == "cpu" for p in parameters):
            name = type(optimizer).__name__
            raise_uncapturable(f"{name}.step of parameters on the CPU", "Move the model to the GPU.")
        self.updates += 1
        self.known = _state_ids(optimizer)
        loss = original(optimizer, *closure)
        if not _state_ids(optimizer) <= self.known:
            raise_uncapturable(
                f"a parameter's first step in {type(optimizer).__name__}, such as its first momentum",
                "Each parameter needs a gradient in the first two calls.",
            )
        self.graph.guard(_same_optimizer(optimizer))
        return loss

    def init_state(self, original: Callable, optimizer: Optimizer, *args: Any) -> Any:
        before = _state_ids(optimizer)
        made = self.graph.run_uncaptured(lambda: original(optimizer, *args))
        self.known |= _state_ids(optimizer) - before
        return made

    def hyperparameters_for(
        self, original: Callable, optimizer: Optimizer, p: Any, state: dict[str, Any], group: dict[str, Any]
    ) -> Any:
        count = int(state["step"].item(0)) if "step" in state else 0
        coming = {**state, "step": np.array(count + 1)}  # each replay counts the step
        return self.graph.numbers(
            (self.updates, id(group), p.dtype, count),
            partial(optimizer.hyperparameters, state, group),
            optimizer.hyperparameters(coming, group),
            p.dtype,
        )


def replaced() -> tuple[tuple[Any, Callable, Callable], ...]:
    """Return (class or module, its function, the replacement) tuples. Overrides in subclasses count, too."""
    from ..more.schedulers import LRScheduler, ReduceLROnPlateau

    return (
        (Optimizer, Optimizer.count_step, Replacements.on_replay),
        (Optimizer, Optimizer.count, Replacements.on_replay),
        (LRScheduler, LRScheduler.step, Replacements.on_replay),
        (ReduceLROnPlateau, ReduceLROnPlateau.step, Replacements.plateau_step),
        (CuPyBackend, CuPyBackend.upload, Replacements.run_uncaptured),
        (CuPyBackend, CuPyBackend.download, Replacements.download),
        (cudnn, cudnn._plan, Replacements.run_uncaptured),
        (Optimizer, Optimizer.step, Replacements.optimizer_step),
        (Optimizer, Optimizer.hyperparameters_for, Replacements.hyperparameters_for),
        (Optimizer, Optimizer.init_state, Replacements.init_state),
        (Adam, Adam.flatten, Replacements.init_state),
    )


@contextlib.contextmanager
def intercept(graph: Any) -> Iterator[None]:
    """Context manager that replaces the functions in `replaced` for this thread while it captures `graph`."""
    instead = Replacements(graph)
    with patch_lock, contextlib.ExitStack() as stack:
        for owner, function, replacement in replaced():
            name = function.__name__
            for kind in _subclasses(owner) if isinstance(owner, type) else [owner]:
                original = vars(kind).get(name)
                if original is not None:
                    done = partial(replacement, instead, original)
                    setattr(kind, name, _dispatch(original, done, graph.is_capturing))
                    stack.callback(setattr, kind, name, original)
        yield


def _dispatch(original: Callable, replacement: Callable, is_capturing: Callable[[], bool]) -> Callable:
    @wraps(original)
    def function(*args: Any, **settings: Any) -> Any:
        return (replacement if is_capturing() else original)(*args, **settings)

    return function


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    """Yield a class and all its subclasses."""
    yield kind
    for sub in kind.__subclasses__():
        yield from _subclasses(sub)


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _state_ids(optimizer: Optimizer) -> set[int]:
    """Return the ids of an optimizer's state arrays, by which new arrays are recognized."""
    return {id(array) for state in optimizer.state.values() for array in state.values()}


def _same_optimizer(optimizer: Optimizer) -> Callable[[], bool]:
    """Return a guard for replays of an optimizer's step.

    It requires that the arrays of parameters and state, the options that a replay does not read, and the
    differences between the parameters' step counts have not changed.
    """
    kind = next(kind for kind in type(optimizer).__mro__ if "step" in vars(kind))
    # a user's step may read any option, not only `hyperparameters`
    skipped = {"params", *(optimizer.scheduled if kind is Optimizer else ())}

    def found() -> tuple[list[Any], Any]:
        parameters = _parameters(optimizer)
        states = optimizer.state
        owned = [states[p] for p in parameters if p in states]
        arrays = chain.from_iterable([state.values() for state in owned])
        options = [{k: v for k, v in g.items() if k not in skipped} for g in optimizer.param_groups]
        steps = [int(state["step"]) for state in owned if "step" in state]
        apart = [step - steps[0] for step in steps]
        return [states, *parameters, *[p.array for p in parameters], *arrays], (options, apart)

    before, others = found()

    def same() -> bool:
        now, others_now = found()
        return len(now) == len(before) and all(map(is_, now, before)) and others_now == others

    return same
