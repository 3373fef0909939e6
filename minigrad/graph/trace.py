"""Tracing: turn the recorded operations behind an output into a Graph, with values and gradients.

A trace recomputes the forward pass, since intermediate results are not kept, takes a snapshot of each value,
and runs backward once, observing every gradient.
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.backward import Node, ResultEdge, producer, propagate, requires_grad, unbroadcast
from ..core.closures import arrays_in, root
from ..core.devices import array_module, is_array, on_cpu, to_device_of
from ..core.errors import DtypeError, GraphError, MinigradError, OptionError, ShapeError
from ..core.frames import where
from ..core.modes import no_grad
from ..core.observers import Observer, observe, unobserved
from ..core.tensor import Tensor, as_tensor
from ..core.trees import flatten
from ..nn import Module, Parameter
from . import gradient_checks
from .data import Check, Edge, Retained, Snapshot, Vertex
from .graph import Graph
from .grouping import arrange, outermost_modules
from .jacobians import Budget, is_diagonal, jacobians
from .kept_graphs import as_at_backward
from .parts import parts_of
from .snapshots import WHOLE, snapshot
from .tape import Tape, operand_names, pulled_places, shapes

HIDDEN = ("key",)  # settings that are not shown
LISTED = 8  # how many integers of an array its box shows


def trace(
    output: Any,
    params: Module | Mapping[str, Tensor] | None = None,
    *,
    gradient: Any = None,
    backward: bool = True,
    check: bool | None = None,
    whole: int = WHOLE,
    title: str = "",
    words: Sequence[str] | None = None,
) -> Graph:
    """Trace the computation of `output` (a tensor, or lists and dicts of them) as a Graph.

    `params`, a Module or a dict of tensors, names the leaves; a dict may name results too. Call `trace`
    before backward(), or run the training step under `keep()`.

    Unless `backward=False`, the trace runs backward itself, if each output is a scalar or `gradient` has a
    gradient of each output's shape. It changes no `.grad`, but runs hooks. The leaves' gradients are compared
    with finite differences if `check` is True or, for None, if that is cheap.

    Arrays of at most `whole` elements keep all their numbers, larger ones statistics and a corner. Parameters
    are copied, for `diff`. `words` is a vocabulary: integers that index an axis of its length are shown as
    its words.

    Raises a GraphError if output has no graph, or one that backward() has freed.

    >>> w = mg.tensor([1.0, 2.0], requires_grad=True)
    >>> graph = mg.graph.trace((w * w).sum(), {"w": w})
    >>> print(graph)
    <Graph: 2 operations on 1 input>
    """
    _check_options(check, whole, title)
    outputs = tensors_of(output)
    names = _Names(params, outputs)
    with as_at_backward(outputs), no_grad(), unobserved(), np.errstate(all="ignore"):
        tape = Tape([x.node or x for x in outputs])
        tracing = _Tracing(tape, names, whole)
        if backward:
            tracing.walk_back(seeds_of(outputs, gradient, tracing.notes), check)
        vertices = [*map(tracing.leaf, tape.leaves), *map(tracing.op, tape.nodes)]
        kept = {names.of(x): _copy(x.array) for x in tape.leaves if x.requires_grad and names.of(x)}
    scopes = [None] * len(tape.leaves) + [node.scope for node in tape.nodes]
    groups, homes = arrange(vertices, scopes, names.modules, [tracing.is_external(v) for v in vertices])
    texts = _read_integers(vertices, words or ())
    placed = tuple(
        replace(v, group=home, words=texts.get(v.index, "")) for v, home in zip(vertices, homes, strict=True)
    )
    return Graph(placed, groups, kept, title, tuple(tracing.notes))


def _copy(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy on the CPU."""
    array = on_cpu(array).copy()
    array.flags.writeable = False
    return array


def _check_options(check: Any, whole: Any, title: Any) -> None:
    if check not in (None, True, False):
        raise OptionError(
            f"check must be True, False or None, got {check!r}.\nNone checks only if that is cheap."
        )
    if not isinstance(whole, int) or whole < 0:
        raise OptionError(f"whole must be a non-negative integer, got {whole!r}.\nPass, for example, 256.")
    if not isinstance(title, str):
        raise OptionError(f"title must be a string, got {title!r}.\nPass, for example, 'A training step'.")


