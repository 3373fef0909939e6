"""What users call: backward() and grad()."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..devices import array_module
from ..errors import DeviceError, DtypeError, GraphError, OptionError, ShapeError
from .anomaly import watch
from .modes import backward_scope, set_grad_enabled
from .walk import propagate

if TYPE_CHECKING:
    from ..tensor import Tensor


def backward(
    tensor: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """Add d tensor / d leaf to `.grad` of every leaf that requires it (torch.Tensor.backward)."""
    retain = create_graph if retain_graph is None else retain_graph
    seed = _matching(tensor, gradient, create_graph)
    with set_grad_enabled(create_graph), backward_scope():
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

    `inputs` may be intermediate tensors. One that was not used is a GraphError, or None with `allow_unused`.
    """
    from ..tensor import Tensor

    outs, ins = _tensors(outputs, "outputs"), _tensors(inputs, "inputs")
    given = list(grad_outputs) if isinstance(grad_outputs, list | tuple) else [grad_outputs] * len(outs)
    if len(given) != len(outs) or (hasattr(grad_outputs, "shape") and len(outs) > 1):
        raise OptionError(f"{len(outs)} outputs need as many grad_outputs.\nPass a list, or None.")
    for x in ins:
        if not x.requires_grad:
            raise GraphError(
                f"an input of shape {x.shape} does not require a gradient.\n"
                f"Set requires_grad=True before it is used."
            )
    retain = create_graph if retain_graph is None else retain_graph
    seeds = [_matching(out, g, create_graph) for out, g in zip(outs, given, strict=True)]
    edges = [x.node if x.node is not None else x for x in ins]
    with set_grad_enabled(create_graph), backward_scope():
        found, owned = propagate(seeds, edges, retain, create_graph)
    results: list[Tensor | None] = []
    for x, edge in zip(ins, edges, strict=True):
        g = found.get(edge)
        if g is None and not allow_unused:
            raise GraphError(
                f"an input of shape {x.shape} was not used to compute the outputs.\n"
                f"Pass allow_unused=True to get None for it."
            )
        if not (g is None or isinstance(g, Tensor)):
            g = Tensor(g if edge in owned else g.copy())
            owned.discard(edge)
        results.append(g)
    return tuple(results)


def _tensors(given: Tensor | Iterable[Tensor], what: str) -> list[Tensor]:
    """One tensor or several as a list."""
    from ..tensor import Tensor

    found = [given] if isinstance(given, Tensor) or not isinstance(given, Iterable) else list(given)
    for x in found:
        if not isinstance(x, Tensor):
            raise DtypeError(f"{what} are tensors, got {type(x).__name__}.\nGive one, or a list of them.")
    return found


def _matching(tensor: Tensor, gradient: Any, create_graph: bool) -> Any:
    """(edge, gradient) to begin from, checked: a user's gradient as an array (a Tensor with create_graph)."""
    from ..tensor import Tensor, given

    if gradient is not None:
        gradient = given(gradient, tensor).to(tensor.dtype)
        if gradient.shape != tensor.shape:
            raise ShapeError(
                f"the gradient has shape {gradient.shape}, the tensor {tensor.shape}.\n"
                f"Pass one of the tensor's shape."
            )
        if gradient.device != tensor.device:
            raise DeviceError(
                f"the gradient is on {gradient.device}, the tensor on {tensor.device}.\n"
                f"Move the gradient: .to({tensor.device!r})."
            )
        if not create_graph:
            gradient = gradient.array
    edge, g = _seed(tensor, gradient)
    if watch.on:
        watch.check_start(tensor, g)
    return edge, (Tensor(g) if create_graph and not isinstance(g, Tensor) else g)


def _seed(tensor: Tensor, gradient: Any) -> tuple[Any, Any]:
    """(edge, gradient) to begin from; a scalar's gradient is 1."""
    if not tensor.requires_grad:
        raise GraphError(
            f"a tensor of shape {tensor.shape} has no gradient: nothing that it came from requires one.\n"
            f"Set requires_grad=True on a leaf before computing, and do not compute under no_grad()."
        )
    if gradient is None:
        if tensor.array.size != 1:
            raise GraphError(
                f"backward() of a tensor of shape {tensor.shape}, which is not one number.\n"
                f"Reduce it (`.sum()`, `.mean()`), or pass gradient= of that shape."
            )
        gradient = array_module(tensor.array).ones(tensor.shape, tensor.dtype)
    return tensor.node if tensor.node is not None else tensor, gradient
