"""Graph: a computation that was traced, and what one can ask of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .folding import Fold
from .records import Group, Vertex


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A computation that was traced: `vertices` in the order of their making, and a tree of `groups`.

    It refers to no tensor and does not change; fold() and expand() give new ones that share all but what is
    drawn open. `parameters` are copies of the leaves that have names and gradients.
    """

    vertices: tuple[Vertex, ...]
    groups: tuple[Group, ...]  # the first is the whole
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    title: str = ""
    notes: tuple[str, ...] = ()  # what could not be shown, and why
    folded: Fold | None = None  # None: as many groups open as fit on a page

    def __repr__(self) -> str:
        ops = sum(v.kind == "op" for v in self.vertices)
        return f"<Graph of {ops} ops and {len(self.vertices) - ops} leaves in {len(self.groups)} groups>"

    @property
    def outputs(self) -> tuple[Vertex, ...]:
        return tuple(v for v in self.vertices if v.is_output)

    @cached_property
    def consumers(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each vertex: (vertex, which of its inputs) where it is used."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.vertices]
        for vertex in self.vertices:
            for place, edge in enumerate(vertex.inputs):
                found[edge.source].append((vertex.index, place))
        return tuple(map(tuple, found))
