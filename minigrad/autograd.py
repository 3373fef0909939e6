"""Functions that compute gradients, with the names of torch.autograd.

`core/backward.py` defines the nodes that are recorded, and the backward pass over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .core import observers
from .core.backward import backward_modes, leaves_only, propagate, seed_of
from .core.checkpointing import checkpoint
from .core.errors import OptionError
from .core.grad import grad
from .core.hooks import Handle, register_hook, retain_grad
from .core.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .core.tensor import Tensor, as_tensor
from .ops.checked import check_all

__all__ = [
    "Handle", "Variable", "backward", "checkpoint", "enable_grad", "grad", "is_grad_enabled", "no_grad",
    "observers", "register_hook", "retain_grad", "set_grad_enabled",
]  # fmt: skip


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of several tensors to `.grad` of leaves, as x.backward() does for one.

    `grad_tensors` has an upstream gradient for each tensor; scalars need none. If `inputs` is given, only
    these leaves get gradients.
    """
    outs = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    several = isinstance(grad_tensors, list | tuple)
    starts = list(grad_tensors) if several else [grad_tensors] * len(outs)
    if len(starts) != len(outs) or (grad_tensors is not None and not several and len(outs) > 1):
        raise OptionError(f"{len(outs)} tensors need {len(outs)} grad_tensors.\nPass a list, or None.")
    retain = create_graph if retain_graph is None else retain_graph
    wanted = None if inputs is None else leaves_only(inputs)
    seeds = [seed_of(out, g, create_graph) for out, g in zip(outs, starts, strict=True)]
    with backward_modes(create_graph):
        propagate(seeds, retain, create_graph).accumulate(wanted)


def Variable(data: Any, requires_grad: bool = False) -> Tensor:
    """Return a leaf that shares the memory of `data`. Prefer mg.tensor(data, requires_grad=True)."""
    return as_tensor(data).detach().requires_grad_(requires_grad)


check_all(globals(), ["backward", "checkpoint", "grad"])
