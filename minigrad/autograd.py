"""The tape: every operation records a Node; walking the nodes backward gives every gradient.

Reverse mode in one sentence (`propagate` below): take the latest node whose gradient is complete, ask it for
its inputs' gradients, add each to what that input has already, and let the node go.

A node's *edges* are its inputs: the Node that made the input, or the input itself where no node did (a leaf
tensor or a constant). The arrays that a node needs for its backward live in its gradient functions' closures
and nowhere else.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import GraphError, ShapeError

if TYPE_CHECKING:
    from .tensor import Tensor

LIBRARY = str(Path(__file__).parent)  # frames in here are ours, not the user's


class _GradMode(threading.local):
    enabled = True


grad_mode = _GradMode()


class _SetGrad:
    """A context manager and decorator that switches recording on or off."""

    value: bool

    def __enter__(self) -> None:
        self.before, grad_mode.enabled = grad_mode.enabled, self.value

    def __exit__(self, *exc: object) -> None:
        grad_mode.enabled = self.before

    def __call__(self, function: Callable) -> Callable:
        import functools

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return function(*args, **kwargs)

        return wrapped


class no_grad(_SetGrad):
    """Within it (or in a function it decorates) nothing is recorded."""

    value = False


class enable_grad(_SetGrad):
    """Within it operations are recorded again."""

    value = True


def is_grad_enabled() -> bool:
    return grad_mode.enabled


# ---------------------------------------------------------------- nodes

creation = itertools.count()  # numbers nodes in the order in which they were made


class Node:
    """One recorded operation: `op` applied to `edges` with `settings`.

    `gradients` is a tuple of functions g -> gradient, one an edge (None where none is needed), or one function
    (g, needs) -> gradients; None once freed. `output` refers weakly to the tensor that it made.
    """

    __slots__ = (
        "cell", "clock", "edges", "gradients", "hooks", "needs", "number", "op", "output", "settings", "shape",
        "source", "__weakref__",
    )  # fmt: skip

    op: Any
    settings: dict[str, Any]
    edges: list[Any]
    gradients: Any
    needs: list[bool]
    number: int
    output: Any
    shape: Any
    source: tuple[CodeType, int]
    clock: int
    cell: Cell | None
    hooks: dict[int, Callable] | None

    def __repr__(self) -> str:
        return f"<{self.op.name} recorded at {where(self.source)}>"


class Output:
    """The edge of one result of an op with several: `node`'s result number `index`."""

    __slots__ = ("cell", "hooks", "index", "node", "shape")

    def __init__(self, node: Node, index: int, shape: tuple[int, ...], cell: Cell) -> None:
        self.node, self.index, self.shape, self.cell = node, index, shape, cell
        self.hooks: dict[int, Callable] | None = None


def caller() -> tuple[CodeType, int]:
    """The nearest place outside minigrad, as (code, instruction): cheap to take, resolved by `where`."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(LIBRARY) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def where(source: tuple[CodeType, int]) -> str:
    """`file:line` of what `caller` took."""
    code, instruction = source
    line = next(itertools.islice(code.co_positions(), instruction // 2, None))[0]
    return f"{code.co_filename}:{line}"


# ---------------------------------------------------------------- versions


class Cell:
    """What a tensor and its views share: when their memory was last changed in place, and by what."""

    __slots__ = ("by", "memory", "stamp")

    def __init__(self) -> None:
        self.stamp = 0
        self.memory: Callable[[], Any] = lambda: None
        self.by = ""


class _Clock:
    time = 0  # the number of in-place operations so far


clock = _Clock()


def _root(array: Any) -> Any:
    """The array that owns the memory."""
    while array.base is not None and hasattr(array.base, "base"):
        array = array.base
    return array


def mutate(tensor: Tensor, name: str) -> None:
    """Announce that `name` is about to change `tensor` in place; refused where a graph is being recorded."""
    if tensor.requires_grad and grad_mode.enabled:
        raise GraphError(
            f"{name} would change a tensor of shape {tensor.shape} that requires a gradient, while recording.\n"
            f"Write it out of place (x = x + y), or wrap the change in `with mg.no_grad():`."
        )
    clock.time += 1
    cell = share_cell(tensor)
    cell.stamp, cell.memory = clock.time, weakref.ref(_root(tensor.data))
    cell.by = f"{name} at {where(caller())}"


def share_cell(tensor: Tensor) -> Cell:
    """The tensor's version cell, made on first need and shared with the edge that stands for the tensor."""
    if tensor.cell is None:
        tensor.cell = Cell()
        if tensor.node is not None:
            tensor.node.cell = tensor.cell
    return tensor.cell


