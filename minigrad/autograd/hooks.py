"""Hooks: functions of the user's that see a gradient when it is complete, and may replace it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..errors import ShapeError
from .modes import enable_grad, no_grad

registration = itertools.count()  # numbers hooks


class Handle:
    """What registering a hook gives: `handle.remove()` (or calling it) takes the hook away."""

    def __init__(self, hooks: dict[int, Callable], hook: Callable) -> None:
        self.hooks, self.key = hooks, next(registration)
        hooks[self.key] = hook

    def remove(self) -> None:
        self.hooks.pop(self.key, None)

    __call__ = remove


def run_hooks(edge: Any, g: Any) -> Any:
    """Show `g` to the edge's hooks; one that returns something replaces it."""
    if not edge.hooks:
        return g
    from ..tensor import Tensor, as_tensor

    for hook in list(edge.hooks.values()):
        raw = not isinstance(g, Tensor)
        with no_grad() if raw else enable_grad():
            result = hook(Tensor(g) if raw else g)
        if result is not None:
            result = as_tensor(result)
            if result.shape != g.shape:
                raise ShapeError(
                    f"a hook returned shape {result.shape} for a gradient of shape {tuple(g.shape)}.\n"
                    f"Return a gradient of the same shape, or None to leave it alone."
                )
            g = result.data if raw else result
    return g
