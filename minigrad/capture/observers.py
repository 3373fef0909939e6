"""An observer of a step's device, and of the leaves that get gradients."""

from __future__ import annotations

from typing import Any

from ..core.devices import CPU, device_of
from ..core.tensor import Tensor


class LeafObserver:
    """Records the device on which a step computes, and the leaves that its backward() reaches."""

    def __init__(self) -> None:
        self.device = "cpu"
        self.leaves: dict[Tensor, None] = {}

    def on_result(self, op: Any, arrays: Any, settings: Any, value: Any, gradients: Any) -> None:
        for x in arrays:
            if device_of(x) != CPU:
                self.device = device_of(x)

    def on_backward_start(self, tensor: Tensor, g: Any) -> None:
        """Do nothing: leaves are found when backward reaches them."""

    def on_pull(self, node: Any, g: Any, contributions: Any) -> None:
        self.leaves.update((x, None) for x in node.edges if isinstance(x, Tensor) and x.requires_grad)
