"""A traced computation as plain, immutable data that holds no tensors.

A `Computation` has *vertices* in the order in which they were computed: ops, and leaves, which are
parameters, inputs or constants. A tree of *groups* (calls of modules) contains the vertices. A vertex's
inputs are *Edges* from earlier vertices. Arrays are represented by Snapshots: their statistics, and the
elements of small arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

Shape = tuple[int, ...]
Box = tuple[str, int]  # an item of the drawing: ("vertex", 3) or ("group", 2)

RUN = "run"  # the kind of a group without a name: operations in sequence


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of an array's finite elements. `norm` is the 2-norm; `nan` and `inf` count the others."""

    min: float
    mean: float
    max: float
    std: float  # population standard deviation, as in NumPy
    norm: float
    nan: int = 0
    inf: int = 0

    @property
    def finite(self) -> bool:
        return not (self.nan or self.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The statistics of an array (None if it is empty), and some of its elements.

    `numbers` are all elements if `whole`; otherwise a corner, the first few rows and columns of the first
    matrix. `sample` is a small matrix of evenly spaced elements, for a heat map.
    """

    shape: Shape
    dtype: str
    nbytes: int
    statistics: Statistics | None
    numbers: np.ndarray
    whole: bool
    sample: np.ndarray

    @property
    def finite(self) -> bool:
        return self.statistics is None or self.statistics.finite

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """One input of an op: result number `result` of vertex `source`, as the rule's argument `operand`.

    `pulled` is the result of the rule's gradient function. `summed` lists the axes of `pulled` that backward
    sums, since forward broadcast the input over them. `gradient` is this sum: what the edge adds to the
    gradient of its source. `jacobian` is d result / d input, (elements of the result, elements of the operand
    after broadcasting), if both are small.
    """

    source: int
    result: int
    operand: str
    needs: bool
    summed: Shape = ()
    expanded: Shape | None = None  # the shape to which the input was broadcast
    pulled: Snapshot | None = None
    gradient: Snapshot | None = None
    jacobian: np.ndarray | None = None
    elementwise: bool = False  # whether the Jacobian is diagonal


@dataclass(frozen=True, slots=True)
class Retained:
    """A buffer that an op's gradient functions hold. `owner` is a leaf, or the first op that holds it."""

    nbytes: int
    memory: int  # the buffer's number, the same in all ops that share it
    owner: int | None  # None in a pruned graph without the owner


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """The analytic and the numeric derivative with respect to one element of a leaf.

    `verdict` is "agree" or "differ"; "kink" if the slopes to the left and right differ and the analytic one
    is between them; "jump" if one side has a jump; "none" if a slope is not finite; "unsure" if `error`, the
    possible rounding error of `numeric`, is larger than half of both derivatives. A check is false if its
    verdict is "differ" or "none".
    """

    index: Shape
    analytic: float
    numeric: float
    error: float = 0.0
    verdict: str = "agree"
    left: float = 0.0
    right: float = 0.0

    def __bool__(self) -> bool:
        return self.verdict not in ("differ", "none")


@dataclass(frozen=True, slots=True, eq=False)
class Vertex:
    """A call of an op, or a leaf. `values` and `gradients` have a snapshot for each result.

    `kind` is "op", "parameter", "input" (requires a gradient), or "constant".
    """

    index: int
    kind: str
    name: str  # an op's name; a leaf's path, or "" if it has none
    group: int
    values: tuple[Snapshot, ...]
    gradients: tuple[Snapshot | None, ...] = ()
    inputs: tuple[Edge, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    family: str = ""  # an op's family: elementwise, reduction, attention, ...
    parts: tuple[str, ...] = ()  # the ops in the definition of a fused op
    formulas: tuple[tuple[str, str], ...] = ()  # (operand, its gradient in LaTeX)
    flops: int | None = None  # floating-point operations in forward
    retained: tuple[Retained, ...] = ()
    source: str = ""  # file:line
    code: str = ""  # the text of the source line
    checks: tuple[Check, ...] = ()
    label: str = ""  # the user's name for an op's result
    is_output: bool = False
    seeds: tuple[Snapshot | None, ...] = ()  # the gradients of an output that backward started with
    sign: str = ""  # an op's sign, such as ×
    public_name: str = ""  # the name of the public function of an op
    defaults: tuple[tuple[str, str], ...] = ()  # the defaults of an op's settings
    words: str = ""  # the first few of several integers, such as token ids, as words or numbers

    @property
    def value(self) -> Snapshot:
        return self.values[0]

    @property
    def gradient(self) -> Snapshot | None:
        return next((g for g in self.gradients if g is not None), None)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A part of the program, such as one call of a module, with its direct vertices and groups, in order.

    A stack is a group of `times` equal groups in sequence. It is drawn as one of them, with a label "x6".
    """

    index: int
    parent: int | None
    name: str  # the path from the parent: "layers.0"
    path: str  # the path from the outermost module: "encoder.layers.0"
    kind: str  # the class: "EncoderLayer"
    vertices: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    times: int = 1

    @property
    def is_stack(self) -> bool:
        return self.times > 1


@dataclass(frozen=True, eq=False, repr=False)
class Computation:
    """A traced computation: `vertices` in the order in which they were computed, and a tree of `groups`.

    `parameters` are copies of the leaves that have a name and require a gradient.
    """

    vertices: tuple[Vertex, ...]
    groups: tuple[Group, ...]  # the first is the root
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    title: str = ""
    notes: tuple[str, ...] = ()  # reasons why something is not shown

    @property
    def outputs(self) -> tuple[Vertex, ...]:
        return tuple(v for v in self.vertices if v.is_output)

    @cached_property
    def is_finite(self) -> bool:
        """Whether all outputs and gradients are free of NaN and infinities."""
        values = (s for v in self.outputs for s in v.values)
        gradients = (g for v in self.vertices for g in v.gradients if g is not None)
        return all(s.finite for s in (*values, *gradients))

    @cached_property
    def consumers(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each vertex, the (vertex, input number) pairs that use it."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.vertices]
        for vertex in self.vertices:
            for place, edge in enumerate(vertex.inputs):
                found[edge.source].append((vertex.index, place))
        return tuple(map(tuple, found))

    @cached_property
    def contents(self) -> list[list[int]]:
        """For each group, the vertices in it at any depth, in order."""
        found: list[list[int]] = [[] for _ in self.groups]
        for group in reversed(self.groups):  # children come after their parents
            found[group.index] += group.vertices
            if group.parent is not None:
                found[group.parent] += found[group.index]
        return [sorted(vertices) for vertices in found]

    def members(self, box: Box) -> list[Vertex]:
        """Return the vertices that a closed box contains."""
        return [self.vertices[v] for v in ([box[1]] if box[0] == "vertex" else self.contents[box[1]])]

    def heat_maps(self, box: Box) -> tuple[Snapshot | None, Snapshot | None]:
        """Return the arrays that a closed box shows as heat maps: a value, at the left, and its gradient.

        A group shows the arrays of its last op. Each is None if the box shows no heat map of it: for a single
        number, and for integers that are shown as text (`Vertex.words`).
        """
        members = self.members(box)
        vertex = next((v for v in reversed(members) if v.kind == "op"), members[-1])
        value, gradient = vertex.value, vertex.gradient
        return (
            value if value.size > 1 and not vertex.words else None,
            gradient if gradient is not None and gradient.size > 1 else None,
        )

    def chain(self, group: int) -> list[int]:
        """Return the groups around a group, from the root to the group itself."""
        found: list[int] = []
        at: int | None = group
        while at is not None:
            found.append(at)
            at = self.groups[at].parent
        return found[::-1]
