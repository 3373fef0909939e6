"""The tree of groups in which a graph folds: calls of modules, stacks of equal blocks, runs of operations.

The boxes of each group must not form a cycle. A module with operations before and after another module (a
residual connection around a sub-layer) would form one, so it is dissolved: its parts move to its parent,
under longer names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

from ..core.backward import Node, producer
from ..core.modes import BACKWARD, Scope
from .data import RUN, Group, Vertex

MOST = 40  # the most items of a group; more are put into runs
LENGTH = 24  # the number of items in a run
TIME = re.compile(r"\bt = \d+$")  # the end of the name of a time step


def arrange(
    vertices: Sequence[Vertex],
    scopes: Sequence[Scope | None],
    paths: dict[int, str],
    is_input: Sequence[bool],
) -> tuple[tuple[Group, ...], list[int]]:
    """Return the groups, the root first, and the group of each vertex.

    `scopes` has the scope in which each vertex was recorded. Leaves have none; they are put where they are
    used, or at the top if they are inputs (`is_input`). `paths` has the path of each module, by its id().
    """
    tree = _Tree(paths)
    homes = [tree.of(scope) for scope in scopes]
    _place_leaves(vertices, homes, tree.root, is_input)
    for vertex, home in zip(vertices, homes, strict=True):
        home.vertices.append(vertex.index)
    _drop_empty(tree.root)
    links = _links(vertices)
    for part in _parts_with_cycles(tree.root, homes, links):
        _dissolve_cycles(part, links)
    return _fold_up(tree.root, vertices)


def _drop_empty(root: _Part) -> None:
    """Remove calls that are empty, since their submodules are elsewhere in the tree."""
    for part in reversed(list(root.walk())):
        part.parts = [child for child in part.parts if child.vertices or child.parts]


def _fold_up(root: _Part, vertices: Sequence[Vertex]) -> tuple[tuple[Group, ...], list[int]]:
    """Combine equal parts into stacks and long lists into runs; return the tree as Groups."""
    links = _links(vertices)
    for part in list(root.walk()):
        _count_times(part, links)
        _stack(part, vertices, links)
    for part in list(root.walk()):
        _gather(part, links)
    return _freeze(root, len(vertices))


def _links(vertices: Sequence[Vertex]) -> list[tuple[int, int]]:
    return [(edge.source, vertex.index) for vertex in vertices for edge in vertex.inputs]


def rearrange(groups: Sequence[Group], vertices: Sequence[Vertex]) -> tuple[tuple[Group, ...], list[int]]:
    """Return new groups for some vertices of a graph, and the group of each vertex.

    Stacks and runs are formed anew: parts that were equal may now differ, and fewer items may need no runs.
    """
    parts: dict[int | None, _Part] = {}
    for group in groups:
        if group.parent is not None and (group.is_stack or group.kind == RUN):
            parts[group.index] = parts[group.parent]
        else:
            parts[group.index] = _Part(group.name, group.path, group.kind, parts.get(group.parent))
    root = parts[0]
    for place, vertex in enumerate(vertices):
        parts[vertex.group].vertices.append(place)
    for part in reversed(list(root.walk())):
        if part.parent is not None and not part.vertices and not part.parts:
            part.parent.parts.remove(part)
    return _fold_up(root, vertices)


def outermost_modules(nodes: Iterable[Any]) -> list[Any]:
    """Return the outermost modules that recorded `nodes` and the nodes before them."""
    stack = list(nodes)
    seen = set(stack)
    found = {}
    while stack:
        node = stack.pop()
        scope = node.scope
        last = None
        while scope is not None:
            last = scope.part() if callable(scope.part) else last
            scope = scope.parent
        if last is not None:
            found[id(last)] = last
        for edge in node.edges:
            before = producer(edge)
            if type(before) is Node and before not in seen:
                seen.add(before)
                stack.append(before)
    return list(found.values())


class _Part:
    """A group while the tree is built."""

    def __init__(self, name: str, path: str, kind: str, parent: _Part | None, is_call: bool = False) -> None:
        self.name = name
        self.path = path
        self.kind = kind
        self.parent = parent
        self.is_call = is_call
        self.vertices: list[int] = []
        self.parts: list[_Part] = []
        self.times = 1
        if parent is not None:
            parent.parts.append(self)

    def walk(self) -> Iterable[_Part]:
        """Yield this part and its descendants, parents first."""
        stack = [self]
        while stack:
            part = stack.pop()
            yield part
            stack.extend(reversed(part.parts))

    def all_vertices(self) -> list[int]:
        """Return the vertices in this part at any depth, in order."""
        return sorted(v for part in self.walk() for v in part.vertices)

    def chain(self) -> list[_Part]:
        """Return the parts from the root to this one."""
        part: _Part | None = self
        found = []
        while part is not None:
            found.append(part)
            part = part.parent
        return found[::-1]

    @property
    def is_backward(self) -> bool:
        return any(part.kind == "gradient" for part in self.chain())


class _Tree:
    """The parts of scopes. A module's call is put into the nearest call around it whose path is a prefix."""

    def __init__(self, paths: dict[int, str]) -> None:
        self.paths = paths
        self.root = _Part("", "", "", None)
        self.known: dict[Scope | None, _Part] = {None: self.root}
        self.mirrors: dict[_Part, _Part] = {}
        self.calls: dict[tuple[_Part, str], int] = {}

    def of(self, scope: Scope | None) -> _Part:
        around = scope
        missing = []
        while around is not None and around not in self.known:
            missing.append(around)
            around = around.parent
        for inner in reversed(missing):
            self.known[inner] = self._make(inner, self.known[inner.parent])
        return self.known[scope]

    def _make(self, scope: Scope, around: _Part) -> _Part:
        if scope.part is BACKWARD:
            return self._mirror(around)
        if isinstance(scope.part, str):
            return self._child(around, scope.part, f"{around.path}.{scope.part}".lstrip("."), "")
        module = scope.part()
        kind = type(module).__name__ if module is not None else "module"
        path = self.paths.get(id(module))
        if path is None:
            return self._child(around, kind, f"{around.path}.{kind}".lstrip("."), kind)
        home: _Part | None = around
        while home is not None and not (home.is_call and _is_below(home.path, path)):
            home = home.parent
        home = home or self.root
        prefix = home.path if home.is_call else ""
        part = self._child(home, path[len(prefix) :].lstrip(".") or kind, path, kind)
        part.is_call = True
        return part

    def _child(self, parent: _Part, name: str, path: str, kind: str) -> _Part:
        """Add a part to `parent`. The second call of a module is named `name (call 2)`."""
        number = self.calls[parent, name] = self.calls.get((parent, name), 0) + 1
        again = "" if number == 1 else f" (call {number})"
        return _Part(name + again, path, kind, parent)

    def _mirror(self, part: _Part) -> _Part:
        """Return the part for the gradients of the operations in `part`."""
        if part not in self.mirrors:
            if part is self.root:
                self.mirrors[part] = _Part("backward", "backward", "gradient", part)
            else:
                assert part.parent is not None
                home = self._mirror(part.parent)
                self.mirrors[part] = _Part(part.name, f"backward.{part.path}", part.kind, home)
        return self.mirrors[part]


