"""Observers see each result of an op and each gradient on its way back; several may be active at once.

NaN detection, comparing devices, tracing graphs and capturing steps are observers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .backward import Node
from .modes import Switch, modes

if TYPE_CHECKING:
    from .tensor import Tensor


class Observer(Protocol):
    """Called for each operation and gradient; a subclass overrides the methods it needs."""

    def on_result(
        self, op: Any, arrays: Sequence[Any], settings: dict[str, Any], value: Any, gradients: Any
    ) -> None:
        """The rule of `op` returned `value` and `gradients` for `arrays` and `settings`."""
        return None

    def on_backward_start(self, tensor: Tensor, g: Any) -> None:
        """backward() starts at `tensor`, with the gradient `g`."""
        return None

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        """A node got the gradient `g` of its result, and sent (edge, gradient) to each input that needs one.

        Copy the arrays that you keep, as the backward pass may add to them in place.
        """
        return None


class observe(Switch):
    """Adds `observer` to the active observers."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(modes, "observers", observer)

    def _new_value(self, current: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*current, self.value)


class unobserved(Switch):
    """Disables observers, for the library's own computations."""

    def __init__(self) -> None:
        super().__init__(modes, "observers", ())
