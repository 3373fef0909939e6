"""The minimum time that a training step can take on this machine, and how far steps are from it.

A step is observed. Its matrix products (those of its readable definitions, including attention's) count at
the speed of NumPy's BLAS for exactly these shapes, or of our loop if it is faster. Everything else counts as
the bytes that it must move, for each operation separately: what it reads and writes, forward and backward,
and what the optimizer reads and writes, at the bandwidth of an addition of arrays of that size, which are in
a cache if they fit. Other arithmetic and calls of operations are free. Attention's products count in full,
though half of them would be enough with a causal mask.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import minigrad as mg
from minigrad.core.backward import Node
from minigrad.core.closures import arrays_in
from minigrad.core.modes import current_scope
from minigrad.core.observers import Observer, observe

from .children import in_child
from .comparison import Comparison
from .measuring import measure, spread
from .peers import missing, peer, step_of
from .tables import Table
from .worker import round_of
from .works import row_name, weights_of, work_of

TURNS = 5  # the median counts
SMALLEST = 1 << 16  # minimum bytes to measure bandwidth: with fewer, calls dominate


class Product(NamedTuple):
    """A batch of products (m, k) @ (k, n), and whether a factor is stored transposed."""

    batch: int
    m: int
    k: int
    n: int
    transposed: str  # "", "left", "right"

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.k * self.n


class Products(Observer):
    """Notes each matrix product of a step, and the composite ops that contain them."""

    def __init__(self) -> None:
        self.found: Counter[Product] = Counter()
        self.composites: set[str] = set()
        self.transposed: dict[Any, bool] = {}  # by shapes: whether the right factor is stored transposed

    def on_result(self, op: Any, arrays: Any, settings: Any, value: Any, gradients: Any) -> None:
        if op.name != "matmul":
            return
        x, y = arrays
        right = y.strides[-1] > y.strides[-2]
        self.transposed[x.shape, y.shape] = right
        self.found[_product(x.shape, y.shape, "right" if right else "")] += 1
        scope = current_scope.get()
        while scope is not None:
            self.composites |= {scope.part} if isinstance(scope.part, str) else set()
            scope = scope.parent

    def on_pull(self, node: Node, g: Any, contributions: Any) -> None:
        if node.op.name != "matmul":
            return
        x, y = (edge.shape for edge in node.edges)
        right = self.transposed[x, y]
        batch, m, k, n, _ = _product(x, y, "")
        of_left = Product(batch, m, n, k, "" if right else "right")
        of_right = Product(batch, k, m, n, "left")
        for edge, _ in contributions:
            self.found[of_left if edge is node.edges[0] else of_right] += 1


def _product(x: tuple[int, ...], y: tuple[int, ...], transposed: str) -> Product:
    """The product of arrays of these shapes; a matrix on the right multiplies all rows at once."""
    rows, batch = (math.prod(x[:-1]), 1) if len(y) == 2 else (x[-2], math.prod(x[:-2]))
    return Product(batch, rows, x[-1], y[-1], transposed)


class Moves(Observer):
    """Notes the bytes that each operation moves, except `products` and views."""

    def __init__(self, products: set[str]) -> None:
        self.products = products
        self.found: list[int] = []

    def counts(self, op: Any) -> bool:
        return not op.view and op.name != "matmul" and op.key not in self.products

    def on_result(self, op: Any, arrays: Any, settings: Any, value: Any, gradients: Any) -> None:
        if self.counts(op):
            self.found.append(_bytes([*arrays, *(value if isinstance(value, tuple) else [value])]))

    def on_pull(self, node: Node, g: Any, contributions: Any) -> None:
        new = [part for _, part in contributions if not any(np.shares_memory(part, x) for x in _arrays(g))]
        if self.counts(node.op) and new:
            self.found.append(_bytes([*_arrays(g), *arrays_in(node.gradients), *new]))


def _arrays(g: Any) -> list[Any]:
    return [part for part in g if part is not None] if isinstance(g, list) else [g]


def _bytes(arrays: Iterable[Any]) -> int:
    """The bytes of distinct arrays; a broadcast array counts as the one it is broadcast from."""
    distinct = {id(x): x for x in arrays if isinstance(x, np.ndarray)}
    return sum(
        x.itemsize * math.prod(n for n, stride in zip(x.shape, x.strides, strict=True) if stride)
        for x in distinct.values()
    )


def updates(optimizer: Any) -> list[int]:
    """The bytes that an optimizer moves: gradients are read, weights and moments read and written."""
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    moments = [a for state in optimizer.state.values() for a in state.values() if a.size > 1]
    return [3 * sum(p.array.nbytes for p in weights) + 2 * sum(array.nbytes for array in moments)]


# ---------------------------------------------------------------- this machine's speed


def seconds_of(function: Callable[[], object], clock: str) -> float:
    return median(measure({"it": function}, TURNS, 0.2, clock=clock, least=3)["it"])


def seconds_of_product(product: Product, clock: str) -> float:
    rng = np.random.default_rng(0)
    batch, m, k, n, transposed = product
    draw = lambda *shape: rng.random((batch, *shape) if batch > 1 else shape, np.float32)
    a = draw(k, m).swapaxes(-1, -2) if transposed == "left" else draw(m, k)
    b = draw(n, k).swapaxes(-1, -2) if transposed == "right" else draw(k, n)
    both = partial(np.matmul, a, b, out=draw(m, n)), partial(np.matmul, a, b)
    return min(seconds_of(each, clock) for each in both)


@cache
def bandwidth(size: int, threads: int, clock: str) -> float:
    """Bytes per second of an addition that moves `size` bytes, with one thread or all, whichever is
    faster."""
    a, b, c = np.ones((3, size // 12), np.float32)
    alone = size / seconds_of(partial(np.add, a, b, out=c), clock)
    if threads == 1 or clock == "cpu":
        return alone
    with ThreadPoolExecutor(threads) as pool:
        parts = list(zip(*(np.array_split(x, threads) for x in (a, b, c)), strict=True))
        divided = lambda: wait([pool.submit(np.add, x, y, out=z) for x, y, z in parts])
        return max(alone, size / seconds_of(divided, clock))


def floor_of(key: str, threads: int, clock: str) -> dict[str, float]:
    """The parts of the minimum time of a step, in seconds, and the counts behind them."""
    work = work_of(key)
    step: Any = step_of("ours", work, weights_of(work.model()))
    rounds = round_of(work)
    products = Products()
    with mg.fused(False), observe(products):
        for _ in range(rounds):
            step()
    moves = Moves(products.composites)
    with observe(moves):
        for _ in range(rounds):
            step()
    moved = [*moves.found, *(updates(step.optimizer) * rounds)]
    del step
    size = lambda n: 1 << max(n, SMALLEST).bit_length()
    return {
        "flops": sum(p.flops * count for p, count in products.found.items()) / rounds,
        "product seconds": sum(seconds_of_product(p, clock) * count for p, count in products.found.items())
        / rounds,
        "bytes": sum(moved) / rounds,
        "moving seconds": sum(n / bandwidth(size(n), threads, clock) for n in moved) / rounds,
    }


def floors(
    works: Sequence[str],
    peers: Sequence[str],
    threads: Iterable[int] = (1,),
    repeats: int = 50,
    seconds: float = 20.0,
    clock: str = "wall",
    kernels: str | None = None,
) -> Iterator[Table]:
    """A table for each number of threads."""
    for number in threads:
        table = Table(f"the least time of a training step, {number} thread{'s' if number > 1 else ''}: ms")
        table.notes += [note for name in peers if (note := missing(name))]
        for key in works:
            found = in_child("floors", "floor_of", key, number, clock, threads=number)
            work = Comparison(key, "cpu", number, clock)
            with work.start(["ours", *(name for name in peers if missing(name) is None)], kernels):
                work.warm()
                work.measure(repeats, seconds)
            table.rows[row_name(key)] = row_of(found, work.times)
            table.notes += [f"{key}: {note}" for note in work.notes]
        yield table


def row_of(found: dict[str, float], times: dict[str, list[float]]) -> dict[str, Any]:
    least = found["product seconds"] + found["moving seconds"]
    return {
        "MFLOP": found["flops"] / 1e6,
        "products, ms": found["product seconds"] * 1e3,
        "MB": found["bytes"] / 1e6,
        "moving them, ms": found["moving seconds"] * 1e3,
        "least, ms": least * 1e3,
        **{f"{peer(n).LABEL} / least": spread([t / least for t in ts]).median for n, ts in times.items()},
    }
