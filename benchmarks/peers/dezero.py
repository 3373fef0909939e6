"""DeZero, a teaching library: it can do an MLP and the chain."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np

from ..overhead import CONSTANT, START, Chain
from ..works import LR, MLP, First

LABEL = "DeZero"
PACKAGES = ("dezero",)
_REASON = "its matmul has two axes, and it has no layer norm"
CANNOT = dict.fromkeys(("decoder", "attention", "phrasebook"), _REASON)


def imported() -> Any:
    """dezero, which cannot be imported with NumPy 1.24 or later unless np.int is restored."""
    if not hasattr(np, "int"):
        np.int = int  # type: ignore[attr-defined]
    import dezero
    import dezero.functions
    import dezero.optimizers

    return dezero


class Step:
    """Training steps of plain SGD."""

    def __init__(self, work: MLP, weights: dict[str, np.ndarray]) -> None:
        self.F = (dezero := imported()).functions
        # its own layout is x W + b
        self.p = {n: dezero.Parameter(np.ascontiguousarray(a.T), n) for n, a in weights.items()}
        self.batches = work.batches()
        self.next = cycle(self.batches)

    def loss_of(self, x: np.ndarray, y: np.ndarray) -> Any:
        F, p = self.F, self.p
        for i in (0, 2):
            x = F.relu(F.linear(x, p[f"{i}.weight"], p[f"{i}.bias"]))
        return F.softmax_cross_entropy(F.linear(x, p["4.weight"], p["4.bias"]), y)

    def __call__(self) -> None:
        self.loss_of(*next(self.next)).backward()
        for p in self.p.values():
            p.data -= LR * p.grad.data
            p.cleargrad()

    def first(self) -> First:
        loss = self.loss_of(*self.batches[0])
        loss.backward()
        gradients = {name: p.grad.data.T.copy() for name, p in self.p.items()}
        for p in self.p.values():
            p.cleargrad()
        return First(float(loss.data), gradients)

    def loss(self) -> float:
        return float(self.loss_of(*self.batches[0]).data)


def mlp(work: MLP, weights: dict[str, np.ndarray]) -> Step:
    return Step(work, weights)


def chain(of: Chain) -> Callable[[], Any]:
    dezero = imported()
    w = dezero.Variable(np.array(START, np.float32))
    c = np.array(CONSTANT, np.float32)

    def step() -> None:
        w.cleargrad()
        dezero.functions.sum(of(w, c, dezero.functions.tanh)).backward()

    return step