def tensors_of(output: Any) -> list[Tensor]:
    found = [x for _, x in flatten(output) if isinstance(x, Tensor)]
    if not found:
        raise DtypeError(f"output must be a tensor, got {type(output).__name__}.\nPass the tensor to trace.")
    if not any(x.requires_grad for x in found):
        raise GraphError(
            f"this tensor of shape {found[0].shape} has no graph: it depends on no tensor that requires a "
            f"gradient.\nSet requires_grad=True on a leaf, and do not compute under no_grad()."
        )
    return [x for x in found if x.requires_grad]


def seeds_of(outputs: list[Tensor], gradient: Any, notes: list[str]) -> list[tuple[Any, np.ndarray]]:
    """Return the (edge, gradient) pairs to start backward from; [] and a note if a `gradient` is needed."""
    if gradient is None:
        if any(x.numel() != 1 for x in outputs):
            notes.append(
                "No gradients: the output is not a scalar. Trace a loss, or pass trace(gradient=...)."
            )
            return []
        return [(x.node or x, array_module(x.array).ones_like(x.array)) for x in outputs]
    single = len(outputs) == 1 and not isinstance(gradient, dict)
    each = [gradient] if single else [g for _, g in flatten(gradient)]
    gradients = [as_tensor(g).array for g in each]
    if [g.shape for g in gradients] != [x.shape for x in outputs]:
        raise ShapeError(
            f"gradient has shapes {[g.shape for g in gradients]}, the outputs {[x.shape for x in outputs]}.\n"
            f"Pass one gradient of the shape of each output."
        )
    return [
        (x.node or x, to_device_of(g.astype(x.dtype), x.array))
        for x, g in zip(outputs, gradients, strict=True)
    ]


def _read_integers(vertices: list[Vertex], words: Sequence[str]) -> dict[int, str]:
    """Return the first integers of each leaf that has several, as text.

    They are words if an op uses them with an array that has an axis of the vocabulary's length.
    """
    lengths: dict[int, set[int]] = {}  # leaf -> the lengths of axes of arrays that ops use it with
    for vertex in vertices:
        read = [vertices[edge.source].value for edge in vertex.inputs]
        for edge in vertex.inputs:
            lengths.setdefault(edge.source, set()).update(n for value in read for n in value.shape)
    found = {}
    for v in vertices:
        if v.kind == "constant" and v.value.size > 1 and v.value.dtype.startswith(("int", "uint")):
            numbers = v.value.numbers.reshape(-1)[:LISTED].tolist()
            named = range(len(words)) if len(words) in lengths.get(v.index, ()) else ()
            texts = [words[i].strip() if i in named else str(i) for i in numbers]
            found[v.index] = " ".join(texts) + (" …" if v.value.size > LISTED else "")
    return found


def _dotted_path(path: str) -> str:
    """Convert `["layer"]["w"]` to `layer.w`."""
    return re.sub(r'\["(.*?)"\]|\[(.*?)\]', r".\1\2", path, flags=re.DOTALL).removeprefix(".")


class _Names:
    """The names of leaves and results, by tensor, and the paths of modules, by id."""

    def __init__(self, params: Module | Mapping[str, Tensor] | None, outputs: list[Tensor]) -> None:
        self.modules: dict[int, str] = {}
        self.tensors: dict[Any, str] = {}
        self.learned: set[Any] = set()  # parameters and buffers that require a gradient
        self.own: set[str] = set()  # names of tensors passed one by one
        if isinstance(params, Module):
            self._name(params, "")
        elif params is not None and not isinstance(params, Mapping):
            raise DtypeError(
                f"params must be a Module or a dict of names, got {type(params).__name__}.\n"
                f"Pass the model, or {{'w': w, ...}}."
            )
        elif params is not None:
            for path, x in flatten(dict(params)):
                name = _dotted_path(path)
                if isinstance(x, Module):
                    self._name(x, name)
                elif isinstance(x, Tensor):
                    if name in self.own:
                        raise OptionError(f"two tensors are named {name!r}.\nUse different names.")
                    self.tensors[x.node or x] = name
                    self.own.add(name)
                else:
                    raise DtypeError(
                        f"{name} must be a tensor, got {type(x).__name__}.\nPass a dict of tensors."
                    )
        if not isinstance(params, Module):
            found = outermost_modules(producer(x.node) for x in outputs if x.node is not None)
            for module in found:
                if id(module) not in self.modules:
                    self._name(module, "" if len(found) == 1 else type(module).__name__)

    def _name(self, module: Module, prefix: str) -> None:
        for path, part in module.named_modules(prefix=prefix):
            self.modules.setdefault(id(part), path)
        for path, x in (*module.named_parameters(prefix), *module.named_buffers(prefix)):
            self.tensors.setdefault(x, path)
            if x.requires_grad:
                self.learned.add(x)

    def of(self, edge: Any) -> str:
        return self.tensors.get(edge, "")


