"""Checks of what users' rules, and their gradient functions, return.

They run at each call, and an error says what to write instead. `gradcheck` checks the numbers. minigrad's own
rules have tests instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import FunctionType
from typing import Any

import numpy as np

from .closures import root
from .devices import is_array
from .errors import DtypeError, MinigradError, OptionError, ShapeError, counted
from .tensor import Tensor

TESTED = ("minigrad.", "minitransformer.")  # packages whose rules have tests
RETURNS = (
    "Return `value, (gradient of x, gradient of y, ...)`: functions of g, or None where there is no gradient."
)
COMPUTE = (
    "A rule gets NumPy arrays and returns them: call np.sin, or, for higher derivatives and GPUs, xp.sin "
    "with `from minigrad.core.namespace import namespace; xp = namespace(x)`. Pass a Tensor that it needs "
    "as an argument."
)


def checked_rule(rule: Any, source: Any, view: bool = False) -> Any:
    """Wrap a user's rule in checks; return a rule of the library, or None, unchanged.

    `source` is the rule itself, or for a kernel, the rule or definition that it replaces; a kernel may return
    None. A rule's value gets its own memory, except for a `view`.
    """
    if rule is None or not is_user_defined(rule):
        return rule
    check_rule_signature(source)
    name = source.__name__

    @wraps(rule)
    def call(*arrays: Any, **settings: Any) -> Any:
        of_tensors = any(isinstance(x, Tensor) for x in arrays)  # for a higher derivative
        if not of_tensors:
            settings = {k: x.array if isinstance(x, Tensor) else x for k, x in settings.items()}
        try:
            result = rule(*arrays, **settings)
        except MinigradError:
            raise
        except (AttributeError, TypeError) as error:  # x.exp(), math.exp(x)
            raise DtypeError(f"the rule of {name} failed: {str(error).rstrip('.')}.\n{COMPUTE}") from error
        except ValueError as error:
            raise ShapeError(
                f"the rule of {name} failed: {str(error).rstrip('.')}.\n"
                f"Look at the line of the rule that the traceback shows. Choose element by element with "
                f"np.where(x > 0, a, b), not `if x > 0:`."
            ) from error
        if result is None and rule is not source:
            return None
        value, gradients = _parts(name, result)
        if not of_tensors:
            _check_value(name, value)
            value = value if view else apart(value, arrays)
        return value, _checked_gradients(name, gradients, arrays)

    return call


def is_user_defined(rule: Any) -> bool:
    """Whether a rule, or the definition of a composite op, is not part of minigrad or minitransformer."""
    return not (getattr(rule, "__module__", None) or "").startswith(TESTED)


def check_rule_signature(rule: Any) -> None:
    """Raise an OptionError if `rule` is not a function, or has no arrays before a `/`."""
    if isinstance(rule, type) or not callable(rule) or not hasattr(rule, "__name__"):
        raise OptionError(
            f"an op is made from a function, and {getattr(rule, '__name__', rule)} is not one.\n"
            f"Write one function that returns the value and its gradients (docs/your-own.md)."
        )
    parameters = list(inspect.signature(rule).parameters.values())
    arrays = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
    name = rule.__name__
    if not arrays:
        names = ", ".join(p.name for p in parameters)
        raise OptionError(
            f"the rule of {name} has no arrays: those are the parameters before a `/`.\n"
            f"Write `def {name}({names or 'x'}, /):`, with settings after the `/`."
        )
    if arrays[0].name in ("ctx", "self"):
        raise OptionError(
            f"the rule of {name} takes {arrays[0].name}, but minigrad passes none.\n"
            f"Take only the arrays; a gradient function can use the rule's variables."
        )


def _takes(function: Any, count: int) -> bool:
    """Whether a function accepts `count` arguments; True if unknown."""
    if type(function) is not FunctionType:
        return callable(function)
    code = function.__code__
    if code.co_flags & inspect.CO_VARARGS:
        return True
    return code.co_argcount - len(function.__defaults__ or ()) <= count <= code.co_argcount


def _parts(name: str, result: Any) -> tuple[Any, Any]:
    if type(result) is tuple and len(result) == 2:
        return result
    what = "nothing" if result is None else f"{type(result).__name__}"
    if type(result) is tuple:
        what = f"{counted(len(result), 'thing')}"
    raise OptionError(
        f"the rule of {name} must return a value and its gradients, but returned {what}.\n{RETURNS}"
    )


def _check_value(name: str, value: Any) -> None:
    for part in value if type(value) is tuple else (value,):
        if isinstance(part, Tensor):
            raise OptionError(
                f"the rule of {name} returned a Tensor: it called an op of minigrad's.\n{COMPUTE}"
            )
        if not (is_array(part) or isinstance(part, np.generic | float | int)):
            raise OptionError(
                f"the value of the rule of {name} must be an array, got {type(part).__name__}.\n"
                f"Return an array, or a tuple of arrays for several results."
            )


def apart(value: Any, arrays: Sequence[Any]) -> Any:
    """Return a value with its own memory: a copy if it is an argument or a view of one."""
    if type(value) is tuple:
        return tuple([apart(part, arrays) for part in value])
    if not is_array(value):
        return value
    memory = root(value)
    shared = any(is_array(x) and root(x) is memory for x in arrays)
    return value.copy() if shared else value


def _checked_gradients(name: str, gradients: Any, arrays: Sequence[Any]) -> Any:
    """Check a rule's gradient functions, and wrap them to check what they return."""
    dtypes = [getattr(x, "dtype", None) for x in arrays]
    if type(gradients) is tuple:
        if len(gradients) != len(arrays):
            raise OptionError(
                f"the rule of {name} has {counted(len(arrays), 'array')} but returned "
                f"{counted(len(gradients), 'gradient')}.\n"
                f"Return one for each array, or None for one that has no gradient."
            )
        for f in gradients:
            if not (f is None or _takes(f, 1)):
                what = "one of other arguments" if callable(f) else type(f).__name__
                raise OptionError(
                    f"a gradient of the rule of {name} must be a function of g, got {what}.\n"
                    f"Write `lambda g: g * ...` for each array, or None."
                )
        return tuple(f and partial(_pull, name, f, dtype) for f, dtype in zip(gradients, dtypes, strict=True))
    if gradients is None:
        return None
    if not callable(gradients):
        raise OptionError(
            f"the gradients of the rule of {name} must be a tuple, got {type(gradients).__name__}.\n{RETURNS}"
        )
    if not _takes(gradients, 2):
        raise OptionError(
            f"the rule of {name} returned one function of g instead of a tuple of functions.\n"
            f"Write `(lambda g: ...,)`, with a comma, or a function of (g, needs) that returns a tuple."
        )
    return partial(_pull_all, name, gradients, dtypes)


