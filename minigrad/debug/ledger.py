"""The memory that a computation retains for backward, its peak, and what checkpoints would save.

Leaves (parameters, inputs, constants) are counted separately, since their memory is used anyway. A storage
that several operations retain is counted once, for the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.backward import producer
from ..core.modes import no_grad
from ..core.observers import unobserved
from ..core.tensor import Tensor
from ..graph.data import RUN, Group
from ..graph.graph import Graph
from ..graph.grouping import strip_numbers
from ..graph.kept_graphs import as_at_backward
from ..graph.labels import public_name, quantity, table
from ..graph.tape import Tape
from ..graph.trace import tensors_of, trace
from ..nn import Module
from .peaks import Simulation
from .storages import Storages

SHOWN = 12  # the most rows of a printed table


@dataclass(frozen=True, eq=False)
class Row:
    """An operation: the bytes that it retains (`holds`), and those that no earlier one does (`counted`)."""

    vertex: int
    name: str
    path: str  # the path of the module
    source: str
    holds: int
    counted: int


@dataclass(frozen=True, eq=False)
class Saving:
    """What `autograd.checkpoint` of a module's call would save, in bytes, and cost."""

    group: int  # index in `graph.groups`
    path: str
    name: str
    kind: str
    retains: int  # bytes that its operations retain
    saves: int  # bytes that only they retain, minus those of the checkpoint's inputs
    flops: int  # floating-point operations to recompute
    share: float  # `flops` as a fraction of the whole forward pass


@dataclass(frozen=True, eq=False, repr=False)
class Ledger:
    """The bytes `retained` for backward, the bytes of the `leaves` that it needs, and the `peak` of a step.

    `rows` are the operations that retain memory, `savings` the calls of modules. The peak counts results and
    gradients, including gradients of leaves. It is reached in `peak_phase` ("forward" or "backward") at
    vertex `peak_at` of `graph`. `levels` are the most bytes at each operation, in forward and then in
    backward.
    """

    graph: Graph
    rows: tuple[Row, ...]
    savings: tuple[Saving, ...]
    retained: int
    leaves: int
    levels: tuple[int, ...]
    peak_at: int
    peak_phase: str

    @property
    def peak(self) -> int:
        return max(self.levels, default=0)

    def __repr__(self) -> str:
        at = self.graph.vertices[self.peak_at]
        head = (
            f"{_bytes(self.retained)} retained for backward by {len(self.rows)} operations, and "
            f"{_bytes(self.leaves)} of parameters and data.\n"
            f"At the peak {_bytes(self.peak)}: in {self.peak_phase} at {public_name(at)} ({at.source})."
        )
        parts = [head, self._operations()]
        if any(s.saves > 0 for s in self.savings):
            parts.append(self._checkpoints())
        return "\n\n".join(parts)

    def _operations(self) -> str:
        alike = _group_by(
            [r for r in self.rows if r.counted], lambda r: (r.name, strip_numbers(r.path), r.counted, r.holds)
        )
        alike.sort(key=lambda rows: -sum(r.counted for r in rows))
        shown = [
            (_times(rows, _bytes(rows[0].counted)), _bytes(rows[0].holds), rows[0].name,
             _and_more(rows, rows[0].path), rows[0].source)
            for rows in alike[:SHOWN]
        ]  # fmt: skip
        rest = [r for rows in alike[SHOWN:] for r in rows]
        if rest:
            shown.append((_bytes(sum(r.counted for r in rest)), "", f"{len(rest)} more", "", ""))
        return table(("retains", "holds", "operation", "module", "line"), shown)

    def _checkpoints(self) -> str:
        worth = [s for s in self.savings if s.saves > 0]
        alike = _group_by(worth, lambda s: (s.kind, strip_numbers(s.path), s.retains, s.saves, s.flops))
        alike.sort(key=lambda rows: -sum(s.saves for s in rows))
        shown = []
        for rows in alike[:SHOWN]:
            one = rows[0]
            figures = _bytes(one.retains), _bytes(one.saves), f"{one.share:.1%}"
            path = _and_more(rows, one.path or one.name)
            shown.append((*(_times(rows, figure) for figure in figures), path, one.kind))
        return table(("retains", "checkpoint saves", "recomputes", "module", ""), shown, 3)