def _holds(thing: Any, memory: Any) -> bool:
    """Whether a gradient function (its closure, to the bottom) refers to `memory`."""
    if isinstance(thing, FunctionType):
        return any(_holds(cell.cell_contents, memory) for cell in thing.__closure__ or ())
    if isinstance(thing, tuple | list):
        return any(_holds(item, memory) for item in thing)
    if isinstance(thing, dict):
        return any(_holds(item, memory) for item in thing.values())
    return hasattr(thing, "base") and _root(thing) is memory


def _check_versions(node: Node) -> None:
    for edge in (*node.edges, node):
        cell = getattr(edge, "cell", None)
        if cell is not None and cell.stamp > node.clock:
            memory = cell.memory()
            if memory is not None and _holds(node.gradients, memory):
                what = "output" if edge is node else f"input of shape {tuple(edge.shape)}"
                raise GraphError(
                    f"the gradient of {node.op.name} (recorded at {where(node.source)}) needs its {what}, which was "
                    f"changed since by {cell.by}.\nChange a copy (`x.clone()`), or change it after backward()."
                )


# ---------------------------------------------------------------- the walk


def _order(nodes: Iterable[Node]) -> list[Node]:
    """All nodes that `nodes` were computed from, and they, in the order of creation."""
    seen = set(nodes)
    stack = list(seen)
    while stack:
        for edge in stack.pop().edges:
            if type(edge) is Output:
                edge = edge.node
            if type(edge) is Node and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return sorted(seen, key=attrgetter("number"))


def _leading_to(order: list[Node], wanted: Iterable[Any]) -> list[Node]:
    """The nodes of `order` through which a wanted edge is reached."""
    reach: set[Any] = {edge.node if type(edge) is Output else edge for edge in wanted}
    needed = []
    for node in order:
        if any(
            (edge.node if type(edge) is Output else edge) in reach for edge in node.edges if _is_edge(edge)
        ):
            reach.add(node)
            needed.append(node)
        elif node in reach:
            needed.append(node)
    return needed


def _is_edge(thing: Any) -> bool:
    return type(thing) is Node or type(thing) is Output or getattr(thing, "requires_grad", False)


def _unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum `g` over the axes along which an operand of `shape` was expanded."""
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and g.shape[i + extra] != 1
    )
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, g.shape[extra:], strict=True)):
        raise ShapeError(
            f"a gradient of shape {tuple(g.shape)} was given for an input of shape {shape}.\nThis is a fault in the op's rule."
        )
    return g.sum(axis=axes, keepdims=True).reshape(shape) if axes else g.reshape(shape)


def _is_fresh(r: Any, upstream: Any) -> bool:
    """Whether an array that a rule made from `upstream` is the engine's own, to add into."""
    if r is upstream or not r.ndim:
        return False
    return r.base is None or (r.flags.writeable and _root(r) is not _root(upstream))


class _Pending:
    """Gradients on their way: edge -> the sum of what has arrived so far."""

    def __init__(self, raw: bool) -> None:
        self.sums: dict[Any, Any] = {}
        self.owned: set[Any] = (
            set()
        )  # edges whose array was made here or by a rule, so that nobody else sees it
        self.raw = raw

    def add(self, edge: Any, r: Any, upstream: Any) -> None:
        """Add gradient `r`, made by a rule from `upstream`: a fresh array, or `upstream` or a view of it."""
        if r.shape != edge.shape:
            r = _unbroadcast(r, edge.shape)
        sums = self.sums
        if edge not in sums:
            sums[edge] = r
            if self.raw and _is_fresh(r, upstream):
                self.owned.add(edge)
        elif edge in self.owned:
            total = sums[edge]
            total += r
        else:
            sums[edge] = sums[edge] + r
            if self.raw and r.ndim:
                self.owned.add(edge)

    def take(self, node: Node) -> Any:
        """The gradient of the node's output (a list where it has several), removed; None if none arrived."""
        if type(node.shape) is not list:
            return self.sums.pop(node, None)
        parts: list[Any] = [None] * len(node.shape)
        for edge in [e for e in self.sums if type(e) is Output and e.node is node]:
            parts[edge.index] = run_hooks(edge, self.sums.pop(edge))
        return parts if any(part is not None for part in parts) else None