def _pull(name: str, function: Callable, dtype: Any, g: Any) -> Any:
    """The gradient function(g) of one array, checked."""
    return _checked_copy(name, function(g), dtype, g)


def _pull_all(name: str, function: Callable, dtypes: Sequence[Any], g: Any, needs: Sequence[bool]) -> Any:
    """The gradients function(g, needs) of all arrays, checked."""
    found = function(g, needs)
    if not isinstance(found, tuple | list) or len(found) != len(needs):
        several = isinstance(found, tuple | list)
        what = f"{counted(len(found), 'gradient')}" if several else type(found).__name__
        raise OptionError(
            f"the gradient function of {name} returned {what} for {counted(len(needs), 'array')}.\n"
            f"Return a tuple with a gradient for each array, None where `needs` says that none is needed."
        )
    return [
        _checked_copy(name, part, dtype, g) if needed and part is not None else None
        for part, dtype, needed in zip(found, dtypes, needs, strict=True)
    ]


def _checked_copy(name: str, gradient: Any, dtype: Any, g: Any) -> Any:
    """Check a gradient, and return a copy in its array's dtype, as the engine may add to it in place."""
    of_tensors = isinstance(next(x for x in g if x is not None) if type(g) is list else g, Tensor)
    if isinstance(gradient, Tensor):
        if of_tensors:
            return gradient
        raise OptionError(
            f"the gradient of {name} returned a Tensor: it called an op of minigrad's.\n{COMPUTE}"
        )
    if not (is_array(gradient) or isinstance(gradient, np.generic)):
        raise OptionError(
            f"the gradient of {name} must return an array, got {type(gradient).__name__}.\n"
            f"Return g times the derivative, of the input's shape; if there is no gradient, write None "
            f"instead of the function."
        )
    return gradient.astype(gradient.dtype if dtype is None else dtype)
