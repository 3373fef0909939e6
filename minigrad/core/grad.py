"""grad(): the gradients of given inputs, by a backward pass restricted to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .backward import (
    GradientSums,
    Node,
    Pull,
    ResultEdge,
    Seeds,
    backward_modes,
    nodes_behind,
    producer,
    pull_of,
    raise_freed,
    requires_grad,
    seed_of,
    walk_back,
)
from .errors import DtypeError, GraphError, OptionError
from .tensor import Tensor, constant


def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,  # has no effect, as in PyTorch
    allow_unused: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of sum(outputs * grad_outputs) for `inputs`, without changing any `.grad`.

    `inputs` may be leaves or intermediate results. An input that `outputs` do not depend on raises an error;
    with `allow_unused` its gradient is None, with `materialize_grads` zeros (torch.autograd.grad).

    >>> x = mg.tensor([1.0, 2.0], requires_grad=True)
    >>> mg.autograd.grad((x**3).sum(), x)
    (tensor([ 3., 12.]),)
    """
    outs, ins = _tensors(outputs, "outputs"), _tensors(inputs, "inputs")
    starts = list(grad_outputs) if isinstance(grad_outputs, list | tuple) else [grad_outputs] * len(outs)
    if len(starts) != len(outs) or (hasattr(grad_outputs, "shape") and len(outs) > 1):
        raise OptionError(f"{len(outs)} outputs need the same number of grad_outputs.\nPass a list, or None.")
    for x in ins:
        if not x.requires_grad:
            raise GraphError(
                f"an input of shape {x.shape} does not require a gradient.\n"
                f"Set requires_grad=True before it is used."
            )
    seeds = [seed_of(out, g, create_graph) for out, g in zip(outs, starts, strict=True)]
    edges = [x.node if x.node is not None else x for x in ins]
    retain = create_graph if retain_graph is None else retain_graph
    with backward_modes(create_graph):
        found, sums = propagate_to(edges, seeds, retain, create_graph)
    unused = {edge: x for x, edge in zip(ins, edges, strict=True) if edge not in found}
    if unused and not allow_unused and not materialize_grads:
        raise GraphError(
            f"inputs of shapes {[x.shape for x in unused.values()]} were not used.\nPass allow_unused=True."
        )
    zeros = {edge: constant(np.zeros(x.shape, x.dtype), x) for edge, x in unused.items() if materialize_grads}
    return tuple(sums.as_tensor(e, found[e]) if e in found else zeros.get(e) for e in edges)


def propagate_to(
    wanted: Iterable[Any],
    seeds: Seeds,
    retain_graph: bool = False,
    create_graph: bool = False,
    ends: Iterable[Any] = (),
) -> tuple[dict[Any, Any], GradientSums]:
    """Carry gradients back from the seeds to the `wanted` edges only. Return theirs by edge, and all sums.

    The backward pass stops at `ends`, whose hooks run in the backward pass that continues from there.
    """
    sums = GradientSums(seeds, create_graph)
    order = nodes_behind(sums.totals, ends)
    targets = _Targets(order, set(wanted))
    pull = targets.keeping(pull_of(create_graph))
    walk_back(sums, pull, retain_graph, targets.leading)
    targets.finish(sums, run_hooks=not ends)
    return targets.found, sums


class _Targets:
    """The edges whose gradients are wanted, the nodes that lead to them, and the gradients found."""

    def __init__(self, order: list[Node], wanted: set[Any]) -> None:
        self.wanted = wanted
        self.found = dict[Any, Any]()
        self.reach = {producer(edge) for edge in wanted}  # the wanted edges, and the nodes that lead to them
        self.leading: set[Node] = set()
        self.freed = next((node for node in order if node.gradients is None), None)
        for node in order:
            if any(producer(edge) in self.reach for edge in node.edges if requires_grad(edge)):
                self.reach.add(node)
                self.leading.add(node)

    def keeping(self, pull: Pull) -> Pull:
        """Wrap `pull` to keep wanted gradients, and to compute only those on the way to wanted edges."""

        def keep_and_pull(node: Node, g: Any, needs: Sequence[bool]) -> Sequence[Any]:
            self._keep(node, g)
            return pull(
                node, g, [n and producer(e) in self.reach for e, n in zip(node.edges, needs, strict=True)]
            )

        return keep_and_pull

    def _keep(self, node: Node, g: Any) -> None:
        if type(g) is list:
            self.found |= {e: g[e.index] for e in self.wanted if type(e) is ResultEdge and e.node is node}
        elif node in self.wanted:
            self.found[node] = g

    def finish(self, sums: GradientSums, run_hooks: bool) -> None:
        """Keep the gradients of the wanted edges at which the backward pass ended."""
        if run_hooks:
            ended = {producer(e) for e in sums.totals if e in self.wanted and isinstance(producer(e), Node)}
            self.found |= dict(sums.leaf_gradients(self.wanted))
            for node in ended:
                self._keep(node, sums.take(node))
        else:
            self.found |= {edge: g for edge, g in sums.totals.items() if edge in self.wanted}
        self.found = {edge: g for edge, g in self.found.items() if g is not None}
        if self.freed is not None and not self.wanted <= self.found.keys():
            raise_freed(self.freed)


def _tensors(tensors: Tensor | Iterable[Tensor], what: str) -> list[Tensor]:
    """One tensor or several as a list."""
    found = [tensors] if isinstance(tensors, Tensor) or not isinstance(tensors, Iterable) else list(tensors)
    for x in found:
        if not isinstance(x, Tensor):
            raise DtypeError(f"{what} must be tensors, got {type(x).__name__}.\nPass one, or a list of them.")
    return found
