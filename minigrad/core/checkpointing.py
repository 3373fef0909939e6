"""Activation checkpointing: backward() recomputes what a function would otherwise save for it.

Chen, Xu, Zhang and Guestrin 2016, "Training Deep Nets with Sublinear Memory Cost".
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from . import random
from .backward import Node, node_numbers, producer, requires_grad, set_tensor, tensor_of
from .errors import GraphError
from .grad import propagate_to
from .higher_order import Recorded
from .modes import Switch, enable_grad, modes
from .tensor import Tensor, same_memory, snapshot
from .trees import fill, leaves, map_leaves, structure


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return function(*args, **kwargs) without saving its graph: backward() runs it again, with equal draws.

    The gradients of arguments, module parameters and closed-over tensors are the same as without a
    checkpoint. The result may be a tensor, or nested dicts, lists and tuples of tensors; checkpoints may be
    nested, and differentiated to any order. `function` runs twice, so its side effects (counting, printing)
    happen twice, and it must not read state that changes in between, such as a closed-over variable or a
    module's `training`.
    (torch.utils.checkpoint with use_reentrant=False)

    >>> block = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 4))
    >>> x = mg.ones(2, 4)
    >>> mg.autograd.checkpoint(block, x).sum().backward()
    >>> block[0].weight.grad.shape
    (16, 4)
    """
    if not modes.grad_enabled:
        return function(*args, **kwargs)
    segment = _Segment(function, args, kwargs)
    with random.noted_generators(segment.generators):
        first, results = segment.run(args, kwargs)
    flat = leaves(results)
    inside = [i for i, x in enumerate(flat) if isinstance(x, Tensor) and _is_inside(x, first)]
    if not inside:
        return results
    outside = edges_outside([flat[i].node for i in inside], first)
    constants = [x for x in leaves((args, kwargs)) if isinstance(x, Tensor) and not x.requires_grad]
    segment.remember(results, inside, outside)

    edges = [*outside, *constants]
    needs = [True] * len(outside) + [False] * len(constants)
    saved = [x.array for x in map(tensor_of, edges) if x is not None]
    gradients = partial(_pull, segment, saved)
    outs = tuple(same_memory(flat[i]) for i in inside)
    Node(Checkpoint(segment), {}, edges, needs, gradients, outs if len(outs) > 1 else outs[0])
    for i, result in zip(inside, outs, strict=True):
        flat[i] = result
    return fill(results, flat)


def _with_snapshots(argument: Any) -> Any:
    """An argument with its tensors replaced by snapshots, which later in-place operations do not change."""
    can_change = lambda x: isinstance(x, Tensor) and not (x.requires_grad and x.is_leaf)
    if not any(map(can_change, leaves(argument))):
        return argument
    return map_leaves(lambda x: snapshot(x) if can_change(x) else x, argument)


def _is_inside(x: Tensor, first: int) -> bool:
    return x.node is not None and producer(x.node).number > first


def edges_outside(edges: Iterable[Any], first: int) -> list[Any]:
    """The leaves and earlier nodes to which gradients leave the graph made since node number `first`."""
    stack = [producer(edge) for edge in edges]
    seen = set(stack)
    found: dict[Any, None] = {}
    while stack:
        for edge in stack.pop().edges:
            node = producer(edge)
            if type(node) is not Node or node.number <= first:
                if requires_grad(edge):
                    found[edge] = None
            elif node not in seen:
                seen.add(node)
                stack.append(node)
    return list(found)


