"""Functions that do something else while a step is recorded, and what both recorders ask of optimizers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from itertools import chain
from operator import is_
from typing import Any

from ..optim import Optimizer

one_at_a_time = threading.RLock()  # what is replaced is the whole process's


@contextlib.contextmanager
def replaced(
    replacements: Iterable[tuple[Any, str, Callable]], is_recording: Callable[[], bool]
) -> Iterator[None]:
    """Within it (class or module, name, function of the original and its arguments) are done instead.

    Of a class they are replaced in all that derive from it, and only while `is_recording()`.
    """
    with one_at_a_time, contextlib.ExitStack() as stack:
        for owner, name, replacement in replacements:
            for kind in _subclasses(owner) if isinstance(owner, type) else [owner]:
                original = vars(kind).get(name)
                if original is not None:
                    setattr(kind, name, _either(original, partial(replacement, original), is_recording))
                    stack.callback(setattr, kind, name, original)
        yield


def _either(original: Callable, replacement: Callable, is_recording: Callable[[], bool]) -> Callable:
    @wraps(original)
    def function(*args: Any, **settings: Any) -> Any:
        return (replacement if is_recording() else original)(*args, **settings)

    return function


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    """A class and all that derive from it."""
    yield kind
    for sub in kind.__subclasses__():
        yield from _subclasses(sub)


# ---------------------------------------------------------------- optimizers


def state_ids(optimizer: Optimizer) -> set[int]:
    """The ids of an optimizer's arrays, by which new ones are known."""
    return {id(array) for state in optimizer.state.values() for array in state.values()}


def options_of(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The options of each group, such as lr."""
    return [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]


def same_optimizer(optimizer: Optimizer, more: Callable[[], Any] = lambda: None) -> Callable[[], bool]:
    """A guard: parameters and state have the same arrays, and options that a replay does not read, as well
    as what `more` gives, are the same."""
    kind = next(kind for kind in type(optimizer).__mro__ if "step" in vars(kind))
    # a step of one's own may read an option otherwise than by `hyperparameters`
    skipped = {"params", *(optimizer.scheduled if kind is Optimizer else ())}

    def found() -> tuple[list[Any], Any]:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        states = optimizer.state
        arrays = chain.from_iterable([states[p].values() for p in parameters if p in states])
        options = [{k: v for k, v in g.items() if k not in skipped} for g in optimizer.param_groups]
        return [states, *parameters, *[p.array for p in parameters], *arrays], (options, more())

    before, others = found()

    def same() -> bool:
        now, others_now = found()
        return len(now) == len(before) and all(map(is_, now, before)) and others_now == others

    return same
