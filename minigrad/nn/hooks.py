"""Forward and backward hooks of modules, as in torch.nn.Module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import DtypeError, ShapeError
from ..core.frames import warn
from ..core.hooks import Handle, check_hook
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
    handle = Handle(hooks, Hook(check_hook(function), flag, always))
    for key in list(hooks)[:-1] if prepend else ():
        hooks[key] = hooks.pop(key)
    return handle


def before_forward(module: Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Run the forward pre-hooks, and return the arguments for forward."""
    try:
        for hook, with_kwargs, _ in tuple(module._forward_pre_hooks.values()):
            if not with_kwargs:
                replaced = hook(module, args)
                args = args if replaced is None else replaced if isinstance(replaced, tuple) else (replaced,)
            elif (both := hook(module, args, kwargs)) is not None:
                if not (isinstance(both, tuple) and len(both) == 2):
                    raise DtypeError(
                        f"a forward pre-hook with kwargs must return None or a pair, got "
                        f"{type(both).__name__}.\nReturn None, or the new (args, kwargs)."
                    )
                args, kwargs = both
    except Exception:
        after_error(module, args, kwargs)
        raise
    return args, kwargs


def after_forward(module: Module, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
    """Run the forward hooks, and return the output."""
    hooks = iter(tuple(module._forward_hooks.values()))
    try:
        for hook in hooks:
            output = _replaced_output(hook, module, args, kwargs, output)
    except Exception:
        after_error(module, args, kwargs, output, hooks)
        raise
    return output


def after_error(
    module: Module,
    args: tuple,
    kwargs: dict[str, Any],
    output: Any = None,
    hooks: Iterable[Hook] | None = None,
) -> None:
    """Run the remaining `hooks` (None: all) that have `always_call`; an error in one becomes a warning."""
    for hook in tuple(module._forward_hooks.values() if hooks is None else hooks):
        try:
            output = _replaced_output(hook, module, args, kwargs, output) if hook.always else output
        except Exception as error:
            warn(
                f"a forward hook with always_call=True raised {type(error).__name__} after another error: "
                f"{error}\nLet the hook accept None as the output."
            )


def _replaced_output(hook: Hook, module: Module, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
    found = hook.function(module, args, *([kwargs] if hook.flag else []), output)
    return output if found is None else found


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
    """Check and return the gradients that a backward hook returned, or `gradients` if it returned None."""
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