def run_hooks(edge: Any, g: Any) -> Any:
    """Show `g` to the edge's hooks; one that returns something replaces it."""
    if edge.hooks:
        from .tensor import Tensor

        for hook in list(edge.hooks.values()):
            raw = not isinstance(g, Tensor)
            with no_grad() if raw else enable_grad():
                result = hook(Tensor(g) if raw else g)
            if result is not None:
                g = result.data if raw and isinstance(result, Tensor) else result
    return g


def propagate(
    seeds: list[tuple[Any, Any]],
    wanted: Iterable[Any] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> tuple[dict[Any, Any], set[Any]]:
    """Walk back from `seeds` (edge, gradient): the whole of reverse mode.

    Gives the gradients of all leaves reached, or of the `wanted` edges, and which of their arrays nobody else
    refers to. With `create_graph` gradients are Tensors, made by replaying each rule on Tensors.
    """
    pending = _Pending(raw=not create_graph)
    for edge, g in seeds:
        pending.add(edge, g, upstream=g)
    order = _order([e.node if type(e) is Output else e for e, _ in seeds if type(e) in (Node, Output)])
    chosen: set[Any] = set()
    results: dict[Any, Any] = {}
    if wanted is not None:
        chosen = set(wanted)
        order = _leading_to(order, chosen)
    rebuilt: dict[Any, Tensor] = {}
    while order:
        node = order.pop()
        if chosen:
            for edge in [e for e in pending.sums if type(e) is Output and e.node is node and e in chosen]:
                results[edge] = pending.sums[edge]
        g = pending.take(node)
        if g is None:
            continue
        if node.hooks:
            g = run_hooks(node, g)
        if node in chosen:
            results[node] = g
        if node.gradients is None:
            raise GraphError(
                f"backward came a second time to {node.op.name} (recorded at {where(node.source)}), which was freed the "
                f"first time.\nPass retain_graph=True to the first backward(), or compute the loss anew."
            )
        if node.clock != clock.time:
            _check_versions(node)
        if create_graph:
            for edge, r in replay(node, g, rebuilt):
                pending.add(edge, r, upstream=g)
        elif type(node.gradients) is tuple:
            for edge, gradient in zip(node.edges, node.gradients, strict=True):
                if gradient is not None:
                    pending.add(edge, gradient(g), g)
        else:
            for edge, r, needed in zip(node.edges, node.gradients(g, node.needs), node.needs, strict=True):
                if needed and r is not None:
                    pending.add(edge, r, r if type(g) is list else g)
        if not retain_graph:
            node.gradients = None
            node.edges = []
    for edge, g in pending.sums.items():
        if type(edge) not in (Node, Output) and (wanted is None or edge in chosen):
            results[edge] = run_hooks(edge, g)
            if results[edge] is not g:
                pending.owned.discard(edge)
    return results, pending.owned


# ---------------------------------------------------------------- higher order


def replay(node: Node, g: Any, rebuilt: dict[Any, Tensor]) -> Iterator[tuple[Any, Tensor]]:
    """The inputs' gradients as Tensors with graphs of their own: the rule, run again on Tensors."""
    inputs = [_tensor_of(edge, rebuilt) for edge in node.edges]
    with enable_grad():
        gradients = node.op.pull_tensors(inputs, node.settings, node.needs, g)
    for edge, r, needed in zip(node.edges, gradients, node.needs, strict=True):
        if needed and r is not None:
            yield edge, r


def _alive(edge: Any) -> Any:
    """The tensor (or constant) that an edge stands for, or None where it has been let go."""
    if type(edge) is Node:
        return edge.output()
    if type(edge) is Output:
        return edge.node.output[edge.index]()
    return edge


def _tensor_of(edge: Any, rebuilt: dict[Any, Tensor]) -> Any:
    """The edge's tensor, recomputed from what is still alive where it is not."""
    if edge is None:
        return None
    stack = [edge]
    while stack:
        top = stack[-1]
        if top in rebuilt or _alive(top) is not None:
            stack.pop()
            continue
        node = top.node if type(top) is Output else top
        if node.gradients is None:
            raise GraphError(
                f"{node.op.name} (recorded at {where(node.source)}) was freed.\nPass retain_graph=True."
            )
        missing = [e for e in node.edges if _is_edge(e) and e not in rebuilt and _alive(e) is None]
        if missing:
            stack.extend(missing)
            continue
        for e in node.edges:
            cell = getattr(e, "cell", None)
            if cell is not None and cell.stamp > node.clock:
                raise GraphError(
                    f"{node.op.name} (recorded at {where(node.source)}) must be computed again, but its input was changed "
                    f"since by {cell.by}.\nKeep its result in a variable, or change the input after backward()."
                )
        inputs = [rebuilt[e] if _is_edge(e) and e in rebuilt else _alive(e) for e in node.edges]
        rebuilt[top] = node.op.rebuild(inputs, node.settings, top)
        stack.pop()
    return rebuilt[edge] if _is_edge(edge) and edge in rebuilt else _alive(edge)


# ---------------------------------------------------------------- what users call


def _seed(tensor: Tensor, gradient: Any) -> tuple[Any, Any]:
    """(edge, gradient) to begin from; a scalar's gradient is 1."""
    if not tensor.requires_grad:
        raise GraphError(
            f"a tensor of shape {tensor.shape} has no gradient to begin from: nothing it came from requires one.\n"
            f"Set requires_grad=True on a leaf before computing, and do not compute under no_grad()."
        )
    if gradient is None:
        if tensor.data.size != 1:
            raise GraphError(
                f"backward() of a tensor of shape {tensor.shape}: only one number has a gradient without being told.\n"
                f"Reduce it (`.sum()`, `.mean()`), or pass gradient= of that shape."
            )
        gradient = np.ones_like(tensor.data)
    return tensor.node if tensor.node is not None else tensor, gradient


def _matching(tensor: Tensor, gradient: Any, create_graph: bool) -> Any:
    """A user's gradient, checked, as an array (a Tensor with create_graph)."""
    from .tensor import Tensor, as_tensor

    if gradient is not None:
        gradient = as_tensor(gradient, dtype=tensor.dtype)
        if gradient.shape != tensor.shape:
            raise ShapeError(
                f"gradient has shape {gradient.shape}, the tensor {tensor.shape}.\nPass one of the tensor's shape."
            )
        if not create_graph:
            gradient = gradient.data
    edge, g = _seed(tensor, gradient)
    return edge, (Tensor(g) if create_graph and not isinstance(g, Tensor) else g)


def backward(
    tensor: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """Add d tensor / d leaf to `.grad` of every leaf that requires it (torch.Tensor.backward)."""
    retain = create_graph if retain_graph is None else retain_graph
    seed = _matching(tensor, gradient, create_graph)
    gradients, owned = propagate([seed], retain_graph=retain, create_graph=create_graph)
    for leaf, g in gradients.items():
        leaf.accumulate_grad(g, owned=leaf in owned)


def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """d sum(outputs * grad_outputs) / d inputs, leaving every `.grad` alone (torch.autograd.grad).

    `inputs` may be intermediate tensors. Raises GraphError where an input was not used, unless `allow_unused`.
    """
    from .tensor import Tensor

    outs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    ins = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = [grad_outputs] if grad_outputs is None or isinstance(grad_outputs, Tensor) else list(grad_outputs)
    if grad_outputs is None:
        given = [None] * len(outs)
    retain = create_graph if retain_graph is None else retain_graph
    seeds = [_matching(out, g, create_graph) for out, g in zip(outs, given, strict=True)]
    for x in ins:
        if not x.requires_grad:
            raise GraphError(
                f"an input of shape {x.shape} does not require a gradient.\nSet requires_grad=True before use."
            )
    edges = [x.node if x.node is not None else x for x in ins]
    found, owned = propagate(seeds, edges, retain, create_graph)
    results: list[Tensor | None] = []
    for x, edge in zip(ins, edges, strict=True):
        g = found.get(edge)
        if g is None and not allow_unused:
            raise GraphError(
                f"an input of shape {x.shape} was not used to compute the outputs.\nPass allow_unused=True to get None for it."
            )
        results.append(g if g is None or isinstance(g, Tensor) else Tensor(g if edge in owned else g.copy()))
    return tuple(results)
