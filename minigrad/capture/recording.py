"""Recording a step on the CPU: it runs as it is, and its plan is written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..allocator import return_freed_memory
from ..autograd.observers import observe
from ..tensor import Tensor
from ..trees import leaves, map_leaves
from ..versions import root
from .effects import intercepted
from .failures import raise_changed, refused, said_of
from .guards import (
    all_below,
    is_still,
    same_leaves,
    same_modes,
    same_parts,
    same_settings,
    same_tensors,
    tensors_of,
)
from .layout import Space
from .observers import ConstantObserver
from .outline import Outline
from .plan import Plan
from .recorder import Recorder
from .replacing import one_at_a_time
from .trace import flat, offset
from .traceable import traceable

if TYPE_CHECKING:
    from . import Step


def record(
    step_fn: Callable[..., Any], arguments: tuple[Any, ...], last: ConstantObserver, space: Space
) -> tuple[Plan, Outline]:
    """Run the step as it is, and write its plan, in `space`; `last` saw the call before this one.

    What fails leaves everything as it was before the call.
    """
    found = {leaf: leaf.grad for leaf in last.leaves}
    recorder = record_calls(step_fn, arguments, last)
    plan, outline = recorder.plan, Outline(recorder)
    for leaf, grad in found.items():
        if leaf.grad is grad or grad is None:  # added to, or made where there was none
            plan.guards.append(partial(is_still, leaf, "grad", grad))
        if leaf.grad is grad is not None:
            plan.guards.append(partial(is_still, grad, "array", grad.array))
    for leaf, grad in plan.gradients.items():
        plan.left[leaf] = leaf.grad = None if leaf.grad is None else grad
    for leaf in {**found, **recorder.cleared, **recorder.assigned}:
        if leaf.grad is None:
            plan.left[leaf] = None
    modules = all_below(recorder.modules)
    leaves_of_modules = dict.fromkeys(tensors_of(modules))
    plan.guards += same_leaves(
        list({**plan.gradients, **recorder.stepped, **recorder.cleared, **leaves_of_modules})
    )
    plan.guards += [same_modes(recorder.modules), same_tensors(modules), same_parts(modules)]
    plan.finish([x.array for x in recorder.results], space)
    recorder.release()
    return_freed_memory()  # a recording takes several times a step's
    return plan, outline


def confirm(
    step: Step,
    arguments: tuple[Any, ...],
    last: ConstantObserver,
    plan: Plan,
    outline: Outline,
) -> Any:
    """Run the step as it is once more, in the call after its recording, and leave what a replay leaves.

    A CaptureError if it is not the step that was recorded: then everything is as it was before the call.
    """

    def check(recorder: Recorder) -> None:
        outline.confirm(recorder, step.function)
        for leaf, grad in plan.left.items():
            if (leaf.grad is None) is not (grad is None):
                left = "a" if grad is None else "no"
                raise_changed(f"{said_of(step.function)} leaves {left} .grad of shape {leaf.shape}")

    recorder = record_calls(step, arguments, last, outline, check)
    for mine, theirs in zip(leaves(plan.results), leaves(recorder.plan.results), strict=True):
        if isinstance(mine, Tensor | np.ndarray):
            _overwrite(*(x.array if isinstance(x, Tensor) else x for x in (mine, theirs)))
    for leaf, grad in plan.left.items():
        if grad is not None and leaf.grad is not None and grad is not leaf.grad:
            grad.array[...] = leaf.grad.array
        leaf.grad = grad
    modules = all_below(recorder.modules)
    plan.guards[-1] = same_parts(modules)  # a step may have made some itself, and set some settings
    plan.guards.append(same_settings(modules))
    recorder.release()
    return_freed_memory()
    return plan.results


def _overwrite(x: np.ndarray, numbers: np.ndarray) -> None:
    """Write into an array, also one that is broadcast, and so is read-only."""
    np.ndarray(x.shape, x.dtype, flat(root(x)), offset(x), x.strides)[...] = numbers


def record_calls(
    step_fn: Callable[..., Any],
    arguments: tuple[Any, ...],
    before: ConstantObserver,
    like: Recorder | Outline | None = None,
    check: Callable[[Recorder], None] = lambda recorder: None,
) -> Recorder:
    """Run the step as it is, and note its calls, in memory of their own.

    `like` is a recording before, or its outline. What `check` refuses, too, leaves everything as it was.
    """
    recorder = Recorder(before, arguments, like.kept_whole if like else None)
    grads = {leaf: leaf.grad for leaf in before.leaves}
    recorder.earlier = {id(root(grad.array)): leaf for leaf, grad in grads.items() if grad is not None}
    recorder.restore_later(grads.values(), grads)
    for optimizer in like.optimizers if like else ():
        recorder.note_options(optimizer)
    refused.error, refused.is_raised = None, False
    try:
        with one_at_a_time, traceable(), intercepted(recorder), observe(recorder):
            recorder.plan.results = map_leaves(recorder.result, step_fn(*arguments))
        if refused.error is not None:
            raise refused.error
        recorder.follow_assignments()
        check(recorder)
    except BaseException as error:
        for undo in reversed(recorder.undo):
            undo()
        recorder.release()
        if refused.is_raised and refused.error is not None and error is not refused.error:
            raise refused.error from error
        raise
    return recorder
