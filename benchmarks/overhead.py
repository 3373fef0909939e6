"""The overhead of the engine: forward and backward of a long chain of operations on 4x4 arrays.

The arithmetic is negligible: this measures building and walking the graph, with version checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .children import in_child
from .measuring import measure, ratios, spread
from .peers import PEERS, missing, peer, settings_of
from .tables import Table

OPS = 2000
START = [[1 + 1e-4 * (i + j) for j in range(4)] for i in range(4)]  # powers of it stay in range
CONSTANT = [[1e-4] * 4] * 4

Chain = Callable[[Any, Any, Callable[[Any], Any]], Any]  # called with w (needs a gradient), c, tanh


def mixed(w: Any, c: Any, tanh: Callable[[Any], Any]) -> Any:
    y = w
    for _ in range(OPS // 4):
        y = y * w
        y = y + w
        y = tanh(y)
        y = y * 0.5
    return y


def products(w: Any, c: Any, tanh: Callable[[Any], Any]) -> Any:
    y = w
    for _ in range(OPS):
        y = y * w
    return y


def with_a_constant(w: Any, c: Any, tanh: Callable[[Any], Any]) -> Any:
    y = w
    for _ in range(OPS // 2):
        y = y * w + c
    return y


def with_constants(w: Any, c: Any, tanh: Callable[[Any], Any]) -> Any:
    y = w
    for _ in range(OPS // 2):
        y = y * c + c
    return y


CHAINS: dict[str, Chain] = {
    "y * w, y + w, tanh(y), y * 0.5": mixed,
    "y * w: both need gradients": products,
    "y * w + c: c is a constant": with_a_constant,
    "y * c + c": with_constants,
}


def run(chain: Chain, w: Any, c: Any) -> Callable[[], None]:
    """The chain and its backward, where tensors have methods for both."""

    def step() -> None:
        w.grad = None
        chain(w, c, lambda y: y.tanh()).sum().backward()

    return step


def pair(name: str, repeats: int, clock: str) -> dict[str, dict[str, Any]]:
    """Microseconds per operation for each chain: ours, a peer's, and their ratio."""
    module = peer(name)
    if hasattr(module, "set_threads"):
        module.set_threads(1)
    found = {}
    for what, chain in CHAINS.items():
        times = measure({"ours": peer("ours").chain(chain), name: module.chain(chain)}, repeats, clock=clock)
        ours, theirs = ([1e6 * t / OPS for t in spread(times[key])] for key in ("ours", name))
        found[what] = {"ours": ours, "theirs": theirs, "ratio": ratios(times["ours"], times[name])}
    return found


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
            label = getattr(module, "CHAIN", module.LABEL)
            settings = settings_of(name, 1)
            found = in_child("overhead", "pair", name, repeats, clock, kernels=kernels, **settings)
            for what, values in found.items():
                row = table.rows.setdefault(what, {"minigrad": values["ours"]})
                row |= {label: values["theirs"], f"ratio to {label}": values["ratio"]}
    return [table]
