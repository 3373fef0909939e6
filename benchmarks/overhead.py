"""What the engine itself costs: forward and backward of a long chain of operations on 4x4 arrays.

The arithmetic is next to nothing: what is measured is recording and walking the graph, versions checked.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import minigrad as mg

from .measuring import measure

OPS = 2000


def chain(w: Any) -> Any:
    """2,000 operations, one after another: products, sums, tanh, scaling."""
    y = w
    for _ in range(OPS // 4):
        y = y * w
        y = y + w
        y = y.tanh()
        y = y * 0.5
    return y


def run(w: Any) -> Callable[[], None]:
    def step() -> None:
        w.grad = None
        chain(w).sum().backward()

    return step


def overhead(repeats: int = 50) -> dict[str, float]:
    """Microseconds per operation, forward plus backward: ours and, where installed, torch eager's."""
    values = [[0.1 * (i + j) for j in range(4)] for i in range(4)]
    steps = {"minigrad": run(mg.tensor(values, requires_grad=True))}
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        torch.set_num_threads(1)
        steps["torch eager"] = run(torch.tensor(values, requires_grad=True))
    times = measure(steps, repeats)
    return {name: statistics.median(t) / OPS * 1e6 for name, t in times.items()}
