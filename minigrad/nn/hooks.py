"""Forward and backward hooks of modules, as in torch.nn.Module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import DtypeError, ShapeError
from ..core.hooks import Handle
from ..core.tensor import Tensor
from ..ops.creation import zeros_like
from .boundaries import Gradients, boundary

if TYPE_CHECKING:
    from .module import Module


class Hook(NamedTuple):
    """A hook function; `flag` is with_kwargs for forward hooks, "runs before backward" for backward hooks."""

    function: Callable[..., Any]
    flag: bool
    always: bool = False  # a forward hook that also runs if forward raises an error


def add_hook(
    hooks: dict[int, Hook], function: Callable[..., Any], flag: bool, prepend: bool, always: bool = False
) -> Handle:
    """Add a hook after the others, or before them with `prepend`; the handle's `remove()` removes it."""
    if not callable(function):
        raise DtypeError(f"a hook must be callable, got {type(function).__name__}.\nPass a function.")
    handle = Handle(hooks, Hook(function, flag, always))
    for key in list(hooks)[:-1] if prepend else ():
        hooks[key] = hooks.pop(key)
    return handle


def before_forward(module: Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Run the forward pre-hooks, and return the arguments for forward."""
    for hook, with_kwargs, _ in tuple(module._forward_pre_hooks.values()):
        if not with_kwargs:
            replaced = hook(module, args)
            args = args if replaced is None else replaced if isinstance(replaced, tuple) else (replaced,)
        elif (both := hook(module, args, kwargs)) is not None:
            if not (isinstance(both, tuple) and len(both) == 2):
                raise DtypeError(
                    f"a forward pre-hook with kwargs must return None or a pair, got {type(both).__name__}.\n"
                    f"Return None, or the new (args, kwargs)."
                )
            args, kwargs = both
    return args, kwargs


def after_forward(
    module: Module, args: tuple, kwargs: dict[str, Any], output: Any, failed: bool = False
) -> Any:
    """Run the forward hooks, or those with `always_call` if forward failed, and return the output."""
    for hook, with_kwargs, always in tuple(module._forward_hooks.values()):
        if failed and not always:
            continue
        replaced = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
        output = output if replaced is None else replaced
    return output


class BackwardHooks:
    """The backward hooks of one module call, run at boundaries around its inputs and its outputs.

    Backward reaches the outputs' boundary first and the inputs' boundary last.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.before = [hook for hook, is_before, _ in module._backward_hooks.values() if is_before]
        self.after = [hook for hook, is_before, _ in module._backward_hooks.values() if not is_before]
        self.grad_output: tuple | None = None  # while backward is between the two boundaries

    def around_inputs(self, args: tuple) -> tuple:
        self.inputs = args
        return _pass_boundary(args, self._at_inputs) if self.after else args

    def around_outputs(self, output: Any) -> Any:
        """Pass an output, a tensor or a tuple, through the boundary at which the hooks see its gradient."""
        outputs = output if isinstance(output, tuple) else (output,)
        outputs = _pass_boundary(outputs, self._before_backward)
        return outputs if isinstance(output, tuple) else outputs[0]

    def _before_backward(self, grad_output: tuple) -> tuple:
        for hook in self.before:
            grad_output = _returned_gradients(grad_output, hook(self.module, grad_output), "grad_output")
        self.grad_output = grad_output
        if not any(map(_needs_grad, self.inputs)):  # their boundary will not be reached
            self._after_backward((None,) * len(self.inputs))
        return grad_output

    def _at_inputs(self, grad_input: tuple) -> tuple:
        """Run the hooks; as in PyTorch, they see zeros for a tensor that got no gradient."""
        pairs = zip(self.inputs, grad_input, strict=True)
        is_idle = lambda x, g: g is None and isinstance(x, Tensor)
        return self._after_backward(tuple(zeros_like(x) if is_idle(x, g) else g for x, g in pairs))

    def _after_backward(self, grad_input: tuple) -> tuple:
        grad_output = self.grad_output
        self.grad_output = None
        if grad_output is not None:  # a second derivative may reach the inputs without the outputs
            for hook in self.after:
                replaced = hook(self.module, grad_input, grad_output)
                grad_input = _returned_gradients(grad_input, replaced, "grad_input")
        return grad_input


def _needs_grad(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _pass_boundary(values: tuple, pull: Callable[[tuple], tuple]) -> tuple:
    """Pass the values that require a gradient through one boundary.

    `pull` gets a tuple with a gradient, or None, for each value.
    """
    places = [i for i, x in enumerate(values) if _needs_grad(x)]

    def pull_all(gradients: Gradients) -> Gradients:
        at = dict(zip(places, gradients, strict=True))
        pulled = pull(tuple(at.get(i) for i in range(len(values))))
        return [pulled[i] for i in places]

    if not places:
        return values
    passed = dict(zip(places, boundary([values[i] for i in places], pull_all), strict=True))
    return tuple(passed.get(i, x) for i, x in enumerate(values))


def _returned_gradients(gradients: tuple, replaced: Any, name: str) -> tuple:
    """Check the gradients that a backward hook returned; for None, return the ones that it got."""
    if replaced is None:
        return gradients
    replaced = replaced if isinstance(replaced, tuple) else (replaced,)
    expected = [None if g is None else g.shape for g in gradients]
    found = [None if g is None else g.shape for g in replaced]
    differs = any(a is not None and a != b for a, b in zip(expected, found, strict=False))
    if differs or len(expected) != len(found):
        raise ShapeError(
            f"a backward hook returned gradients of shapes {found} for a {name} of shapes {expected}.\n"
            f"Return a tuple of gradients of the same shapes, or None to leave them unchanged."
        )
    return replaced