def _is_below(prefix: str, path: str) -> bool:
    """Return whether the module at `path` is below the one at `prefix`."""
    return path != prefix and (not prefix or path.startswith(f"{prefix}."))


def _place_leaves(
    vertices: Sequence[Vertex], homes: list[_Part], root: _Part, is_input: Sequence[bool]
) -> None:
    """Put each leaf into the smallest part that contains all its uses, and each input at the top."""
    users: dict[int, list[_Part]] = {}
    for vertex in vertices:
        for edge in vertex.inputs:
            users.setdefault(edge.source, []).append(homes[vertex.index])
    for vertex in vertices:
        if vertex.kind == "op":
            continue
        if is_input[vertex.index]:
            homes[vertex.index] = root
            continue
        uses = users.get(vertex.index, [])
        forward = [part for part in uses if not part.is_backward] or uses
        chains = [part.chain() for part in forward] or [[root]]
        together = [level[0] for level in zip(*chains, strict=False) if len(set(level)) == 1]
        homes[vertex.index] = together[-1]


# ---------------------------------------------------------------- cycles


def _item_graph(part: _Part, links: Sequence[tuple[int, int]]) -> tuple[list[Any], dict[Any, set[Any]]]:
    """Return a part's items (vertices and parts) and the edges between them."""
    item_of: dict[int, Any] = {v: v for v in part.vertices}
    for child in part.parts:
        item_of.update(dict.fromkeys(child.all_vertices(), child))
    after: dict[Any, set[Any]] = {item: set() for item in (*part.vertices, *part.parts)}
    for source, target in links:
        a, b = item_of.get(source), item_of.get(target)
        if a is not None and b is not None and a is not b:
            after[a].add(b)
    return list(after), after


