"""What the engine itself costs: forward and backward of a long chain of operations on 4x4 arrays.

The arithmetic is next to nothing: what is measured is recording and walking the graph, versions checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .children import in_child
from .measuring import measure, ratios, spread
from .peers import PEERS, missing, peer, settings_of
from .tables import Table

OPS = 2000
START = [[0.1 * (i + j) for j in range(4)] for i in range(4)]


def chain_of(w: Any, tanh: Callable[[Any], Any] = lambda y: y.tanh()) -> Any:
    """2,000 operations, one after another: products, sums, tanh, scaling."""
    y = w
    for _ in range(OPS // 4):
        y = y * w
        y = y + w
        y = tanh(y)
        y = y * 0.5
    return y


def run(w: Any) -> Callable[[], None]:
    """The chain and its backward, where tensors have methods for both."""

    def step() -> None:
        w.grad = None
        chain_of(w).sum().backward()

    return step


def pair(name: str, repeats: int, clock: str) -> dict[str, Any]:
    """Microseconds an operation: ours, a peer's, and their ratio."""
    module = peer(name)
    if hasattr(module, "set_threads"):
        module.set_threads(1)
    steps = {"ours": peer("ours").chain(), name: module.chain()}
    times = measure(steps, repeats, clock=clock)
    each = {key: [1e6 * t / OPS for t in spread(found)] for key, found in times.items()}
    return {"ours": each["ours"], "theirs": each[name], "ratio": ratios(times["ours"], times[name])}


def overhead(
    peers: Iterable[str] = PEERS, repeats: int = 50, clock: str = "wall", kernels: str | None = None
) -> list[Table]:
    """Forward plus backward, one thread: ours and, where installed, others'."""
    table = Table(
        f"forward + backward of {OPS:,} operations on 4x4 float32 arrays, one thread: us an operation"
    )
    for name in peers:
        module = peer(name)
        if note := missing(name):
            table.notes.append(note)
        elif not hasattr(module, "chain"):
            table.notes.append(f"{module.LABEL}: {module.CANNOT['chain']}")
        else:
            found = in_child(
                "overhead", "pair", name, repeats, clock, kernels=kernels, **settings_of(name, 1)
            )
            table.rows.setdefault("minigrad", {"us": found["ours"], "ratio ours / theirs": None})
            table.rows[getattr(module, "CHAIN", module.LABEL)] = {
                "us": found["theirs"],
                "ratio ours / theirs": found["ratio"],
            }
    return [table]
