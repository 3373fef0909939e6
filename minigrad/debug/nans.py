"""`why_nan`, which finds the operation that produced a NaN or infinity, and the path from it to the output.

The search starts at non-finite elements of an output, or of a leaf's gradient, and follows non-finite inputs
back to the operation that produced them from finite numbers. No operation produced an infinity that the
program passed in, such as that of a mask. If a NaN is computed from it, the operation that produced the NaN
is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.backward import Node, producer, propagate, unbroadcast
from ..core.devices import on_cpu
from ..core.errors import OptionError
from ..core.modes import no_grad
from ..core.observers import Observer, observe, unobserved
from ..core.registry import registry
from ..core.tensor import Tensor
from ..graph.data import Snapshot, Vertex
from ..graph.graph import Graph
from ..graph.kept_graphs import as_at_backward
from ..graph.labels import public_name
from ..graph.pruning import prune
from ..graph.tape import Tape, look_up, operand_names, pulled_places
from ..graph.trace import seeds_of, tensors_of, trace
from ..nn import Module
from .nonfinite import (
    Index,
    advice_for,
    contains,
    describe_array,
    describe_element,
    describe_input,
    describe_inputs,
    describe_result,
    describe_upstream,
    first_bad,
    first_index,
    gradient_advice_for,
    nonfinite,
    values_in,
)

TITLES = {
    "value": "From the first NaN or infinity to the output",
    "gradient": "From the first gradient that is not finite to the output",
    "input": "From the input to the output",
    "seed": "From the output back",
}


@dataclass(frozen=True, eq=False, repr=False)
class NanReport:
    """The result of `why_nan`: the `reason`, and `graph`, the path from the origin to the output.

    `kind` is "finite"; "value" or "gradient", if an operation (`vertex` of the graph) produced a NaN or
    infinity; "input", if a leaf contains one; or "seed", if the `gradient` argument does. `index` is the
    first bad element. A report is true if everything is finite, so `assert why_nan(loss)` fails if there is a
    NaN.
    """

    kind: str
    reason: str
    graph: Graph
    vertex: Vertex | None = None
    index: Index | None = None

    @property
    def finite(self) -> bool:
        return self.kind == "finite"

    def __bool__(self) -> bool:
        return self.finite

    def __repr__(self) -> str:
        return self.reason


def why_nan(output: Any, params: Module | Mapping[str, Tensor] | None = None, **options: Any) -> NanReport:
    """Find the operation that produced the first NaN or infinity in `output` or, if finite, in gradients.

    The arguments are those of `trace`, except `check`. Like `trace`, it must be called before backward(), or
    after a step under `graph.keep()`. The report prints the reason; its `.graph` is the path from the
    operation, with its inputs, to the output. If everything is finite, the report says so, and `.graph` is
    the whole trace.
    """
    if "check" in options:
        raise OptionError(
            "why_nan does not compare gradients with finite differences.\nUse trace(check=True) for that."
        )
    graph = trace(output, params, check=False, **options)
    with as_at_backward(tensors_of(output)):
        search = _Search(graph, output, options.get("gradient"))
        found = search.values()
        if found is None and options.get("backward", True):
            found = search.gradients()
        return search.all_clear() if found is None else found


class _Search:
    def __init__(self, graph: Graph, output: Any, gradient: Any) -> None:
        self.graph = graph
        self.gradient = gradient
        self.tensors = tensors_of(output)
        self.tape = Tape([x.node or x for x in self.tensors])
        self.things: list[Any] = [*self.tape.leaves, *self.tape.nodes]  # thing i is vertex i

    # ------------------------------------------------------------ values

    def values(self) -> NanReport | None:
        """Report a NaN or infinity in an output; None if there is none."""
        bad = {producer(x.node or x): x for x in self.tensors if not np.isfinite(x.numpy()).all()}
        if not bad:
            return None
        ends = [i for i, thing in enumerate(self.things) if thing in bad]
        if any(np.isnan(bad[self.things[i]].numpy()).any() for i in ends):
            ends = [i for i in ends if np.isnan(bad[self.things[i]].numpy()).any()]
            producers, way = self._sources(ends, _has_nan)
            begin = nan_producer = min(producers)
            behind, further = self._sources([begin], _has_any)
            produced = [i for i in behind if self._is_op(i) and not self._got_nonfinite_number(i)]
            blamed = [
                *produced,
                *(i for i in behind if self.graph.vertices[i].kind in ("parameter", "input")),
            ]
            if begin not in behind and blamed:
                begin = min(produced or blamed)
                way |= further
            became = "" if begin == nan_producer else f" Then NaN was produced by {self._op(nan_producer)}."
        else:
            became = ""
            producers, way = self._sources(ends, _has_any)
            begin = min(producers, key=lambda i: (self._is_op(i) and self._got_nonfinite_number(i), i))
        return self._report_value(begin, way, became)

    def _sources(self, ends: Iterable[int], bad: Any) -> tuple[set[int], set[int]]:
        """Follow `bad` inputs back from `ends`. Return the vertices without bad inputs, and all visited."""
        way = set(ends)
        first = set()
        stack = list(ends)
        while stack:
            vertex = self.graph.vertices[stack.pop()]
            sources = [e.source for e in vertex.inputs if bad(self.graph.vertices[e.source].values[e.result])]
            if not sources:
                first.add(vertex.index)
            stack += set(sources) - way
            way.update(sources)
        return first, way

    def _is_op(self, i: int) -> bool:
        return self.graph.vertices[i].kind == "op"

    def _got_nonfinite_number(self, i: int) -> bool:
        """Return whether an op got a NaN or infinity as a number or setting, as masked_fill may."""
        node = self.things[i]
        numbers = [x for x in node.edges if isinstance(x, float)]
        return any(contains(nonfinite, x) for x in (*numbers, *values_in(node.settings)))

    def _report_value(self, begin: int, way: set[int], became: str) -> NanReport:
        vertex = self.graph.vertices[begin]
        keep = self._between(begin, way) | {e.source for e in vertex.inputs}
        if not self._is_op(begin):
            leaf = self.things[begin]
            index = first_index(nonfinite(leaf.array))
            uses = self.graph.consumers[begin]
            first_use = f", used first by {self._op(uses[0][0])}" if uses else ""
            reason = (
                f"{_leaf(vertex)}, {describe_array(leaf.array)}, contains "
                f"{describe_element(leaf.array, index)}{first_use}.{became}\n"
                f"Every later operation only passed it on. Check where it comes from: the data, or the "
                f"update that wrote it (a non-finite gradient, a learning rate that is too large)."
            )
            return self._report("input", reason, keep, begin, index)
        return self._report_operation(vertex, keep, became)

    def _report_operation(self, vertex: Vertex, keep: set[int], became: str) -> NanReport:
        node = self.things[vertex.index]
        arrays = self._arrays_of({vertex.index, *(e.source for e in vertex.inputs)})
        which = next(i for i, s in enumerate(vertex.values) if not s.finite)
        result = arrays[node][which]
        nan = np.isnan(result).any()
        index = first_bad(result)
        inputs = describe_inputs(node.op, _inputs(node, arrays), index, result)
        made = "was given" if self._got_nonfinite_number(vertex.index) and not nan else "produced"
        what = describe_result(result, index, which if len(vertex.values) > 1 else None)
        reason = (
            f"{public_name(vertex)} {made} {what}, "
            f"at {_place(vertex)}{self._in_module(vertex).rstrip(',')}.{became}\n"
            f"There {'; '.join(inputs)}.{self._infinity_sources(vertex)} {self._advice(vertex, nan)}"
        )
        return self._report("value", reason, keep, vertex.index, index)

    def _infinity_sources(self, vertex: Vertex) -> str:
        """Describe the origin of the infinities from which a NaN was computed; "" if there are none."""
        sources = [
            e.source for e in vertex.inputs if _has_any(self.graph.vertices[e.source].values[e.result])
        ]
        if not sources:
            return ""
        first, _ = self._sources(sources, _has_any)
        who = [self._op(i) if self._is_op(i) else _leaf(self.graph.vertices[i]) for i in sorted(first)]
        return f" The infinities come from {' and '.join(who)}."

    # ------------------------------------------------------------ gradients

    def gradients(self) -> NanReport | None:
        """Report a NaN or infinity in a leaf's gradient; None if there is none."""
        vertices = self.graph.vertices
        walked = any(e.pulled is not None for v in vertices for e in v.inputs)
        bad = [v.index for v in vertices if v.kind != "op" and _any_bad(v.gradients)]
        if not bad or not walked:  # if backward did not run, these are older `.grad`s
            return None
        reached = set(bad)
        stack = list(bad)
        producers = []
        while stack:
            for user, place in self.graph.consumers[stack.pop()]:
                sent = vertices[user].inputs[place].gradient
                if sent is None or sent.finite:
                    continue
                if not _any_bad(vertices[user].gradients):
                    producers.append((user, place))
                elif user not in reached:
                    reached.add(user)
                    stack.append(user)
        if not producers:
            return self._report_other(reached)
        user, place = max(producers)
        keep = self._between(user, set(range(len(vertices)))) | {e.source for e in vertices[user].inputs}
        return self._report_gradient(vertices[user], vertices[user].inputs[place].operand, keep, bad)

    def _report_gradient(self, vertex: Vertex, operand: str, keep: set[int], bad: list[int]) -> NanReport:
        node = self.things[vertex.index]
        arrays = self._arrays_of({vertex.index, *(e.source for e in vertex.inputs)})
        place = operand_names(node.op, len(node.edges)).index(operand)
        upstream, r = self._upstream_and_gradient(node, place)
        if np.isfinite(r).all():  # the sum over axes that were broadcast is too large
            r = unbroadcast(r, node.edges[place].shape)
        index = first_bad(r)
        result = arrays[node][0]
        known = describe_upstream(node.op, upstream, index, r)
        known += describe_inputs(node.op, _inputs(node, arrays), index, r)
        if not np.isfinite(result).all():
            known.append(describe_input(node.op, "its result", result, index, result))
        names = [_leaf(self.graph.vertices[i]) for i in bad]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        reason = (
            f"the gradient of {self._op(vertex.index)}{self._in_module(vertex)} with respect to {operand}, "
            f"{describe_array(r)}, is {describe_element(r, index)}; the output is finite.\n"
            f"There {'; '.join(known)}. It reaches the gradient of {', '.join(names[:3])}{more}. "
            f"{gradient_advice_for(node.op, operand, public_name(vertex))}"
        )
        return self._report("gradient", reason, keep, vertex.index, index)

    def _upstream_and_gradient(self, wanted: Node, place: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Return a node's upstream gradients in backward, and its rule's gradient for one input."""
        found: list[Any] = []

        class AtNode(Observer):
            def on_pull(self, node: Node, g: Any, contributions: Any) -> None:
                if node is wanted:
                    upstream = [x for x in (g if type(g) is list else [g]) if x is not None]
                    found.append((upstream, dict(pulled_places(node, contributions))[place].copy()))

        with no_grad(), unobserved(), np.errstate(all="ignore"), observe(AtNode()):
            propagate(seeds_of(self.tensors, self.gradient, []), retain_graph=True, keep_grad=False)
        upstream, sent = found[0]
        return [*map(on_cpu, upstream)], on_cpu(sent)

    def _report_other(self, reached: set[int]) -> NanReport:
        """Report a gradient that is not finite although no derivative produced it.

        It comes from the initial gradient, a hook, or a sum that overflows.
        """
        keep = self._between(max(reached), set(range(len(self.graph.vertices))))
        if not all(np.isfinite(on_cpu(g)).all() for _, g in seeds_of(self.tensors, self.gradient, [])):
            reason = (
                "the initial gradient is not finite.\nPass finite numbers, or no gradient for a scalar loss."
            )
            return self._report("seed", reason, keep)
        last = self.graph.vertices[max(reached)]
        who = self._op(last.index) if last.kind == "op" else _leaf(last)
        reason = (
            f"the gradient that arrives at {who} is not finite, but no operation's derivative made it so.\n"
            f"Check its hooks; otherwise its contributions are finite, but their sum overflows its dtype."
        )
        return self._report("gradient", reason, keep, last.index)

    # ------------------------------------------------------------ what is shown

    def all_clear(self) -> NanReport:
        seen = any(v.gradient is not None for v in self.graph.vertices)
        ops = sum(v.kind == "op" for v in self.graph.vertices)
        inside = [v for v in self.graph.vertices if any(map(_has_any, v.values))]
        hidden = (
            f" {self._op(inside[0].index)} has infinities or NaN, which reach no output." if inside else ""
        )
        rest = "" if seen else " Gradients were not checked: trace a scalar, or pass gradient=."
        what = "the output and all gradients are" if seen else "the output is"
        return NanReport("finite", f"{what} finite ({ops} operations).{hidden}{rest}", self.graph)

    def _report(
        self,
        kind: str,
        reason: str,
        keep: set[int],
        begin: int | None = None,
        index: tuple[int, ...] | None = None,
    ) -> NanReport:
        pruned = prune(self.graph, keep, self.graph.title or TITLES[kind])
        vertex = None if begin is None else pruned.vertices[sorted(keep).index(begin)]
        return NanReport(kind, reason, pruned, vertex, index)

    def _between(self, begin: int, way: set[int]) -> set[int]:
        """Return the vertices of `way` between `begin` and the outputs."""
        after = {begin}
        for vertex in self.graph.vertices[begin + 1 :] if self._is_op(begin) else self.graph.vertices:
            if vertex.index in way and any(e.source in after for e in vertex.inputs):
                after.add(vertex.index)
        leading = set()
        stack = [i for i in after if self.graph.vertices[i].is_output]
        while stack:
            i = stack.pop()
            if i not in leading:
                leading.add(i)
                stack += [e.source for e in self.graph.vertices[i].inputs if e.source in after]
        return leading

    def _arrays_of(self, wanted: set[int]) -> dict[Any, tuple[np.ndarray, ...]]:
        """Recompute the arrays of some vertices. Return them by leaf or node."""
        number = {thing: i for i, thing in enumerate(self.things)}
        last = max(wanted)
        found = {}
        with no_grad(), unobserved(), np.errstate(all="ignore"):
            for thing, arrays in self.tape.run():
                if number[thing] in wanted:
                    found[thing] = tuple(map(on_cpu, arrays))
                if number[thing] == last:
                    break
        return found

    def _advice(self, vertex: Vertex, nan: bool) -> str:
        """Return the advice of an op or, if it has none, of the composite op that it is part of."""
        if vertex.value.dtype == "float16" and not nan:
            return "float16 overflows above 65504: scale, or compute this in float32."
        op = self.things[vertex.index].op
        around = registry.get(self.graph.groups[vertex.group].name)
        return advice_for(around if not op.advice and around and around.advice else op)

    def _in_module(self, vertex: Vertex) -> str:
        path = self.graph.groups[vertex.group].path
        return f", in {path}," if path else ""

    def _op(self, i: int) -> str:
        vertex = self.graph.vertices[i]
        return f"{public_name(vertex)} at {_place(vertex)}"


def _has_nan(value: Snapshot) -> bool:
    return value.statistics is not None and value.statistics.nan > 0


def _has_any(value: Snapshot) -> bool:
    return not value.finite


def _any_bad(snapshots: Iterable[Snapshot | None]) -> bool:
    return any(s is not None and not s.finite for s in snapshots)


def _inputs(node: Node, arrays: dict[Any, Any]) -> list[Any]:
    return [look_up(arrays, edge) for edge in node.edges]


def _leaf(vertex: Vertex) -> str:
    if vertex.name:
        return f"the {vertex.kind} {vertex.name}"
    return f"{'an' if vertex.kind == 'input' else 'a'} {vertex.kind} without a name"


def _place(vertex: Vertex) -> str:
    return f"{vertex.source} ({vertex.code})" if vertex.code else vertex.source
