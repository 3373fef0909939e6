"""What runs around a module's forward and backward: hooks, as torch.nn.Module has them."""

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
    """A user's function, and whether it also gets forward's keyword arguments (or comes before backward)."""

    function: Callable[..., Any]
    flag: bool


def add_hook(hooks: dict[int, Hook], function: Callable[..., Any], flag: bool, prepend: bool) -> Handle:
    """Add a hook after the others, or before them; `remove()` of the handle takes it out."""
    if not callable(function):
        raise DtypeError(f"a hook is a function, got {type(function).__name__}.\nPass a function.")
    handle = Handle(hooks, Hook(function, flag))
    for key in list(hooks)[:-1] if prepend else ():
        hooks[key] = hooks.pop(key)
    return handle


def before_forward(module: Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments of forward after the pre-hooks."""
    for hook, with_kwargs in tuple(module._forward_pre_hooks.values()):
        if not with_kwargs:
            replaced = hook(module, args)
            args = args if replaced is None else replaced if isinstance(replaced, tuple) else (replaced,)
        elif (both := hook(module, args, kwargs)) is not None:
            if not (isinstance(both, tuple) and len(both) == 2):
                raise DtypeError(
                    f"a forward pre-hook with kwargs returned {type(both).__name__}.\n"
                    f"Return None, or the new (args, kwargs)."
                )
            args, kwargs = both
    return args, kwargs


def after_forward(module: Module, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
    """The output of forward after the hooks."""
    for hook, with_kwargs in tuple(module._forward_hooks.values()):
        replaced = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
        output = output if replaced is None else replaced
    return output


class BackwardHooks:
    """The backward hooks of one call of a module: its inputs and its outputs each pass a boundary.

    In backward the outer boundary gets the outputs' gradients first, and the inner one the inputs' last.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.before = [hook for hook, is_before in module._backward_hooks.values() if is_before]
        self.after = [hook for hook, is_before in module._backward_hooks.values() if not is_before]
        self.grad_output: tuple | None = None  # while backward is between the two boundaries

    def around_inputs(self, args: tuple) -> tuple:
        self.inputs = args
        return _through(args, self._at_inputs) if self.after else args

    def around_outputs(self, output: Any) -> Any:
        """The output, whose gradient the hooks see: of a tensor, or of the tensors in a tuple."""
        outputs = output if isinstance(output, tuple) else (output,)
        outputs = _through(outputs, self._before_backward)
        return outputs if isinstance(output, tuple) else outputs[0]

    def _before_backward(self, grad_output: tuple) -> tuple:
        for hook in self.before:
            grad_output = _replaced(grad_output, hook(self.module, grad_output), "grad_output")
        self.grad_output = grad_output
        if not any(map(_needs_grad, self.inputs)):  # their boundary will not be reached
            self._after_backward((None,) * len(self.inputs))
        return grad_output

    def _at_inputs(self, grad_input: tuple) -> tuple:
        """As in PyTorch, hooks see zeros for a tensor that no gradient came to."""
        pairs = zip(self.inputs, grad_input, strict=True)
        is_idle = lambda x, g: g is None and isinstance(x, Tensor)
        return self._after_backward(tuple(zeros_like(x) if is_idle(x, g) else g for x, g in pairs))

    def _after_backward(self, grad_input: tuple) -> tuple:
        grad_output = self.grad_output
        self.grad_output = None
        if grad_output is not None:  # a second derivative may reach the inputs without the outputs
            for hook in self.after:
                replaced = hook(self.module, grad_input, grad_output)
                grad_input = _replaced(grad_input, replaced, "grad_input")
        return grad_input


def _needs_grad(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _through(values: tuple, pull: Callable[[tuple], tuple]) -> tuple:
    """The values, of which those with a gradient pass one boundary; `pull` sees a gradient for each value."""
    places = [i for i, x in enumerate(values) if _needs_grad(x)]

    def pull_all(gradients: Gradients) -> Gradients:
        at = dict(zip(places, gradients, strict=True))
        pulled = pull(tuple(at.get(i) for i in range(len(values))))
        return [pulled[i] for i in places]

    if not places:
        return values
    passed = dict(zip(places, boundary([values[i] for i in places], pull_all), strict=True))
    return tuple(passed.get(i, x) for i, x in enumerate(values))


def _replaced(gradients: tuple, replaced: Any, name: str) -> tuple:
    """The gradients that a backward hook returned, if any."""
    if replaced is None:
        return gradients
    replaced = replaced if isinstance(replaced, tuple) else (replaced,)
    shapes, given = ([None if g is None else g.shape for g in some] for some in (gradients, replaced))
    if any(a is not None and a != b for a, b in zip(shapes, given, strict=False)) or len(shapes) != len(
        given
    ):
        raise ShapeError(
            f"a backward hook returned gradients of shapes {given} for a {name} of shapes {shapes}.\n"
            f"Return a tuple of gradients of the same shapes, or None to leave them unchanged."
        )
    return replaced
