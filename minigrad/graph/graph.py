"""Graph: a computation that was traced, and what one can ask of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from .arrangement import Arrangements
from .data import Group, Vertex
from .folding import Fold, Folding, contents, everything_open, fitting, opened_at, to_depth


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
    def is_hurt(self) -> bool:
        """Whether a NaN or an infinity arrives in an output or in a gradient."""
        arrive = [
            *(s for v in self.outputs for s in v.values),
            *(g for v in self.vertices for g in v.gradients),
        ]
        return any(s is not None and not s.finite for s in arrive)

    @cached_property
    def consumers(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each vertex: (vertex, which of its inputs) where it is used."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.vertices]
        for vertex in self.vertices:
            for place, edge in enumerate(vertex.inputs):
                found[edge.source].append((vertex.index, place))
        return tuple(map(tuple, found))

    # ------------------------------------------------------------ what is open

    def fold(self, depth: int) -> Graph:
        """With modules open down to `depth` only: 0 shows the outermost closed. Stacks show a member."""
        return replace(self, folded=to_depth(self, depth))

    def expand(self, path: str | None = None) -> Graph:
        """With the module at `path` open as well ("encoder.layers.0"); without a path, all of everything."""
        if path is None:
            return replace(self, folded=everything_open(self))
        return replace(self, folded=opened_at(self, self.folding.fold, path))

    @cached_property
    def folding(self) -> Folding:
        return Folding(self, self.folded or fitting(self))

    @cached_property
    def contents(self) -> list[list[int]]:
        """For each group the vertices in it, at any depth."""
        return contents(self)

    @cached_property
    def arrangements(self) -> Arrangements:
        return Arrangements(self)

    # ------------------------------------------------------------ pictures

    def to_svg(self, color: str = "family") -> str:
        """An SVG document; boxes are coloured by "family" (of the op), "gradient", "bytes" or "flops"."""
        from .svg import to_svg

        return to_svg(self, color)

    def to_dot(self, color: str = "family") -> str:
        """The graph in Graphviz's language."""
        from .dot import to_dot

        return to_dot(self, color)

    def to_html(self, color: str = "family") -> str:
        """A page that stands alone: fold and unfold, look at every number, walk backward step by step."""
        from .page import to_html

        return to_html(self, color)

    def save(self, path: str | Path, color: str = "family") -> None:
        """Write the picture: .svg or .html (no other program needed), .dot, or .png and .pdf (by Graphviz).

        DependencyError: .png or .pdf without Graphviz's `dot`; the .dot text is written in any case.
        """
        from .saving import save

        save(self, path, color)

    def _repr_svg_(self) -> str:
        return self.to_svg()
