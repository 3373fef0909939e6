"""What capture sees of a step that runs: its device, and the leaves that get gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices import device_of, gpu
from ..tensor import Tensor
from ..versions import root
from .calls import arrays_in
from .identity import ByIdentity

SMALL = 1 << 16  # bytes


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


class ConstantObserver(LeafObserver):
    """Notes, too, what each op reads that no op of the step made: parameters, inputs, constants."""

    def __init__(self, leaves: dict[Tensor, None]) -> None:
        super().__init__()
        self.leaves = dict(leaves)
        # for each op its inputs, None for what ops made, and their numbers: the step may change them in place
        self.constants: list[tuple[Any, list[Any], list[Any]]] = []
        self.made = ByIdentity()  # the arrays that own memory of results

    def on_result(self, op: Any, arrays: Any, settings: Any, value: Any, gradients: Any) -> None:
        is_made = lambda x: isinstance(x, np.ndarray) and root(x) in self.made
        given = [*arrays, *arrays_in(settings)]
        inputs: list[Any] = [None if is_made(x) else x for x in given]
        is_small = lambda x: isinstance(x, np.ndarray) and x.nbytes <= SMALL
        self.constants.append((op, inputs, [x.copy() if is_small(x) else x for x in inputs]))
        outside = {id(root(x)) for x in given if isinstance(x, np.ndarray) and not is_made(x)}
        for x in value if type(value) is tuple else (value,):
            if id(root(x)) not in outside:  # a view of what no op made
                self.made[root(x)] = True