def _order_items(part: _Part, links: Sequence[tuple[int, int]]) -> tuple[list[Any], list[Any]]:
    """Return a part's items in topological order, and the items that are in cycles or after one."""
    items, after = _item_graph(part, links)
    return _topological_order(
        after, {i: i if isinstance(i, int) else min(i.all_vertices(), default=0) for i in items}
    )


def _parts_with_cycles(root: _Part, homes: Sequence[_Part], links: Sequence[tuple[int, int]]) -> list[_Part]:
    """Return the parts whose items form cycles, found in one pass over the links."""
    chains = {part: part.chain() for part in root.walk()}
    after: dict[_Part, dict[Any, set[Any]]] = {}
    for source, target in links:
        above, below = chains[homes[source]], chains[homes[target]]
        common = sum(a is b for a, b in zip(above, below, strict=False))
        a = above[common] if len(above) > common else source
        b = below[common] if len(below) > common else target
        after.setdefault(above[common - 1], {}).setdefault(a, set()).add(b)
    return [
        part
        for part, found in after.items()
        if len(_topological_order(found, {})[0]) < len(_all_items(found))
    ]


def _all_items(after: dict[Any, set[Any]]) -> set[Any]:
    return set(after).union(*after.values())


def _topological_order(after: dict[Any, set[Any]], first: dict[Any, int]) -> tuple[list[Any], list[Any]]:
    """Return items in topological order, and the items that are in cycles or after one.

    Of several items that may come next, the one with the smallest `first` does.
    """
    items = list(dict.fromkeys([*after, *_all_items(after)]))
    waiting = dict.fromkeys(items, 0)
    for targets in after.values():
        for target in targets:
            waiting[target] += 1
    heap = [(first.get(item, 0), n, item) for n, item in enumerate(items) if not waiting[item]]
    heapify(heap)
    order = []
    n = len(items)
    while heap:
        item = heappop(heap)[2]
        order.append(item)
        for target in after.get(item, ()):
            waiting[target] -= 1
            if not waiting[target]:
                n += 1
                heappush(heap, (first.get(target, 0), n, target))
    done = set(order)
    return order, [item for item in items if item not in done]


def _dissolve_cycles(part: _Part, links: Sequence[tuple[int, int]]) -> None:
    """Dissolve children, those that span the most operations first, until the items form no cycle."""
    ops = {target for _, target in links}
    while (widest := _largest_in_cycle(part, links, lambda child: _span(child, ops))) is not None:
        for child in widest.parts:
            child.name = f"{widest.name}.{child.name}"
        _dissolve(widest)


def _span(part: _Part, ops: set[int]) -> int:
    """Return the distance between the first and the last op in a part."""
    inside = [v for v in part.all_vertices() if v in ops]
    return inside[-1] - inside[0] if inside else 0


