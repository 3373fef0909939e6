"""Recording a step on the CPU: it runs as it is, and its plan is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from ..allocator import return_freed_memory
from ..autograd.observers import observe
from ..tensor import Tensor
from ..trees import map_leaves
from .effects import intercepted
from .failures import refused
from .layout import Space
from .observers import ConstantObserver, is_still
from .plan import Plan
from .recorder import Recorder
from .traceable import traceable

_one_recording = threading.RLock()  # what is intercepted is the whole process's


def record(
    step_fn: Callable[..., Any], arguments: tuple[Any, ...], last: ConstantObserver, space: Space
) -> Plan:
    """Run the step as it is, and write its plan, in `space`; `last` saw the call before this one.

    What fails leaves everything as it was before the call.
    """
    found = {leaf: leaf.grad for leaf in last.leaves}
    recorder = record_calls(step_fn, arguments, last)
    plan = recorder.plan
    for leaf, grad in found.items():
        if leaf.grad is grad or grad is None:  # added to, or made where there was none
            plan.guards.append(partial(is_still, leaf, "grad", grad))
        if leaf.grad is grad is not None:
            plan.guards.append(partial(is_still, grad, "array", grad.array))
    for leaf, grad in plan.gradients.items():
        plan.left[leaf] = leaf.grad = None if leaf.grad is None else grad
    for leaf in {**found, **recorder.cleared}:
        if leaf.grad is None:
            plan.left[leaf] = None
    plan.guards.append(_same_leaves([*plan.gradients, *recorder.stepped]))
    plan.finish([x.array for x in recorder.results], space)
    recorder.release()
    return_freed_memory()  # a recording takes several times a step's
    return plan


def _same_leaves(leaves: list[Tensor]) -> Callable[[], bool]:
    """A guard: these require gradients as they do now."""
    needs = attrgetter("_requires_grad")
    trained, frozen = [x for x in leaves if needs(x)], [x for x in leaves if not needs(x)]
    return lambda: all(map(needs, trained)) and not any(map(needs, frozen))


def record_calls(
    step_fn: Callable[..., Any],
    arguments: tuple[Any, ...],
    before: ConstantObserver,
    like: Recorder | None = None,
) -> Recorder:
    """Run the step as it is, and note its calls, in memory of their own."""
    recorder = Recorder(before, arguments, like)
    grads = {leaf: leaf.grad for leaf in before.leaves}
    recorder.restore_later(grads.values(), grads)
    refused.error, refused.is_raised = None, False
    try:
        with _one_recording, traceable(), intercepted(recorder), observe(recorder):
            recorder.plan.results = map_leaves(recorder.result, step_fn(*arguments))
        if refused.error is not None:
            raise refused.error
        recorder.follow_assignments()
    except BaseException as error:
        for undo in reversed(recorder.undo):
            undo()
        if refused.is_raised and refused.error is not None and error is not refused.error:
            raise refused.error from error
        raise
    return recorder
