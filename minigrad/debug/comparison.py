"""diff: what a training step changed, by comparing two graphs of a model.

The number to look at is the ratio of the update's norm to the weight's: about 1e-3 is healthy, ten times that
is too fast, a tenth too slow (Karpathy, "Neural Networks: Zero to Hero", part 4; CS231n's notes on
training neural networks, "Ratio of weights:updates").
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from ..core.errors import DtypeError, GraphError
from ..graph.data import Snapshot, Statistics, Vertex
from ..graph.graph import Graph
from ..graph.labels import public_name, table

HEALTHY = (1e-4, 1e-2)  # update / weight: a tenth of 1e-3, and ten times it
SUDDEN = 1e3  # the factor by which a gradient grew or shrank from one step to the next
NEGLIGIBLE = 1e-7  # of the largest gradient's norm: too small for float32
SHOWN = 12  # rows of a printed table


@dataclass(frozen=True, eq=False)
class Row:
    """A parameter or an op in both graphs. Gradients are norms; `marks` are warnings.

    For parameters, `update` is the norm of after - before, and `ratio` is `update` divided by the norm
    before, None if that is 0. Rows are sorted by `change`: the ratio, or for an op the relative change of the
    root mean square of its result.
    """

    kind: str  # "parameter" or "op"
    name: str
    path: str
    source: str
    family: str  # an op's: elementwise, attention, ...
    before: Statistics | None
    after: Statistics | None
    gradient_before: float | None
    gradient_after: float | None
    change: float
    update: float | None = None
    ratio: float | None = None
    marks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.marks


@dataclass(frozen=True, eq=False, repr=False)
class Difference:
    """The result of `diff`: `rows`, parameters first, then by change; `notes` on unmatched ops.

    True if no row has a warning.
    """

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.kind == "parameter")

    @property
    def ops(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.kind == "op")

    @property
    def marked(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.marks)

    def __bool__(self) -> bool:
        return not self.marked

    def __repr__(self) -> str:
        ratios = [row.ratio for row in self.parameters if row.ratio is not None]
        middle = f", update/weight {median(ratios):.1e} at the median" if ratios else ""
        head = (
            f"{len(self.parameters)} parameters{middle}; {len(self.ops)} operations; "
            f"{len(self.marked)} marked."
        )
        parts = [head, *self.notes]
        if self.parameters:
            parts.append(self._parameters())
        if self.ops:
            parts.append(self._operations())
        low, high = HEALTHY
        parts.append(
            f"Healthy: update/weight about 1e-3, marked below {low:g} and above {high:g} (Karpathy, Zero to "
            f"Hero, part 4; CS231n)."
        )
        return "\n\n".join(parts)

    def _parameters(self) -> str:
        shown = [
            (_figure(r.ratio), _pair(_norm(r.before), _norm(r.after)),
             _pair(r.gradient_before, r.gradient_after), r.name, ", ".join(r.marks))
            for r in self.parameters[:SHOWN]
        ]  # fmt: skip
        rest = len(self.parameters) - SHOWN
        if rest > 0:
            shown.append(("", "", "", f"{rest} more", ""))
        return table(("update/weight", "norm", "gradient's norm", "parameter", ""), shown, 3)

    def _operations(self) -> str:
        computing = [r for r in self.ops if r.family != "shape"]  # shape ops repeat the same numbers
        shown = [
            (f"{r.change:.1%}", _pair(_rms(r.before), _rms(r.after)),
             _pair(r.gradient_before, r.gradient_after), f"{r.path} {r.name}".strip(), ", ".join(r.marks))
            for r in computing[:SHOWN]
        ]  # fmt: skip
        rest = len(computing) - SHOWN
        if rest > 0:
            shown.append(("", "", "", f"{rest} more", ""))
        return table(("change", "rms", "gradient's norm", "operation", ""), shown, 3)


def diff(before: Graph, after: Graph) -> Difference:
    """Compare two traces of a model, before and after an optimizer step.

    Parameters are matched by name, so pass the model to trace: trace(loss, model). Ops are matched by module
    and order; the data may differ. Graphs of different models raise a GraphError.
    """
    for graph in (before, after):
        if not isinstance(graph, Graph):
            raise DtypeError(
                f"diff needs two Graphs, got {type(graph).__name__}.\nPass the results of trace()."
            )
    _check_same_model(before, after)
    parameters = sorted(_parameter_rows(before, after), key=_by_importance)
    ops, notes = _op_rows(before, after)
    if not parameters:
        notes.append("No parameter has a name: trace(loss, model) names them.")
    return Difference((*parameters, *sorted(ops, key=_by_importance)), tuple(notes))


def _check_same_model(before: Graph, after: Graph) -> None:
    gone = [name for name in before.parameters if name not in after.parameters]
    new = [name for name in after.parameters if name not in before.parameters]
    if gone or new:
        only = [
            f"only the {which} has {_list_names(names)}"
            for which, names in (("first", gone), ("second", new))
            if names
        ]
        raise GraphError(
            f"these are graphs of different models: {'; '.join(only)}.\n"
            f"Trace the same model, with the same params=, before and after a step."
        )
    shapes = [
        f"{name} has shape {x.shape} and {after.parameters[name].shape}"
        for name, x in before.parameters.items()
        if x.shape != after.parameters[name].shape
    ]
    if shapes:
        raise GraphError(
            f"these are graphs of different models: {_list_names(shapes)}.\n"
            f"Trace the same model before and after a step."
        )


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{', '.join(names[:4])}{more}"


# ---------------------------------------------------------------- parameters


def _parameter_rows(before: Graph, after: Graph) -> Iterable[Row]:
    old, new = _leaves_by_name(before), _leaves_by_name(after)
    norms = [_norm_of(v.gradient) or 0.0 for v in new.values()]
    largest = max((norm for norm in norms if math.isfinite(norm)), default=0.0)
    for name, weight in before.parameters.items():
        was = float(np.linalg.norm(weight.astype(np.float64)))
        update = float(np.linalg.norm(after.parameters[name].astype(np.float64) - weight))
        ratio = update / was if was else None
        row = _row("parameter", old[name], new[name], name, "")
        marks = [*_update_marks(row, update, ratio), *row.marks]
        size = row.gradient_after
        if size and size < NEGLIGIBLE * largest and not any("vanished" in mark for mark in marks):
            marks.append("gradient vanished")
        change = math.inf if ratio is None and update else ratio or 0.0
        yield replace(row, update=update, ratio=ratio, change=change, marks=tuple(marks))


def _leaves_by_name(graph: Graph) -> dict[str, Vertex]:
    return {v.name: v for v in graph.vertices if v.kind != "op" and v.name}


def _update_marks(row: Row, update: float, ratio: float | None) -> Iterable[str]:
    if not math.isfinite(update):
        return
    if not update:
        yield "not updated"
    elif ratio is None:
        yield "was all 0"
    elif ratio > HEALTHY[1]:
        yield "large update"
    elif ratio < HEALTHY[0]:
        yield "small update"


# ---------------------------------------------------------------- ops


def _op_rows(before: Graph, after: Graph) -> tuple[list[Row], list[str]]:
    """Return rows for the ops in both graphs, and notes on the others."""
    old, new = _ops_by_place(before), _ops_by_place(after)
    rows = [_row("op", old[key], new[key], public_name(old[key]), key[0]) for key in old if key in new]
    notes = [
        f"Only the {which} graph has {_list_names([f'{path} {name}'.strip() for path, name, _ in only])}."
        for which, only in (
            ("first", [key for key in old if key not in new]),
            ("second", [key for key in new if key not in old]),
        )
        if only
    ]
    return rows, notes


def _ops_by_place(graph: Graph) -> dict[tuple[str, str, int], Vertex]:
    """Return the ops by module path, name, and number among the ops of that name."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for vertex in graph.vertices:
        if vertex.kind == "op":
            place = graph.groups[vertex.group].path, vertex.name
            found[(*place, seen[place])] = vertex
            seen[place] += 1
    return found


