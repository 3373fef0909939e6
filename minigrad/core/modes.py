"""The modes that change how operations run: grad mode, fused kernels, autocast, observers; and scopes.

Each thread and each asynchronous task has its own. A `Switch` changes one, for a `with` block or a decorated
function, and restores it afterwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

from .errors import DtypeError, OptionError
from .generator_context import within


@dataclass(slots=True)
class Modes:
    """How operations run. Instances are replaced, never changed."""

    grad_enabled: bool = True  # whether operations are recorded for backward()
    fused: bool = True  # whether ops run their kernels, or their rules and readable definitions
    autocast_dtype: Any = None  # the dtype of matrix products, see `precision`
    observers: tuple[Any, ...] = ()  # see `observers`
    data_moves: bool = False  # whether CPU data moves to the GPU of other inputs

    def replaced(self, **changes: Any) -> Modes:
        """These modes with some changes."""
        new = Modes(self.grad_enabled, self.fused, self.autocast_dtype, self.observers, self.data_moves)
        for name, value in changes.items():
            setattr(new, name, value)
        return new

    def with_grad(self, enabled: bool) -> Modes:
        """These modes with grad mode enabled or not; for the usual modes, an existing instance."""
        if self.grad_enabled is enabled:
            return self
        if self is WITHOUT_GRAD or self is USUAL:
            return USUAL if enabled else WITHOUT_GRAD
        return self.replaced(grad_enabled=enabled)


USUAL, WITHOUT_GRAD = Modes(), Modes(grad_enabled=False)
current_modes = ContextVar("modes", default=USUAL)


class _Modes:
    """The current modes as attributes, which can be set."""

    def __getattr__(self, name: str) -> Any:
        return getattr(current_modes.get(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        now = current_modes.get()
        if getattr(now, name) is not value:
            current_modes.set(now.replaced(**{name: value}))


modes = _Modes()


class Scope:
    """A part of a program, within another: one call of a module, or a part named by the user.

    `part` is a weak reference to the module, a name, or BACKWARD: the gradient of what `parent` recorded.
    """

    __slots__ = ("parent", "part")  # no __init__: each call of a module makes one

    part: Any
    parent: Scope | None


BACKWARD = object()
current_scope: ContextVar[Scope | None] = ContextVar("scope", default=None)


class Switch:
    """Sets `state.name` to `value` in a `with` block, or in a function that it decorates.

    An object can be entered any number of times, also recursively. `at_once` sets the value immediately, as
    `torch.set_grad_enabled(False)` does; leaving a `with` block of that object restores the previous value.
    """

    def __init__(self, state: Any, name: str, value: Any = None, at_once: bool = False) -> None:
        self.state = state
        self.name = name
        self.value = value
        self.before: list[Any] = []  # one for each open `with`
        self.is_set = at_once
        if at_once and isinstance(getattr(state, name), bool) and not isinstance(value, bool):
            raise DtypeError(f"{type(self).__name__} takes True or False, not {value!r}.\nPass one of them.")
        if at_once:
            self._set()

    def _new_value(self, current: Any) -> Any:
        """The value to set, which a subclass may derive from the current one."""
        return self.value

    def _read(self) -> Any:
        return getattr(self.state, self.name)

    def _write(self, value: Any) -> None:
        setattr(self.state, self.name, value)

    def _set(self) -> None:
        self.before.append(self._read())
        self._write(self._new_value(self.before[-1]))

    def __enter__(self) -> Any:
        if not self.is_set:  # `with set_grad_enabled(False):` is set when it is constructed
            self._set()
        self.is_set = False
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.before:
            raise OptionError(f"__exit__ called before __enter__.\nWrite `with {type(self).__name__}():`.")
        self._write(self.before.pop())

    def __call__(self, function: Callable) -> Callable:
        is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        if is_async or isinstance(function, type) or not callable(function):
            name = type(self).__name__
            given = getattr(function, "__name__", repr(function))
            what = f"{name} decorates functions, but {given} is a class, asynchronous or not a function"
            raise OptionError(f"{what}.\nWrite `with {name}(...):` inside its body.")
        if self.is_set:  # a decorator changes nothing outside the function
            self.__enter__()
            self.__exit__()
        if inspect.isgeneratorfunction(function):
            return within(self._copy, function)

        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self._copy():  # not shared by threads that call the function
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

    def _read(self) -> bool:
        return current_modes.get().grad_enabled

    def _write(self, value: bool) -> None:
        current_modes.set(current_modes.get().with_grad(value))


class no_grad(_GradSwitch):
    """Disables gradient recording, in a `with` block or a decorated function (torch.no_grad).

    >>> w = mg.tensor([1.0], requires_grad=True)
    >>> with mg.no_grad():
    ...     y = w * 2
    >>> y.requires_grad
    False
    """

    mode = False


class enable_grad(_GradSwitch):
    """Enables gradient recording, in a `with` block or a decorated function (torch.enable_grad)."""

    mode = True


class set_grad_enabled(Switch):
    """`set_grad_enabled(False)` disables recording: immediately, in a `with`, or in a decorated function."""

    def __init__(self, mode: bool) -> None:
        super().__init__(modes, "grad_enabled", mode, at_once=True)


def is_grad_enabled() -> bool:
    """Whether operations are recorded."""
    return modes.grad_enabled


class fused(Switch):
    """`fused(False)` disables kernels: immediately, in a `with` block, or in a decorated function."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(modes, "fused", enabled, at_once=True)

    @staticmethod
    def is_enabled() -> bool:
        return modes.fused


class named_scope(Switch):
    """Operations recorded within `with named_scope("scores"):` form a group in graphs (jax.named_scope)."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise OptionError(f"a scope's name must be a string, got {name!r}.\nWrite named_scope('scores').")
        super().__init__(current_scope, "", name)

    def _read(self) -> Any:
        return current_scope.get()

    def _write(self, value: Any) -> None:
        current_scope.set(value)

    def _new_value(self, current: Scope | None) -> Scope:
        return scope_of(self.value, current)


def scope_of(part: Any, parent: Scope | None) -> Scope:
    """A new scope within `parent`."""
    found = Scope()
    found.part = part
    found.parent = parent
    return found
