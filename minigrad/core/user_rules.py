"""Checks of users' rules when they run: what a rule returns, and what its gradients return.

An error says what to write, at the call where the mistake is; `gradcheck` checks the numbers. After its
gradients have passed a few times, a rule runs without checks, as the library's tested rules do.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from types import CodeType, FunctionType
from typing import Any, NoReturn

import numpy as np

from .closures import closure_of, holds, root
from .devices import is_array
from .errors import DtypeError, MinigradError, OptionError, ShapeError, counted
from .modes import modes
from .observers import unobserved
from .tensor import Tensor

TESTED = ("minigrad.", "minitransformer.")  # packages whose rules have tests
PASSES = 3  # correct gradients before a rule is trusted
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

    `source` is the rule itself, or the definition whose kernel it is: a kernel may return None. A rule's
    value gets its own memory, except for a `view`.
    """
    if rule is None or not is_users(rule):
        return rule
    check_rule_signature(source)
    name = source.__name__
    is_first = True
    trusts: dict[Any, _Trust] = defaultdict(_Trust)  # by dtype

    @wraps(rule)
    def call(*arrays: Any, **settings: Any) -> Any:
        nonlocal is_first
        if modes.observers:  # they see a rule's results, not its inner steps
            return _with_unobserved_gradients(_run_unobserved(call, *arrays, **settings))
        trust = trusts[next((x.dtype for x in arrays if hasattr(x, "dtype")), None)]
        if trust.passes >= PASSES and not settings and not _some_tensor(arrays):
            result = rule(*arrays)
            if result is None and rule is not source:
                return None
            value, gradients = _parts(name, result)
            _check_value(name, value)
            _check_count(name, gradients, arrays)
            return (value if view else apart(value, arrays)), gradients
        if _some_tensor(arrays):  # run again for a higher derivative
            value, gradients = _parts(name, rule(*arrays, **settings))
            return value, _checked_gradients(name, gradients, arrays, trust)
        if settings:
            settings = {k: x.array if isinstance(x, Tensor) else x for k, x in settings.items()}
        try:
            if is_first:
                is_first = not any(is_array(x) and x.size for x in arrays)
                result = _call_without_changes(name, rule, arrays, settings)
            else:
                result = rule(*arrays, **settings)
        except MinigradError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            _raise_rule_error(name, error)
        if result is None and rule is not source:
            return None
        value, gradients = _parts(name, result)
        _check_value(name, value)
        for function in gradients if type(gradients) is tuple else (gradients,):
            if _some_tensor(closure_of(function)):
                what = f"the rule of {name} keeps a Tensor for its gradient: it called an op of minigrad's"
                raise OptionError(f"{what}.\n{COMPUTE}")
        value = value if view else apart(value, arrays)
        return value, _checked_gradients(name, gradients, arrays, trust)

    return call


def is_users(rule: Any) -> bool:
    """Whether a rule, or the definition of a composite op, is not one of the library's."""
    return not (getattr(rule, "__module__", None) or "").startswith(TESTED)


def _run_unobserved(function: Callable, *args: Any, **settings: Any) -> Any:
    with unobserved():
        return function(*args, **settings)


def _with_unobserved_gradients(result: Any) -> Any:
    if type(result) is not tuple or len(result) != 2:
        return result
    value, gradients = result
    if type(gradients) is tuple:
        return value, tuple(f and partial(_run_unobserved, f) for f in gradients)
    return value, gradients and partial(_run_unobserved, gradients)


class _Trust:
    """How many gradients of a rule were correct; after one that was not, every call is checked."""

    passes: float = 0


def _some_tensor(values: Sequence[Any]) -> bool:
    return any([isinstance(x, Tensor) for x in values])  # noqa: C419 (faster than a generator)