# ---------------------------------------------------------------- both


def _row(kind: str, old: Vertex, new: Vertex, name: str, path: str) -> Row:
    a, b = (_rms(v.value.statistics) if v.value.finite else math.nan for v in (old, new))
    a = a or 0.0
    b = b or 0.0
    change = abs(b - a) / a if a else (math.inf if b else 0.0)
    return Row(
        kind, name, path, new.source, new.family, old.value.statistics, new.value.statistics,
        _norm_of(old.gradient), _norm_of(new.gradient), change,
        marks=tuple(_marks(old, new)),
    )  # fmt: skip


def _marks(old: Vertex, new: Vertex) -> Iterable[str]:
    if not all(value.finite for value in new.values):
        yield "not finite"
    if new.gradient is None:
        return
    if any(g is not None and not g.finite for g in new.gradients):
        yield "gradient not finite"
        return
    was, now = _norm_of(old.gradient), _norm_of(new.gradient)
    if now == 0:
        yield "gradient is 0"
    elif was and now and was > now * SUDDEN:
        yield "gradient vanished"
    elif was and now and now > was * SUDDEN:
        yield "gradient exploded"


def _norm_of(gradient: Snapshot | None) -> float | None:
    """Return the norm of a gradient, NaN if an element is not finite."""
    if gradient is None:
        return None
    if gradient.statistics is None:
        return 0.0
    return gradient.statistics.norm if gradient.finite else math.nan


def _rms(statistics: Statistics | None) -> float | None:
    """Return the root mean square, which does not depend on the batch size."""
    return None if statistics is None else math.hypot(statistics.mean, statistics.std)


def _by_importance(row: Row) -> tuple[bool, bool, float]:
    """Return a sort key: non-finite rows first, then marked gradients, then the largest change."""
    broken = any("not finite" in mark for mark in row.marks)
    change = row.change if math.isfinite(row.change) else -1.0
    return not broken, not any("gradient" in mark for mark in row.marks), -change


def _norm(statistics: Statistics | None) -> float | None:
    return None if statistics is None else statistics.norm


def _figure(x: float | None) -> str:
    return "" if x is None else f"{x:.2e}"


def _pair(a: float | None, b: float | None) -> str:
    return "" if a is None and b is None else f"{_short(a)} → {_short(b)}"


def _short(x: float | None) -> str:
    return "none" if x is None else f"{x:.3g}"
