"""Where a NaN or an infinity in a result, or a gradient, comes from: in words, and the way that it took.

Only what arrives counts. One walks from what is not finite at the end, against the arrows, along what is not
finite, to the operation that made it out of numbers. An infinity that somebody put in, as masks do, was made
by nobody: where a NaN comes of it, the operation that made the NaN is the one to name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autograd.anomaly import (
    advice_for,
    comparable_shape,
    describe_at,
    first_index,
    kind_of,
    not_finite,
    numbers_in,
    operand_names,
    shown_at,
)
from ..autograd.gradients import propagate
from ..autograd.observers import observe, unobserved
from ..autograd.walk import unbroadcast
from ..devices import is_floating, on_cpu
from ..errors import OptionError
from ..graph.data import Snapshot, Vertex
from ..graph.graph import Graph
from ..graph.labels import public_name
from ..graph.pruning import prune
from ..graph.tape import Tape, look_up
from ..graph.trace import seeds_of, tensors_of, trace
from ..modes import no_grad
from ..nn import Module
from ..nodes import Node, producer
from ..ops.op import registry
from ..tensor import Tensor
from ..versions import arrays_in

TITLES = {
    "value": "From the first NaN or infinity to the output",
    "gradient": "From the first gradient that is not finite to the output",
    "input": "From what was given to the output",
    "seed": "From the output back",
}


@dataclass(frozen=True, eq=False, repr=False)
class NanReport:
    """What `why_nan` found: `reason` in words, and `graph`, the path from where it began to where it shows.

    `kind` is "finite", "value" or "gradient" (an operation, `vertex` of the graph, made it), "input" (a leaf
    held it), or "seed" (the gradient given to begin with did). `index` is the first bad element.
    """

    kind: str
    reason: str
    graph: Graph
    vertex: Vertex | None = None
    index: tuple[int, ...] | None = None

    @property
    def finite(self) -> bool:
        return self.kind == "finite"

    def __repr__(self) -> str:
        return self.reason


def why_nan(output: Any, params: Module | Mapping[str, Tensor] | None = None, **options: Any) -> NanReport:
    """Which operation made the first NaN or infinity of those that reach `output`, or else the gradients.

    Takes what `trace` takes, and like it needs a graph that backward() has not freed. The report prints the
    reason; its `.graph` is the trace, cut down to the way from that operation to the output, and what the
    operation was given. Where all is finite it says so, and `.graph` is whole.
    """
    if "check" in options:
        raise OptionError("why_nan makes no finite differences.\nLeave check= to trace().")
    graph = trace(output, params, check=False, **options)
    search = _Search(graph, output, options.get("gradient"))
    return (
        search.values()
        or (search.gradients() if options.get("backward", True) else None)
        or search.all_clear()
    )


class _Search:
    def __init__(self, graph: Graph, output: Any, gradient: Any) -> None:
        self.graph, self.given = graph, gradient
        self.tensors = tensors_of(output)
        self.tape = Tape([x.node or x for x in self.tensors])
        self.things: list[Any] = [*self.tape.leaves, *self.tape.nodes]  # thing i is vertex i

    # ------------------------------------------------------------ values

    def values(self) -> NanReport | None:
        """What is not finite in an output, and where it began."""
        bad = {producer(x.node or x): x for x in self.tensors if not np.isfinite(x.numpy()).all()}
        if not bad:
            return None
        ends = [i for i, thing in enumerate(self.things) if thing in bad]
        if any(np.isnan(bad[self.things[i]].numpy()).any() for i in ends):
            ends = [i for i in ends if np.isnan(bad[self.things[i]].numpy()).any()]
            makers, way = self._against_the_arrows(ends, _has_nan)
            begin = nan_maker = min(makers)
            behind, further = self._against_the_arrows([begin], _has_any)
            produced = [i for i in behind if self._is_op(i) and not self._was_given(i)]
            blamed = [
                *produced,
                *(i for i in behind if self.graph.vertices[i].kind in ("parameter", "input")),
            ]
            if begin not in behind and blamed:
                begin = min(produced or blamed)
                way |= further
            became = "" if begin == nan_maker else f" NaN came of it first in {self._op(nan_maker)}."
        else:
            became = ""
            makers, way = self._against_the_arrows(ends, _has_any)
            begin = min(makers, key=lambda i: (self._is_op(i) and self._was_given(i), i))
        return self._report_value(begin, way, became)

    def _against_the_arrows(self, ends: Iterable[int], bad: Any) -> tuple[set[int], set[int]]:
        """From the ends along inputs that are `bad`: those that have no such input, and all on the way."""
        way, first, stack = set(ends), set(), list(ends)
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

    def _was_given(self, i: int) -> bool:
        """Whether an op was given a NaN or infinity that is no tensor: a number, as masked_fill's."""
        node = self.things[i]
        numbers = [x for x in (*node.edges, *numbers_in(node.settings)) if isinstance(x, int | float)]
        arrays = [x for x in arrays_in(node.settings) if is_floating(x.dtype)]
        return any(not_finite(float(x)) for x in numbers) or any(not_finite(x).any() for x in arrays)

    def _report_value(self, begin: int, way: set[int], became: str) -> NanReport:
        vertex = self.graph.vertices[begin]
        keep = self._between(begin, way) | {e.source for e in vertex.inputs}
        if not self._is_op(begin):
            leaf = self.things[begin]
            index = first_index(not_finite(leaf.array))
            uses = self.graph.consumers[begin]
            first_use = f", used first by {self._op(uses[0][0])}" if uses else ""
            reason = (
                f"{_leaf(vertex)}, {kind_of(leaf.array)}, was given {shown_at(leaf.array, index)}{first_use}."
                f"{became}\n"
                f"Every operation after it passed on what it got. Look at where it comes from: the data, or "
                f"the update that wrote it (a gradient that was not finite, too large a learning rate)."
            )
            return self._report("input", reason, keep, begin, index)
        return self._report_made(vertex, keep, became)

    def _report_made(self, vertex: Vertex, keep: set[int], became: str) -> NanReport:
        node = self.things[vertex.index]
        arrays = self._arrays_of({vertex.index, *(e.source for e in vertex.inputs)})
        which = next(i for i, s in enumerate(vertex.values) if not s.finite)
        result = arrays[node][which]
        nan = np.isnan(result)
        index = first_index(nan if nan.any() else not_finite(result))
        over = comparable_shape(node.op, result)
        known = _known(node, vertex, arrays, index, over)
        of = f"result {which}" if len(vertex.values) > 1 else "its result"
        made = "was given" if self._was_given(vertex.index) and not nan.any() else "produced"
        reason = (
            f"{public_name(vertex)} {made} {shown_at(result, index)} of {of}, {kind_of(result)}, "
            f"at {_place(vertex)}{self._within(vertex).rstrip(',')}.{became}\n"
            f"There {'; '.join(known)}.{self._put_in(vertex)} {self._advice(vertex, nan.any())}"
        )
        return self._report("value", reason, keep, vertex.index, index)

    def _put_in(self, vertex: Vertex) -> str:
        """Who put in the infinities that a NaN was made of."""
        sources = [
            e.source for e in vertex.inputs if _has_any(self.graph.vertices[e.source].values[e.result])
        ]
        if not sources:
            return ""
        first, _ = self._against_the_arrows(sources, _has_any)
        who = [self._op(i) if self._is_op(i) else _leaf(self.graph.vertices[i]) for i in sorted(first)]
        return f" What is infinite was put in by {' and '.join(who)}."

    # ------------------------------------------------------------ gradients

    def gradients(self) -> NanReport | None:
        """What is not finite in a leaf's gradient, and in which operation's derivative it began."""
        vertices = self.graph.vertices
        walked = any(e.pulled is not None for v in vertices for e in v.inputs)
        hurt = [v.index for v in vertices if v.kind != "op" and _any_bad(v.gradients)]
        if not hurt or not walked:  # without a walk, what is shown is an older `.grad`
            return None
        reached, stack, makers = set(hurt), list(hurt), []
        while stack:
            for user, place in self.graph.consumers[stack.pop()]:
                sent = vertices[user].inputs[place].gradient
                if sent is None or sent.finite:
                    continue
                if not _any_bad(vertices[user].gradients):
                    makers.append((user, place))
                elif user not in reached:
                    reached.add(user)
                    stack.append(user)
        if not makers:
            return self._report_other(reached)
        user, place = max(makers)
        keep = self._between(user, set(range(len(vertices)))) | {e.source for e in vertices[user].inputs}
        return self._report_gradient(vertices[user], vertices[user].inputs[place].operand, keep, hurt)

    def _report_gradient(self, vertex: Vertex, operand: str, keep: set[int], hurt: list[int]) -> NanReport:
        node = self.things[vertex.index]
        arrays = self._arrays_of({vertex.index, *(e.source for e in vertex.inputs)})
        place = _operands(node).index(operand)
        upstream, r = self._pulled(node, place)
        if np.isfinite(r).all():  # the sum over axes that were broadcast is too large
            r = unbroadcast(r, node.edges[place].shape)
        nan = np.isnan(r)
        index = first_index(nan if nan.any() else not_finite(r))
        over = comparable_shape(node.op, r)
        known = [describe_at("the gradient g that came to it", g, index, over) for g in upstream]
        known += _known(node, vertex, arrays, index, over)
        result = arrays[node][0]
        if not np.isfinite(result).all():
            known.append(describe_at("its result", result, index, comparable_shape(node.op, result)))
        names = [_leaf(self.graph.vertices[i]) for i in hurt]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        reason = (
            f"the gradient of {self._op(vertex.index)}{self._within(vertex)} with respect to {operand}, "
            f"{kind_of(r)}, is {shown_at(r, index)}; the output is finite.\n"
            f"There {'; '.join(known)}. It reaches the gradient of {', '.join(names[:3])}{more}. "
            f"Keep {operand} away from where the derivative is infinite: choose safe values (where, clamp) "
            f"before {public_name(vertex)}, not after it. {node.op.gradient_advice}".rstrip()
        )
        return self._report("gradient", reason, keep, vertex.index, index)

    def _pulled(self, wanted: Node, place: int) -> tuple[list[np.ndarray], np.ndarray]:
        """What came to a node in backward, and what its rule made of it for one input."""
        found: list[Any] = []

        class AtNode:
            def on_pull(self, node: Node, g: Any, contributions: Any) -> None:
                if node is wanted:
                    parts = iter(contributions)
                    sent = [next(parts)[1] if needed else None for needed in node.needs]
                    found.append(([x for x in (g if type(g) is list else [g]) if x is not None], sent[place]))

        with no_grad(), unobserved(), np.errstate(all="ignore"), observe(AtNode()):
            propagate(seeds_of(self.tensors, self.given, []), retain_graph=True, keep_grad=False)
        upstream, sent = found[0]
        return [*map(on_cpu, upstream)], on_cpu(sent)

    def _report_other(self, reached: set[int]) -> NanReport:
        """No derivative made it: it was given to begin with, or a hook or a sum of gradients did."""
        keep = self._between(max(reached), set(range(len(self.graph.vertices))))
        if not all(np.isfinite(on_cpu(g)).all() for _, g in seeds_of(self.tensors, self.given, [])):
            reason = (
                "the gradient given to begin with is not finite.\n"
                "Give finite numbers, or none for a loss that is one number."
            )
            return self._report("seed", reason, keep)
        last = self.graph.vertices[max(reached)]
        who = self._op(last.index) if last.kind == "op" else _leaf(last)
        reason = (
            f"the gradient that arrives at {who} is not finite, and no operation's derivative made it.\n"
            f"Look at its hooks; else its contributions are finite, and their sum is too large for its dtype."
        )
        return self._report("gradient", reason, keep, last.index)

    # ------------------------------------------------------------ what is shown

    def all_clear(self) -> NanReport:
        seen = any(v.gradient is not None for v in self.graph.vertices)
        ops = sum(v.kind == "op" for v in self.graph.vertices)
        inside = [v for v in self.graph.vertices if any(map(_has_any, v.values))]
        hidden = (
            f" {self._op(inside[0].index)} holds infinities or NaN, which arrive nowhere." if inside else ""
        )
        rest = "" if seen else " Gradients were not looked at: trace one number, or give gradient=."
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
        """What of `way` lies between `begin` and the outputs."""
        after = {begin}
        for vertex in self.graph.vertices[begin + 1 :] if self._is_op(begin) else self.graph.vertices:
            if vertex.index in way and any(e.source in after for e in vertex.inputs):
                after.add(vertex.index)
        leading, stack = set(), [i for i in after if self.graph.vertices[i].is_output]
        while stack:
            i = stack.pop()
            if i not in leading:
                leading.add(i)
                stack += [e.source for e in self.graph.vertices[i].inputs if e.source in after]
        return leading

    def _arrays_of(self, wanted: set[int]) -> dict[Any, tuple[np.ndarray, ...]]:
        """The arrays of some vertices, computed again."""
        number = {thing: i for i, thing in enumerate(self.things)}
        last, found = max(wanted), {}
        with no_grad(), unobserved(), np.errstate(all="ignore"):
            for thing, arrays in self.tape.run():
                if number[thing] in wanted:
                    found[thing] = tuple(map(on_cpu, arrays))
                if number[thing] == last:
                    break
        return found

    def _advice(self, vertex: Vertex, nan: bool) -> str:
        """What helps: of the op, else of the one whose readable definition it stands in."""
        if vertex.value.dtype == "float16" and not nan:
            return "float16 ends at 65504: scale, or compute this in float32."
        op, around = self.things[vertex.index].op, registry.get(self.graph.groups[vertex.group].name)
        return advice_for(around if not op.advice and around and around.advice else op)

    def _within(self, vertex: Vertex) -> str:
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


def _known(node: Node, vertex: Vertex, arrays: dict, index: tuple, over: tuple | None) -> list[str]:
    """What the arrays and numbers given to an op hold at `index`."""
    names = _operands(node)
    operands = [look_up(arrays, edge) for edge in node.edges]
    return [
        describe_at(name, x, index, over) for name, x in zip(names, operands, strict=True) if x is not None
    ]


def _operands(node: Node) -> list[str]:
    return operand_names(node.op, len(node.edges))


def _leaf(vertex: Vertex) -> str:
    if vertex.name:
        return f"the {vertex.kind} {vertex.name}"
    return f"{'an' if vertex.kind == 'input' else 'a'} {vertex.kind} without a name"


def _place(vertex: Vertex) -> str:
    return f"{vertex.source} ({vertex.code})" if vertex.code else vertex.source