class _Tracing(Observer):
    """Collects the data of a trace, and observes its backward."""

    def __init__(self, tape: Tape, names: _Names, whole: int) -> None:
        self.tape = tape
        self.names = names
        self.whole = whole
        self.index = {thing: i for i, thing in enumerate([*tape.leaves, *tape.nodes])}
        self.outputs = {producer(edge) for edge in tape.outputs}
        self.notes: list[str] = []
        self.budget = Budget()
        self.values: dict[Any, tuple[Snapshot, ...]] = {}
        self.locals: dict[Node, dict[int, np.ndarray]] = {}
        for thing, arrays in tape.run():
            self.values[thing] = tuple(self._snapshot(array) for array in arrays)
            if type(thing) is Node:
                self.locals[thing] = jacobians(thing, arrays[0], self.budget)
        self.upstream: dict[Any, tuple[Snapshot | None, ...]] = {}
        self.pulls: dict[tuple[Any, int], tuple[Snapshot, Snapshot, tuple[int, ...]]] = {}
        self.checks: dict[Any, tuple[Check, ...]] = {}
        self.seeds: dict[tuple[Any, int], np.ndarray] = {}
        self.memories: dict[int, tuple[int, Any]] = {}  # the number and the owner of each memory
        for x in tape.leaves:
            self.memories.setdefault(id(root(x.array)), (len(self.memories), x))
        self.codes: dict[Any, tuple[str, str]] = {}

    def _snapshot(self, array: np.ndarray) -> Snapshot:
        return snapshot(array, self.whole)

    # ------------------------------------------------------------ backward

    def walk_back(self, seeds: list[tuple[Any, np.ndarray]], check: bool | None) -> None:
        """Run backward, observing each gradient, and check the leaves' gradients by finite differences."""
        if not seeds:
            return
        for edge, g in seeds:
            key = producer(edge), edge.index if type(edge) is ResultEdge else 0
            self.seeds[key] = self.seeds[key] + g if key in self.seeds else g
        with observe(self):
            found = dict(propagate(seeds, retain_graph=True, keep_grad=False).leaf_gradients())
        for leaf, g in found.items():
            self.upstream[leaf] = (self._snapshot(g),)
        flops = sum(filter(None, map(_flops, self.tape.nodes)))
        self.checks = gradient_checks.run(self.tape, found, seeds, flops, check)

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        """Take snapshots of a node's upstream gradient, and of the gradient for each input."""
        parts = g if type(g) is list else [g]
        self.upstream[node] = tuple(None if part is None else self._snapshot(part) for part in parts)
        for place, r in pulled_places(node, contributions):
            shape = node.edges[place].shape
            raw = self._snapshot(r)
            whole = self._snapshot(unbroadcast(r, shape)) if r.shape != shape else raw
            self.pulls[node, place] = raw, whole, _summed_axes(r.shape, shape)

    # ------------------------------------------------------------ vertices

    def leaf(self, x: Tensor) -> Vertex:
        kind = "constant"
        if x.requires_grad:
            learned = x in self.names.learned or isinstance(x, Parameter)
            kind = "parameter" if learned else "input"
        gradients = self.upstream.get(x)
        if gradients is None and x._grad is not None:
            gradients = (self._snapshot(x._grad.array),)
        return Vertex(
            self.index[x], kind, self.names.of(x), 0, self.values[x], gradients or (None,),
            checks=self.checks.get(x, ()), is_output=x in self.outputs,
            seeds=self._seeds(x, 1),
        )  # fmt: skip

    def is_external(self, vertex: Vertex) -> bool:
        """Return whether a leaf comes from outside all modules: inputs, ids, and named data."""
        if vertex.kind == "constant":
            return vertex.name in self.names.own if vertex.name else vertex.value.dtype.startswith("int")
        return vertex.kind == "input"

    def op(self, node: Node) -> Vertex:
        op = node.op
        source = self._source(node)
        operands = operand_names(op, len(node.edges))
        inputs = [
            self._edge(node, place, edge, operand)
            for place, (edge, operand) in enumerate(zip(node.edges, operands, strict=True))
            if requires_grad(edge) or isinstance(edge, Tensor)
        ]
        constants = [(o, repr(e)) for o, e in zip(operands, node.edges, strict=True) if _is_plain(e)]
        settings = [(name, _short(value)) for name, value in node.settings.items() if name not in HIDDEN]
        results = len(shapes(node))
        return Vertex(
            self.index[node], "op", op.name, 0, self.values[node],
            self.upstream.get(node, (None,) * results), tuple(inputs), (*constants, *settings),
            family=op.family, parts=parts_of(op), formulas=_formulas(op, operands), flops=_flops(node),
            retained=tuple(self._retained_storages(node)), source=source[0], code=source[1],
            label=self.names.of(node), is_output=node in self.outputs,
            seeds=self._seeds(node, results), sign=op.sign, public_name=op.public_name,
            defaults=_defaults(op),
        )  # fmt: skip

    def _seeds(self, thing: Any, results: int) -> tuple[Snapshot | None, ...]:
        """Return snapshots of the gradients that backward started with at each result, or ()."""
        found = [self.seeds.get((thing, i)) for i in range(results)]
        if all(g is None for g in found):
            return ()
        return tuple(None if g is None else self._snapshot(g) for g in found)

    def _edge(self, node: Node, place: int, edge: Any, operand: str) -> Edge:
        raw, whole, summed = self.pulls.get((node, place), (None, None, ()))
        result = edge.index if type(edge) is ResultEdge else 0
        matrix = self.locals[node].get(place)
        shape = self.values[producer(edge)][result].shape
        expanded = raw.shape if raw is not None and summed else expanded_shape(node, shape)
        return Edge(
            self.index[producer(edge)], result, operand, bool(node.needs[place]),
            summed or _summed_axes(expanded or shape, shape),
            expanded, raw, whole, matrix, matrix is not None and is_diagonal(matrix),
        )  # fmt: skip

    def _retained_storages(self, node: Node) -> Iterator[Retained]:
        """Yield each storage that the node's gradient functions hold, once."""
        seen = set()
        for array in arrays_in(node.gradients):
            memory = root(array)
            if is_array(memory) and memory.nbytes and id(memory) not in seen:
                seen.add(id(memory))
                number, owner = self.memories.setdefault(id(memory), (len(self.memories), node))
                yield Retained(memory.nbytes, number, self.index[owner])

    def _source(self, node: Node) -> tuple[str, str]:
        if node.source not in self.codes:
            path, _, line = where(node.source).rpartition(":")
            code = linecache.getline(path, int(line)).strip()
            self.codes[node.source] = f"{_shorten_path(path)}:{line}", code
        return self.codes[node.source]


