"""A function that returns a subgraph of a graph."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .data import Vertex
from .graph import Graph
from .grouping import rearrange


def prune(graph: Graph, keep: Collection[int], title: str | None = None) -> Graph:
    """Return the subgraph of the vertices `keep` and the edges between them, renumbered and regrouped."""
    number = {old: new for new, old in enumerate(sorted(keep))}
    vertices = [_renumber(graph.vertices[old], number) for old in number]
    groups, homes = rearrange(graph.groups, vertices)
    placed = tuple(replace(v, group=home) for v, home in zip(vertices, homes, strict=True))
    names = {v.name for v in placed}
    kept = {name: array for name, array in graph.parameters.items() if name in names}
    return Graph(placed, groups, kept, graph.title if title is None else title, graph.notes)


def _renumber(vertex: Vertex, number: dict[int, int]) -> Vertex:
    edges = tuple(replace(e, source=number[e.source]) for e in vertex.inputs if e.source in number)
    held = tuple(replace(r, owner=None if r.owner is None else number.get(r.owner)) for r in vertex.retained)
    return replace(vertex, index=number[vertex.index], inputs=edges, retained=held)