def _largest_in_cycle(
    part: _Part, links: Sequence[tuple[int, int]], size: Callable[[_Part], int], least_times: int = 1
) -> _Part | None:
    """Return the child of largest `size` that is in a cycle, or None."""
    items, after = _item_graph(part, links)
    waiting = _topological_order(after, dict.fromkeys(items, 0))[1]  # items in a cycle or after one
    candidates = [i for i in waiting if isinstance(i, _Part) and i.times >= least_times]
    for child in sorted(candidates, key=size, reverse=True):
        if child in _reachable(after, child):
            return child
    return None


def _reachable(after: dict[Any, set[Any]], item: Any) -> set[Any]:
    """Return the items that can be reached from an item."""
    seen: set[Any] = set()
    stack = [item]
    while stack:
        for target in after[stack.pop()]:
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return seen


def _dissolve(part: _Part) -> None:
    """Move the contents of a part to its parent."""
    assert part.parent is not None
    place = part.parent.parts.index(part)
    for child in part.parts:
        child.parent = part.parent
    part.parent.parts[place : place + 1] = part.parts
    part.parent.vertices += part.vertices
    part.parts = []
    part.vertices = []


# ---------------------------------------------------------------- stacks


def _count_times(part: _Part, links: Sequence[tuple[int, int]]) -> None:
    """Rename the calls of a module that reads its own previous result as time steps: `cell, t = 2`."""
    calls: dict[str, list[_Part]] = {}
    for child in sorted(part.parts, key=lambda child: child.all_vertices()[:1]):
        if child.is_call:
            calls.setdefault(child.path, []).append(child)
    for steps in calls.values():
        if len(steps) > 1 and all(_is_used_in(a, b, links) for a, b in pairwise(steps)):
            for t, step in enumerate(steps, 1):
                step.name = f"{strip_call(step.name)}, t = {t}"


def _stack(part: _Part, vertices: Sequence[Vertex], links: Sequence[tuple[int, int]]) -> None:
    """Combine equal consecutive children, with the same name except for a number, into stacks.

    Children are not combined if another item depends on one of them and is used by a later one. Nor are time
    steps, each of which has values to show.
    """
    if part.times > 1:
        return
    children = sorted(part.parts, key=lambda child: child.all_vertices()[:1])
    runs: list[list[_Part]] = []
    signatures: dict[_Part, Any] = {}
    for child in children:
        last = runs[-1][-1] if runs else None
        if (
            last is not None
            and strip_numbers(last.name) == strip_numbers(child.name)
            and last.kind == child.kind
            and not TIME.search(child.name)
        ):
            for one in (last, child):
                if one not in signatures:
                    signatures[one] = _signature(one, vertices)
            again = last.path == child.path  # calls of one module: a loop if each uses the previous one
            if signatures[last] == signatures[child] and (not again or _is_used_in(last, child, links)):
                runs[-1].append(child)
                continue
        runs.append([child])
    part.parts = []
    for run in runs:
        if len(run) == 1 or not _equalize(run, part, vertices):
            part.parts += run
            continue
        name = f"{run[0].name} … {run[-1].name}"
        stack = _Part(name, f"{run[0].path}…", run[0].kind, part)
        stack.times = len(run)
        stack.parts = run
        for member in run:
            member.parent = stack
    while len(part.parts) < len(children):
        cyclic = _largest_in_cycle(part, links, lambda stack: stack.times, least_times=2)
        if cyclic is None:
            break
        _dissolve(cyclic)


def _equalize(run: Sequence[_Part], around: _Part, vertices: Sequence[Vertex]) -> bool:
    """Move unnamed data that only some members of `run` contain out of them. Return whether all now match."""
    own = [_data(member, vertices) for member in run]
    slots = [_outside_inputs(member, vertices, data) for member, data in zip(run, own, strict=True)]
    for tensors in zip(*slots, strict=True):
        held = [v in data for (v, _), data in zip(tensors, own, strict=True)]
        if any(held) and not all(held):
            for member, (v, _), here in zip(run, tensors, held, strict=True):
                if here:
                    next(part for part in member.walk() if v in part.vertices).vertices.remove(v)
                    around.vertices.append(v)
    kinds = [[(vertices[v].kind, vertices[v].value.shape) for v in member.all_vertices()] for member in run]
    return all(found == kinds[0] for found in kinds)