def _call_without_changes(name: str, rule: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
    """rule(*arrays, **settings), which raises if it changes an array in place."""
    copies = [x.copy() if is_array(x) else None for x in arrays]
    result = rule(*arrays, **settings)
    for number, (x, before) in enumerate(zip(arrays, copies, strict=True)):
        if before is not None and bool(((x != before) & ((x == x) | (before == before))).any()):
            x[...] = before
            raise OptionError(
                f"the rule of {name} changed its array {number} in place.\n"
                f"Compute a new array: x = x + 1, not x += 1."
            )
    return result


def check_rule_signature(rule: Any) -> None:
    """Raise if something is not a rule, before it is called."""
    if isinstance(rule, type) or not callable(rule) or not hasattr(rule, "__name__"):
        raise OptionError(
            f"an op is made from a function, and {getattr(rule, '__name__', rule)} is not one.\n"
            f"Write one function that returns the value and its gradients (docs/your-own-op.md)."
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
    if type(function) is FunctionType:
        return _code_takes(function.__code__, len(function.__defaults__ or ()), count)
    return callable(function)


@lru_cache(maxsize=256)
def _code_takes(code: CodeType, defaults: int, count: int) -> bool:
    most = count if code.co_flags & inspect.CO_VARARGS else code.co_argcount
    return code.co_argcount - defaults <= count <= most


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
    """A value with its own memory: copied if it is an argument or a view of one."""
    if type(value) is tuple:
        return tuple([apart(part, arrays) for part in value])
    if not is_array(value):
        return value
    memory = root(value)
    shared = any(is_array(x) and root(x) is memory for x in arrays)
    return value.copy() if shared else value


def _checked_gradients(name: str, gradients: Any, arrays: Sequence[Any], trust: _Trust) -> Any:
    """The gradient functions, with a check of what each returns."""
    if gradients is None:
        return None
    if type(gradients) is tuple:
        for f in gradients:
            if not (f is None or _takes(f, 1)):
                what = "one of other arguments" if callable(f) else type(f).__name__
                raise OptionError(
                    f"a gradient of the rule of {name} must be a function of g, got {what}.\n"
                    f"Write `lambda g: g * ...` for each array, or None."
                )
        _check_count(name, gradients, arrays)
        return tuple(
            None if f is None else partial(_pull, name, f, getattr(x, "dtype", None), trust)
            for f, x in zip(gradients, arrays, strict=True)
        )
    if not callable(gradients):
        raise OptionError(
            f"the gradients of the rule of {name} must be a tuple, got {type(gradients).__name__}.\n{RETURNS}"
        )
    if not _takes(gradients, 2):
        raise OptionError(
            f"the rule of {name} returned one function of g instead of a tuple of functions.\n"
            f"Write `(lambda g: ...,)`, with a comma, or a function of (g, needs) that returns a tuple."
        )
    return partial(_pull_all, name, gradients, len(arrays), trust)


def _check_count(name: str, gradients: Any, arrays: Sequence[Any]) -> None:
    if type(gradients) is tuple and len(gradients) != len(arrays):
        raise OptionError(
            f"the rule of {name} has {counted(len(arrays), 'array')} but returned "
            f"{counted(len(gradients), 'gradient')}.\n"
            f"Return one for each array, or None for one that has no gradient."
        )


def _pull(name: str, function: Callable, dtype: Any, trust: _Trust, g: Any) -> Any:
    """function(g), which must return an array of the input's dtype."""
    found = function(g)
    _check_gradient(name, found, g)
    if _is_kept(found, function):
        trust.passes = -np.inf
        found = found.copy()
    if dtype is not None and is_array(found) and found.dtype != dtype:
        trust.passes = -np.inf
        return found.astype(dtype)
    trust.passes += 1
    return found


def _pull_all(name: str, function: Callable, count: int, trust: _Trust, g: Any, needs: Sequence[bool]) -> Any:
    """function(g, needs), which must return a gradient for each array."""
    found = function(g, needs)
    if not isinstance(found, tuple | list) or len(found) != count:
        what = (
            f"{counted(len(found), 'gradient')}" if isinstance(found, tuple | list) else type(found).__name__
        )
        raise OptionError(
            f"the gradient function of {name} returned {what} for {counted(count, 'array')}.\n"
            f"Return a tuple with a gradient for each array, None where `needs` says that none is needed."
        )
    for part, needed in zip(found, needs, strict=False):
        if needed and part is not None:
            _check_gradient(name, part, g)
    if len(set(map(id, found))) < len(found) and any(map(is_array, found)):
        trust.passes = -np.inf
        return _distinct(found)
    if any(_is_kept(part, function) for part in found):
        trust.passes = -np.inf
        return [part.copy() if _is_kept(part, function) else part for part in found]
    trust.passes += 1
    return found


def _is_kept(gradient: Any, function: Callable) -> bool:
    """Whether a gradient shares memory with what the rule keeps: the engine may add to it in place."""
    return is_array(gradient) and holds(function, root(gradient))


def _distinct(found: Sequence[Any]) -> list[Any]:
    """Gradients, with repeated arrays copied: the engine may add to them in place."""
    seen: set[int] = set()
    parts = []
    for part in found:
        parts.append(part.copy() if is_array(part) and id(part) in seen else part)
        seen.add(id(part))
    return parts


def _check_gradient(name: str, found: Any, g: Any) -> None:
    of_tensors = isinstance(next(x for x in g if x is not None) if type(g) is list else g, Tensor)
    if isinstance(found, Tensor) and not of_tensors:
        raise OptionError(
            f"the gradient of {name} returned a Tensor: it called an op of minigrad's.\n{COMPUTE}"
        )
    if not isinstance(found, Tensor | np.generic) and not is_array(found):
        raise OptionError(
            f"the gradient of {name} must return an array, got {type(found).__name__}.\n"
            f"Return g times the derivative, of the input's shape; if there is no gradient, write None "
            f"instead of the function."
        )


def _raise_rule_error(name: str, error: Exception) -> NoReturn:
    """Re-raise an error of NumPy or Python in a rule, with advice."""
    said = " ".join(str(error).split()).rstrip(".")
    kind: type[MinigradError] = DtypeError
    advice = "Look at the line of the rule that the traceback shows."
    if "object has no attribute" in said or "can be converted to Python scalars" in said:
        advice = COMPUTE  # x.exp(), math.exp(x)
    elif "truth value" in said:
        kind = ShapeError
        advice = "Choose element by element: np.where(x > 0, a, b), not `if x > 0:`."
    elif isinstance(error, ValueError):
        kind = ShapeError
        advice = "Look at the shapes in the line of the rule that the traceback shows."
    raise kind(f"the rule of {name} failed: {said}.\n{advice}") from error
