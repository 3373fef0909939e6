"""Finite differences at the leaves of a trace, in float64: what the analytic gradients are held against."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

import numpy as np

from ..autograd import Node
from ..tensor import Tensor
from .records import Check
from .tape import Arrays, Tape, apply, look_up

STEP = 1e-6
CHEAP = 20_000  # operations computed again, so many at most unless a check is asked for
CHEAP_FLOPS = 2e8
EACH = 64  # elements of a leaf that are checked, at most, where all can be


def run(
    tape: Tape,
    gradients: dict[Tensor, np.ndarray],
    seeds: list[tuple[Any, np.ndarray]],
    flops: int,
    check: bool | None,
) -> dict[Tensor, tuple[Check, ...]]:
    """For each leaf with a gradient: its elements (the one of largest gradient only, where there are many).

    `check`: True for all leaves whatever it costs, None for all or none as it is cheap, False for none.
    What a checkpoint uses is left out: it runs the user's function on tensors that it has.
    """
    if check is False or not gradients:
        return {}
    after = {leaf: tape.downstream(leaf) for leaf, g in gradients.items() if g.size}
    after = {leaf: nodes for leaf, nodes in after.items() if all(hasattr(n.op, "rule") for n in nodes)}
    most = EACH
    work = sum(2 * len(nodes) * _how_many(gradients[leaf], most) for leaf, nodes in after.items())
    if work > CHEAP:
        most = 1
        work = sum(2 * len(nodes) for nodes in after.values())
    if not check and (work > CHEAP or flops * work / max(len(tape.nodes), 1) > CHEAP_FLOPS):
        return {}
    base: dict[Any, Arrays] = dict(tape.run(double=True))
    return {
        leaf: tuple(
            Check(index, float(gradients[leaf][index]), _slope(leaf, index, nodes, base, seeds))
            for index in _elements(gradients[leaf], most)
        )
        for leaf, nodes in after.items()
    }


def _how_many(g: np.ndarray, most: int) -> int:
    return g.size if g.size <= most else 1


def _elements(g: np.ndarray, most: int) -> list[tuple[int, ...]]:
    """Which elements of a leaf: the one of largest gradient first; the others if they are at most `most`."""
    magnitude = np.abs(np.nan_to_num(g)).reshape(-1)
    largest = int(magnitude.argmax())
    others = [i for i in range(g.size) if i != largest] if g.size <= most else []
    return [tuple(int(n) for n in np.unravel_index(i, g.shape)) for i in (largest, *others)]


def _slope(
    leaf: Tensor,
    index: tuple[int, ...],
    nodes: list[Node],
    base: dict[Any, Arrays],
    seeds: list[tuple[Any, np.ndarray]],
) -> float:
    """(f(x + h) - f(x - h)) / 2h, where f is the sum of outputs times seeds."""
    x = base[leaf][0]
    h = STEP * max(1.0, abs(float(x[index])))
    total = []
    for step in (h, -h):
        moved = x.copy()
        moved[index] += step
        arrays: ChainMap[Any, Arrays] = ChainMap({leaf: (moved,)}, base)
        for node in nodes:
            arrays[node] = apply(node, arrays, double=True)
        total.append(sum(float(np.sum(look_up(arrays, edge) * g)) for edge, g in seeds))
    return (total[0] - total[1]) / (2 * h)