class _Segment:
    """A call that can be run again; only the gradient functions of its node refer to it."""

    def __init__(self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
        self.function = function
        self.args = tuple(map(_with_snapshots, args))
        self.kwargs = {name: _with_snapshots(x) for name, x in kwargs.items()}
        self.draws, self.autocast = random.snapshot(), modes.autocast_dtype
        self.generators: dict[random.Generator, random.Snapshot] = {}

    def run(self, args: tuple, kwargs: dict[str, Any]) -> tuple[int, Any]:
        """Call the function. Return a number smaller than those of its nodes, and its results."""
        first = next(node_numbers)
        given = [(x, x.array) for x in leaves((args, kwargs)) if isinstance(x, Tensor)]
        results = self.function(*args, **kwargs)
        for x, array in given:
            if x.array is not array:
                raise GraphError(
                    f"the function of a checkpoint changed an argument of shape {array.shape} in place, "
                    f"which would happen twice.\nLet it change a copy, x.clone()."
                )
        return first, results

    def remember(self, results: Any, inside: list[int], outside: list[Any]) -> None:
        """Note the structure, dtypes and shapes that the second run has to reproduce."""
        self.structure = structure(results)
        self.inside = inside
        self.outside = outside
        flat = leaves(results)
        self.kinds = [_kind(flat[i]) for i in inside]

    def recompute(self) -> list[Tensor]:
        """Recompute the results that carry gradients, with the same draws and autocast, and check them."""
        for x in leaves((self.args, self.kwargs)):
            if isinstance(x, Tensor) and x.node is not None and tensor_of(x.node) is None:
                set_tensor(x.node, x)  # the user's tensor no longer exists
        generators = random.generators_replayed(self.generators)
        autocast = Switch(modes, "autocast_dtype", self.autocast)
        with enable_grad(), autocast, random.replayed(self.draws), generators:
            first, results = self.run(self.args, self.kwargs)
        flat = leaves(results)
        kinds = [_kind(flat[i]) for i in self.inside] if structure(results) == self.structure else None
        if kinds != self.kinds:
            given = structure(results) if kinds is None else ", ".join(kinds)
            expected = self.structure if kinds is None else ", ".join(self.kinds)
            raise GraphError(
                f"checkpoint ran {_name(self.function)} again and got {given}, not {expected} as before.\n"
                f"It must compute the same both times: look for state that changed in between."
            )
        outs = [flat[i] for i in self.inside]
        found = edges_outside([x.node for x in outs if _is_inside(x, first)], first)
        for edge in set(found) - set(self.outside):
            if type(producer(edge)) is Node:
                raise GraphError(
                    f"checkpoint ran {_name(self.function)} again, and it used the result of "
                    f"{producer(edge)}, which it did not use the first time.\n"
                    f"A closure sees a variable's latest value: pass tensors as arguments."
                )
        return outs

    def pull(self, g: Any, needs: Sequence[bool], create_graph: bool = False) -> list[Any]:
        """The gradients of the node's edges, computed on a recomputed graph."""
        wanted = [edge for edge, needed in zip(self.outside, needs, strict=False) if needed]
        given = g if type(g) is list else [g]
        seeds = [(x.node, part) for x, part in zip(self.recompute(), given, strict=True) if part is not None]
        found, sums = propagate_to(wanted, seeds, create_graph, create_graph, ends=self.outside)
        if not create_graph:  # the caller may add to these arrays in place
            found = {edge: r if edge in sums.owned else r.copy() for edge, r in found.items()}
        return [found.get(edge) for edge in self.outside] + [None] * (len(needs) - len(self.outside))


def _kind(x: Any) -> str:
    carries = "" if getattr(x, "node", None) is not None else " without a graph"
    return f"{x.dtype}{list(x.shape)}{carries}" if hasattr(x, "dtype") else type(x).__name__


def _name(function: Callable) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _pull(segment: _Segment, saved: list[Any], g: Any, needs: Sequence[bool]) -> list[Any]:
    """The gradient function of a checkpoint's node; it holds `saved` so that changing them is an error."""
    return segment.pull(g, needs)


class Checkpoint(Recorded):
    """The `op` of a checkpoint's node."""

    name = public_name = family = "checkpoint"
    runs_user_code = True
    advice = "Call the function without checkpoint to see which operation inside it is meant."
    gradient_advice = advice

    def __init__(self, segment: _Segment) -> None:
        self.segment = weakref.ref(segment)

    def _segment(self) -> _Segment:
        segment = self.segment()
        assert segment is not None  # a freed node raises an error before this is called
        return segment

    def pull_tensors(self, inputs: list[Any], settings: dict, needs: Sequence[bool], g: Any) -> list[Any]:
        """The gradients as differentiable Tensors: the recomputed graph is kept."""
        return self._segment().pull(g, needs, create_graph=True)

    def rebuild(self, arrays: list[Any], settings: dict) -> Any:
        results = tuple([x.array for x in self._segment().recompute()])
        return results if len(results) > 1 else results[0]