def _group_by(rows: Iterable[Any], key: Callable[[Any], Hashable]) -> list[list[Any]]:
    """Return lists of the rows that have the same key, in the order of the first rows."""
    found: dict[Hashable, list[Any]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return list(found.values())


def _times(rows: list[Any], one: str) -> str:
    return one if len(rows) == 1 else f"{len(rows)} x {one}"


def _and_more(rows: list[Any], one: str) -> str:
    return one if len(rows) == 1 else f"{one} and {len(rows) - 1} more like it"


def memory(output: Any, params: Module | Mapping[str, Tensor] | None = None) -> Ledger:
    """Return the bytes that operations retain for backward, the peak of a step, and checkpoint savings.

    The arguments are those of `trace`. Like `trace`, it must be called before backward(), or after a step
    under `graph.keep()`. The peak is simulated, without running backward. It counts results and gradients,
    but neither a rule's temporary arrays nor arrays that the program keeps in variables.
    """
    graph = trace(output, params, backward=False, check=False)
    with as_at_backward(tensors_of(output)), no_grad(), unobserved():
        tape = Tape([x.node or x for x in tensors_of(output)])
        storages = Storages(tape)
        levels, phase, node = Simulation(tape, storages).run()
    number = {thing: i for i, thing in enumerate([*tape.leaves, *tape.nodes])}
    held = {number[holder]: tokens for holder, tokens in storages.keeps.items()}
    needed = {token for tokens in held.values() for token in tokens}
    return Ledger(
        graph,
        tuple(_rows(graph, storages, held)),
        tuple(_savings(graph, tape, storages, held, number)),
        sum(storages.size[token] for token in needed - storages.leaves),
        sum(storages.size[token] for token in needed & storages.leaves),
        tuple(levels),
        number[node or producer(tape.outputs[0])],
        phase,
    )


def _rows(graph: Graph, storages: Storages, held: Mapping[int, Iterable[Hashable]]) -> Iterable[Row]:
    before: set[Hashable] = set()
    for i, tokens in held.items():
        own = {token for token in tokens if token not in storages.leaves}
        if own:
            vertex = graph.vertices[i]
            holds, counted = (sum(storages.size[token] for token in some) for some in (own, own - before))
            path = graph.groups[vertex.group].path
            yield Row(i, public_name(vertex), path, vertex.source, holds, counted)
            before |= own


def _savings(
    graph: Graph,
    tape: Tape,
    storages: Storages,
    held: Mapping[int, Iterable[Hashable]],
    number: Mapping[Any, int],
) -> Iterable[Saving]:
    holders: dict[Hashable, set[int]] = {}
    for i, tokens in held.items():
        for token in tokens:
            holders.setdefault(token, set()).add(i)
    nodes = {number[node]: node for node in tape.nodes}
    whole = sum(v.flops or 0 for v in graph.vertices)
    for group in graph.groups:
        if not _is_call(group):
            continue
        inside = {i for i in graph.contents[group.index] if i in nodes}
        edges = [e for i in inside for e in nodes[i].edges if producer(e) in number]
        inputs = {storages.of_edge(e) for e in edges if number[producer(e)] not in inside}
        own = {token for i in inside for token in held[i]} - storages.leaves
        only = {token for token in own if holders[token] <= inside}
        kept = {t for t in inputs - storages.leaves if holders.get(t, set()) <= inside}
        flops = sum(graph.vertices[i].flops or 0 for i in inside)
        size = lambda tokens: sum(storages.size[token] for token in tokens)
        yield Saving(
            group.index, group.path, group.name, group.kind, size(own), size(only) - size(kept), flops,
            flops / whole if whole else 0.0,
        )  # fmt: skip


def _is_call(group: Group) -> bool:
    """Return whether a group is a call of a module."""
    return bool(group.kind) and not group.is_stack and group.kind not in (RUN, "gradient")


def _bytes(n: int) -> str:
    return quantity(n, "B")
