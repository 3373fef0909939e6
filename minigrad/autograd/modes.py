"""Whether operations are recorded (they are, unless one says otherwise), and for which part of a program."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import OptionError


class Scope:
    """A part of a program within another: one call of a module, or what a user named.

    `part` refers weakly to the module, or is a name, or BACKWARD: the gradient of what `parent` recorded.
    """

    __slots__ = ("parent", "part")

    def __init__(self, part: Any, parent: Scope | None) -> None:
        self.part, self.parent = part, parent


BACKWARD = object()


class _GradMode(threading.local):
    enabled = True
    scope: Scope | None = None  # where nodes belong that are recorded now
    autocast: Any = None  # the dtype of products, see `precision`


grad_mode = _GradMode()


@contextlib.contextmanager
def autocast_to(dtype: Any) -> Iterator[None]:
    """Products compute in `dtype` within it, or, if it is None, in what they are given."""
    before, grad_mode.autocast = grad_mode.autocast, dtype
    try:
        yield
    finally:
        grad_mode.autocast = before


class backward_scope:
    """What is recorded within it is the gradient of what `of` recorded.

    A gradient that takes a gradient on its way (of a readable definition) stays one and the same.
    """

    def __init__(self, of: Scope | None = None) -> None:
        self.of = of

    def __enter__(self) -> None:
        self.outer = grad_mode.scope
        within = self.outer is not None and self.outer.part is BACKWARD
        if not (within and (self.of is None or self.of is self.outer)):
            grad_mode.scope = Scope(BACKWARD, self.of)

    def __exit__(self, *exc: object) -> None:
        grad_mode.scope = self.outer


class named_scope(contextlib.ContextDecorator):
    """What is recorded within `with named_scope("scores"):`, or in a function that it decorates, stands
    together in a graph (jax.named_scope)."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise OptionError(f"a scope's name is a text, got {name!r}.\nWrite named_scope('scores'), say.")
        self.name = name

    def __enter__(self) -> None:
        grad_mode.scope = Scope(self.name, grad_mode.scope)

    def __exit__(self, *exc: object) -> None:
        assert grad_mode.scope is not None
        grad_mode.scope = grad_mode.scope.parent


def is_grad_enabled() -> bool:
    return grad_mode.enabled


class set_grad_enabled:
    """`set_grad_enabled(False)` switches recording off: from now on, in a `with`, or in what it decorates."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.before, grad_mode.enabled = grad_mode.enabled, mode

    def __enter__(self) -> None:
        grad_mode.enabled = self.mode

    def __exit__(self, *exc: object) -> None:
        grad_mode.enabled = self.before

    def __call__(self, function: Callable) -> Callable:
        grad_mode.enabled = self.before

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(self.mode):
                return function(*args, **kwargs)

        return wrapped


class _Within:
    """A context manager, and decorator with or without parentheses, that switches recording on or off."""

    mode: bool

    def __new__(cls, function: Callable | None = None) -> Any:
        instance = super().__new__(cls)
        return instance if function is None else instance(function)

    def __enter__(self) -> None:
        self.before, grad_mode.enabled = grad_mode.enabled, self.mode

    def __exit__(self, *exc: object) -> None:
        grad_mode.enabled = self.before

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return function(*args, **kwargs)

        return wrapped


class no_grad(_Within):
    """Within it (or in a function it decorates) nothing is recorded."""

    mode = False


class enable_grad(_Within):
    """Within it operations are recorded again."""

    mode = True
