"""Hooks: user functions that see a gradient when it is complete, and may replace it."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from .errors import DtypeError, GraphError, ShapeError
from .modes import enable_grad, no_grad
from .tensor import RETAINS_GRAD, Tensor, as_tensor

hook_numbers = itertools.count()  # hooks run in the order of registration


class Handle:
    """The handle of a registered hook: `handle.remove()`, or calling the handle, removes the hook.

    In a `with` statement, the hook is removed at the end of the block.
    """

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self.hooks = hooks
        self.key = next(hook_numbers)
        hooks[self.key] = hook

    def remove(self) -> None:
        self.hooks.pop(self.key, None)

    __call__ = remove

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def check_hook(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise DtypeError(f"a hook must be callable, got {type(function).__name__}.\nPass a function.")
    return function


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Handle:
    """Call `hook(gradient)` when this tensor's gradient is complete; a returned tensor replaces the gradient.

    Call `remove()` on the returned handle to remove the hook.

    >>> x = mg.tensor([1.0], requires_grad=True)
    >>> handle = x.register_hook(lambda g: 10 * g)
    >>> (2 * x).backward()
    >>> x.grad
    tensor([20.])
    """
    return Handle(_hooks_of(tensor, "a hook"), check_hook(hook))


def retain_grad(tensor: Tensor) -> None:
    """Let backward() leave `.grad` on this tensor even if it is not a leaf."""
    hooks = _hooks_of(tensor, "retain_grad()")
    if tensor.node is None:
        return
    reference = weakref.ref(tensor)

    def keep(g: Tensor) -> None:
        tensor = reference()
        if tensor is not None:
            grad = g.clone()
            tensor._grad = grad if tensor._grad is None else tensor._grad + grad

    hooks[RETAINS_GRAD] = keep


def _hooks_of(tensor: Tensor, what: str) -> dict[int, Callable]:
    if not tensor.requires_grad:
        raise GraphError(
            f"{what} needs a gradient, and this tensor of shape {tensor.shape} does not require one.\n"
            f"Set requires_grad=True on it, or on a leaf before computing it."
        )
    edge = tensor if tensor.node is None else tensor.node
    if edge.hooks is None:
        edge.hooks = {}
    return edge.hooks


def run_hooks(edge: Any, g: Any, keep_grad: bool = True) -> Any:
    """Run an edge's hooks on its gradient `g`, and return it; `keep_grad=False` skips retain_grad's hook."""
    for key, hook in sorted((edge.hooks or {}).items()):
        if key == RETAINS_GRAD and not keep_grad:
            continue
        is_array = not isinstance(g, Tensor)
        with no_grad() if is_array else enable_grad():
            result = hook(Tensor(g) if is_array else g)
            result = None if result is None else as_tensor(result).to(g.dtype)
        if result is not None:
            if result.shape != g.shape:
                raise ShapeError(
                    f"a hook returned shape {result.shape} for a gradient of shape {tuple(g.shape)}.\n"
                    f"Return a gradient of the same shape, or None to leave it unchanged."
                )
            g = result.array if is_array else result
    return g
