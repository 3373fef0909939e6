"""Hooks: functions of the user's that see a gradient when it is complete, and may replace it."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import ShapeError
from .modes import enable_grad, no_grad

if TYPE_CHECKING:
    from ..tensor import Tensor

registration = itertools.count()  # numbers hooks, which are called in that order
LAST = sys.maxsize  # the number of the one that comes after all others


class Handle:
    """What registering a hook gives: `handle.remove()` (or calling it) takes the hook away."""

    def __init__(self, hooks: dict[int, Callable], hook: Callable) -> None:
        self.hooks, self.key = hooks, next(registration)
        hooks[self.key] = hook

    def remove(self) -> None:
        self.hooks.pop(self.key, None)

    __call__ = remove


def retain(tensor: Tensor) -> None:
    """Keep the gradient of a tensor that is no leaf in its `.grad`, as it is after all other hooks."""
    myself = weakref.ref(tensor)

    def keep(g: Tensor) -> None:
        tensor = myself()
        if tensor is not None:
            tensor.accumulate_grad(g if g.requires_grad else g.array, owned=False)

    owner = tensor.node
    if owner.hooks is None:
        owner.hooks = {}
    owner.hooks[LAST] = keep


def run_hooks(edge: Any, g: Any, retain: bool = True) -> Any:
    """Show `g` to the edge's hooks; one that returns something replaces it. Unless `retain`, none is kept."""
    if not edge.hooks:
        return g
    from ..tensor import Tensor, as_tensor

    for key, hook in sorted(edge.hooks.items()):
        if key == LAST and not retain:
            continue
        raw = not isinstance(g, Tensor)
        with no_grad() if raw else enable_grad():
            result = hook(Tensor(g) if raw else g)
            result = None if result is None else as_tensor(result).to(g.dtype)
        if result is not None:
            if result.shape != g.shape:
                raise ShapeError(
                    f"a hook returned shape {result.shape} for a gradient of shape {tuple(g.shape)}.\n"
                    f"Return a gradient of the same shape, or None to leave it alone."
                )
            g = result.array if raw else result
    return g
