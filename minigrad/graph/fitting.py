"""The default fold of a graph: as many groups are open as can be read on a screen.

(assets/folding.js does the same for the window of a page.)
"""

from __future__ import annotations

from .data import RUN, Computation, Group
from .folding import Fold, Folding
from .placing import lay_out

WINDOW = 900.0, 740.0  # the drawing's part of a screen of 1440 x 900 pixels
READABLE = 0.58  # the smallest scale at which text can be read
MOST = 60  # the largest number of boxes


def fit(graph: Computation) -> Fold:
    """Return the fold with as many open groups, larger ones first, as can be read in the window."""
    order = openings(graph)
    opened = {0}
    for batch in order:
        more = {g for g in batch if _is_visible(graph, opened, g)}
        if more and not _fits(Folding(graph, Fold(frozenset(opened | more)))):
            break
        opened |= more
    return Fold(frozenset(opened), openings=order)


def openings(graph: Computation) -> tuple[tuple[int, ...], ...]:
    """Return batches of groups that open together, in the order in which they open, larger ones first.

    Modules of the same class at the same depth are a batch.
    """
    sizes = list(map(len, graph.contents))
    found: list[tuple[int, int, tuple[int, ...]]] = []
    level = [g for g in graph.groups[0].groups if not _is_filler(graph, graph.groups[g])]
    depth = 0
    while level:
        batches: dict[tuple[str, int], list[int]] = {}
        for g in level:
            kind = graph.groups[g].kind
            batches.setdefault((kind, -1 if kind not in ("", RUN) else g), []).append(g)
        shown = {g: _shown_group(graph, g) for g in level}
        for batch in batches.values():
            found.append((-max(sizes[shown[g].index] for g in batch), depth, tuple(batch)))
        children = [child for g in level for child in shown[g].groups]
        level = [g for g in children if not _is_filler(graph, graph.groups[g])]
        depth += 1
    return tuple(batch for *_, batch in sorted(found))


def _fits(folding: Folding) -> bool:
    if folding.count > MOST:
        return False
    frame = lay_out(folding)
    return READABLE * frame.width <= WINDOW[0] and READABLE * frame.height <= WINDOW[1]


def _is_visible(graph: Computation, opened: set[int], group: int) -> bool:
    """Return whether a group is an item of an open group, or of an open stack's member."""
    parent = graph.groups[group].parent
    return parent in opened or (parent is not None and graph.groups[parent].parent in opened)


def _shown_group(graph: Computation, group: int) -> Group:
    """Return the group whose items an open group shows by default: itself, or a stack's first member."""
    found = graph.groups[group]
    return graph.groups[found.groups[0]] if found.is_stack else found


def _is_filler(graph: Computation, group: Group) -> bool:
    """Return whether a group is a run of operations next to modules, which are more informative."""
    siblings = graph.groups[group.parent].groups if group.parent is not None else ()
    return group.kind == RUN and any(graph.groups[sibling].kind != RUN for sibling in siblings)
