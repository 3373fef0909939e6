"""What capture sees of a step that runs: its device, and the leaves that get gradients."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from ..devices import device_of, gpu
from ..ops import call
from ..tensor import Tensor


class LeafObserver:
    """Notes the device that a step computes on, and the leaves that its backward() reaches."""

    def __init__(self) -> None:
        self.device = "cpu"
        self.leaves: dict[Tensor, None] = {}

    def on_result(self, op: Any, arrays: Any, settings: Any, value: Any, gradients: Any) -> None:
        for x in arrays:
            if isinstance(x, gpu.arrays):
                self.device = device_of(x)

    def on_backward_start(self, tensor: Tensor, g: Any) -> None:
        """Leaves are found as the walk reaches them."""

    def on_pull(self, node: Any, g: Any, contributions: Any) -> None:
        self.leaves.update((x, None) for x in node.edges if isinstance(x, Tensor) and x.requires_grad)


@contextlib.contextmanager
def inputs_follow_the_device() -> Iterator[None]:
    """Within it, data on the CPU (tensors that require no gradient) moves to the GPU of the tensors it meets.

    Where a step's inputs belong shows only as it computes."""
    original, thread = call.move_to_one_device, threading.get_ident()

    def on_one_device(op: Any, inputs: Any) -> Any:
        if threading.get_ident() != thread:
            return original(op, inputs)
        devices = {x.device for x in inputs if isinstance(x, Tensor)} - {"cpu"}
        if len(devices) != 1:
            return original(op, inputs)
        (device,) = devices
        move = lambda x: isinstance(x, Tensor) and x.device == "cpu" and not x.requires_grad
        if any(map(move, inputs)):
            inputs = [x.to(device) if move(x) else x for x in inputs]
        return original(op, inputs)

    call.move_to_one_device = on_one_device
    try:
        yield
    finally:
        call.move_to_one_device = original
