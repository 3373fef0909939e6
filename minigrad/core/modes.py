"""The modes that change how operations run: recording, fused kernels, autocast, scopes, observers.

Each thread has its own `modes`. A mode is changed by a `Switch`, for a `with` or for a decorated function,
and restored afterwards.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from .errors import DtypeError, OptionError
from .generator_context import within


class Scope:
    """A part of a program within another: one call of a module, or what a user named.

    `part` is a weak reference to the module, a name, or BACKWARD: the gradient of what `parent` recorded.
    """

    __slots__ = ("parent", "part")  # and no __init__: a module's call makes one each time

    part: Any
    parent: Scope | None


BACKWARD = object()


class _Modes(threading.local):
    def __init__(self) -> None:
        self.grad_enabled = True  # whether operations are recorded for backward()
        self.fused = True  # whether ops run their kernels, or their rules and readable definitions
        self.autocast_dtype: Any = None  # what matrix products compute in, see `precision`
        self.scope: Scope | None = None  # the part of the program that is running
        self.observers: tuple[Any, ...] = ()  # who sees each result and gradient, see `observers`
        self.data_moves = False  # whether data on the CPU moves to the GPU that other inputs are on


modes = _Modes()


class Switch:
    """Sets `state.name` to `value` for a `with`, or for a function that it decorates.

    One object can be entered any number of times, also within itself. `at_once` sets the value from now on,
    as `torch.set_grad_enabled(False)` does; leaving a `with` on that object restores what was before.
    """

    def __init__(self, state: Any, name: str, value: Any = None, at_once: bool = False) -> None:
        self.state = state
        self.name = name
        self.value = value
        self.before: list[Any] = []  # a value for each `with` that is open
        self.is_set = at_once
        if at_once and isinstance(getattr(state, name), bool) and not isinstance(value, bool):
            raise DtypeError(f"{type(self).__name__} takes True or False, not {value!r}.\nPass one of them.")
        if at_once:
            self._set()

    def new_value(self, current: Any) -> Any:
        """What to set; a subclass may derive it from the current value."""
        return self.value

    def _set(self) -> None:
        self.before.append(getattr(self.state, self.name))
        setattr(self.state, self.name, self.new_value(self.before[-1]))

    def __enter__(self) -> Any:
        if not self.is_set:  # `with set_grad_enabled(False):` has been set already when it was made
            self._set()
        self.is_set = False
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.before:
            raise OptionError(f"__exit__ called before __enter__.\nWrite `with {type(self).__name__}():`.")
        setattr(self.state, self.name, self.before.pop())

    def __call__(self, function: Callable) -> Callable:
        is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        if is_async or isinstance(function, type) or not callable(function):
            name = type(self).__name__
            given = getattr(function, "__name__", repr(function))
            what = f"{name} decorates functions, and {given} is a class, asynchronous or no function"
            raise OptionError(f"{what}.\nWrite `with {name}(...):` inside its body.")
        if self.is_set:  # a decorator changes nothing outside the function
            self.__enter__()
            self.__exit__()
        if inspect.isgeneratorfunction(function):
            return within(self._copy, function)

        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self._copy():  # threads that call the function do not share one
                return function(*args, **kwargs)

        return wrapper

    def _copy(self) -> Switch:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, before=[], is_set=False)
        return copy


class _GradSwitch(Switch):
    mode: bool

    def __new__(cls, function: Callable | None = None) -> Any:  # `@no_grad` and `@no_grad()`
        switch = super().__new__(cls)
        if function is None:
            return switch
        switch.__init__()  # type: ignore[misc]
        return switch(function)

    def __init__(self) -> None:
        super().__init__(modes, "grad_enabled", self.mode)


class no_grad(_GradSwitch):
    """Within it, or in a function that it decorates, nothing is recorded (torch.no_grad)."""

    mode = False


class enable_grad(_GradSwitch):
    """Within it operations are recorded again (torch.enable_grad)."""

    mode = True


class set_grad_enabled(Switch):
    """`set_grad_enabled(False)` switches recording off: from now on, for a `with`, or in a function."""

    def __init__(self, mode: bool) -> None:
        super().__init__(modes, "grad_enabled", mode, at_once=True)


def is_grad_enabled() -> bool:
    return modes.grad_enabled


class fused(Switch):
    """`fused(False)` runs rules and definitions, no kernels: from now on, for a `with`, or in a function."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(modes, "fused", enabled, at_once=True)

    @staticmethod
    def is_enabled() -> bool:
        return modes.fused


class _ScopeSwitch(Switch):
    def __init__(self, part: Any) -> None:
        super().__init__(modes, "scope", part)

    def new_value(self, current: Scope | None) -> Scope | None:
        scope = Scope()
        scope.part = self.value
        scope.parent = current
        return scope


class named_scope(_ScopeSwitch):
    """What is recorded within `with named_scope("scores"):` is a group of a graph (jax.named_scope)."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise OptionError(f"a scope's name must be a string, got {name!r}.\nWrite named_scope('scores').")
        super().__init__(name)


class backward_scope(_ScopeSwitch):
    """What is recorded within it is the gradient of what the scope `of` recorded.

    If such a scope is open already (a readable definition's gradient takes a gradient itself), it is kept.
    """

    def __init__(self, of: Scope | None = None) -> None:
        super().__init__(BACKWARD)
        self.of = of

    def new_value(self, current: Scope | None) -> Scope | None:
        if current is not None and current.part is BACKWARD and self.of in (None, current):
            return current
        return super().new_value(self.of)