def _data(part: _Part, vertices: Sequence[Vertex]) -> set[int]:
    """Return the unnamed constants in a part."""
    return {v for v in part.all_vertices() if vertices[v].kind == "constant" and not vertices[v].name}


def _outside_inputs(part: _Part, vertices: Sequence[Vertex], data: set[int]) -> list[tuple[int, int]]:
    """Return the tensors that a part reads from outside or from its unnamed data, in the order of use."""
    inside = [v for v in part.all_vertices() if v not in data]
    made = set(inside)
    used = [(e.source, e.result) for v in inside for e in vertices[v].inputs if e.source not in made]
    return list(dict.fromkeys(used))


def _is_used_in(one: _Part, other: _Part, links: Sequence[tuple[int, int]]) -> bool:
    """Return whether the part `other` uses a value from the part `one`."""
    above, below = set(one.all_vertices()), set(other.all_vertices())
    return any(source in above and target in below for source, target in links)


def strip_numbers(name: str) -> str:
    """Return a name without the number of the call, and with each other number replaced by #."""
    return re.sub(r"\d+", "#", strip_call(name))


def strip_call(name: str) -> str:
    """Return a name without the number of the call."""
    return re.sub(r" \(call \d+\)$", "", name)


def _signature(part: _Part, vertices: Sequence[Vertex]) -> Any:
    """Return a value that is the same for equal parts: kinds, ops, settings, shapes and edges.

    Unnamed data counts as a tensor from outside, which it may be in the next part.
    """
    data = _data(part, vertices)
    inside = [v for v in part.all_vertices() if v not in data]
    place = {v: i for i, v in enumerate(inside)}
    outside: dict[tuple[int, int], int] = {}
    rows = []
    for v in inside:
        vertex = vertices[v]
        sources = [
            (place[e.source], e.result)
            if e.source in place
            else (-1, outside.setdefault((e.source, e.result), len(outside)))
            for e in vertex.inputs
        ]
        what = vertex.name if vertex.kind == "op" else ""
        shapes = [(s.shape, s.dtype) for s in vertex.values]
        rows.append((vertex.kind, what, vertex.settings, shapes, sources))
    tree = [(p.kind, len(set(p.vertices) - data), len(p.parts)) for p in part.walk()]
    return tree, rows


# ---------------------------------------------------------------- runs


def _gather(part: _Part, links: Sequence[tuple[int, int]]) -> None:
    """Put consecutive items into runs until a part has few enough."""
    if part.times > 1:
        return
    while len(part.vertices) + len(part.parts) > MOST:
        order, _ = _order_items(part, links)
        part.vertices = []
        part.parts = []
        for start in range(0, len(order), LENGTH):
            items = order[start : start + LENGTH]
            run = _Part("", part.path, RUN, part)
            for item in items:
                if isinstance(item, int):
                    run.vertices.append(item)
                else:
                    run.parts.append(item)
                    item.parent = run
            inside = run.all_vertices()
            run.name = f"steps {inside[0]} to {inside[-1]}"
            if not run.vertices:
                run.name = f"{run.parts[0].name} … {run.parts[-1].name}"


def _freeze(root: _Part, count: int) -> tuple[tuple[Group, ...], list[int]]:
    parts = list(root.walk())
    index = {part: i for i, part in enumerate(parts)}
    homes = [0] * count
    groups = []
    for part in parts:
        for v in part.vertices:
            homes[v] = index[part]
        parent = None if part.parent is None else index[part.parent]
        groups.append(
            Group(
                index[part], parent, part.name, part.path, part.kind, tuple(sorted(part.vertices)),
                tuple(index[p] for p in part.parts), part.times,
            )
        )  # fmt: skip
    return tuple(groups), homes