def _summed_axes(expanded: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of `expanded` over which an array of `shape` was broadcast."""
    extra = len(expanded) - len(shape)
    return tuple(i for i, n in enumerate(expanded) if i < extra or (shape[i - extra] == 1 and n != 1))


def expanded_shape(node: Node, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape to which an elementwise op broadcasts an input of this `shape`, or None."""
    result = shapes(node)[0]
    if shape == result or node.op.family != "elementwise" or len(shape) > len(result):
        return None
    try:
        return result if np.broadcast_shapes(shape, result) == result else None
    except ValueError:
        return None


def _defaults(op: Any) -> tuple[tuple[str, str], ...]:
    """Return the names and defaults of an op's settings, except those whose default is None."""
    parameters = inspect.signature(op.source).parameters.values() if hasattr(op, "source") else ()
    optional = [p for p in parameters if p.default is not p.empty and p.default is not None]
    return tuple((p.name, repr(p.default)) for p in optional)


def _formulas(op: Any, operands: list[str]) -> tuple[tuple[str, str], ...]:
    """Return the gradient of each operand in LaTeX; for a variadic op, only that of the first."""
    return tuple((o, latex) for o, latex in zip(operands, op.latex, strict=False) if latex)


def _flops(node: Node) -> int | None:
    """Return the floating-point operations of forward; None if the op does not define them."""
    flops = getattr(node.op, "flops", None)
    if flops is None:
        return None
    inputs = [getattr(edge, "shape", ()) if edge is not None else None for edge in node.edges]
    result = node.shape if type(node.shape) is not list else node.shape[0]
    try:
        return int(flops.count(inputs, result, node.settings))
    except (TypeError, IndexError, KeyError, ValueError, MinigradError):
        return None  # a user's op whose count does not handle these inputs


def _is_plain(edge: Any) -> bool:
    return isinstance(edge, bool | int | float)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _shorten_path(path: str) -> str:
    """Return a path relative to the current folder or, if it is not in it, its last three parts."""
    file = Path(path)
    try:
        return file.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return Path(*file.parts[-3:]).as_posix() if len(file.parts) > 3 else file.as_posix()
